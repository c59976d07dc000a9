"""The coordination tree in memory, with the semantics of ZooKeeper's commits. Knows nothing of clients.

Pure: no clock, no loop. `apply` does a commit as a whole or refuses it, and returns the events for watches: `("data",
path)` and `("children", path)`. The embedded coordinator has one such tree, and each server of the simulated ensemble
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from longhall.coordination.ports import ABSENT, Conflict
from longhall.coordination.tree import Check, Create, Delete, Node, Operation, Put

ROOT: Final = "/"
DATA: Final = "data"
CHILDREN: Final = "children"
Event = tuple[str, str]


def parent_of(path: str) -> str:
    """The parent path; the root is the parent of all top-level paths."""
    return path.rpartition("/")[0] or ROOT


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


@final
class Nodes:
    """Values by path. `clock` counts the commits."""

    def __init__(self) -> None:
        self.clock = 0
        self._nodes: dict[str, Node] = {ROOT: Node(b"", 0, 0, 0)}
        self._children: dict[str, set[str]] = {ROOT: set()}

    def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        if path not in self._nodes:
            raise Conflict(f"{path} does not exist")
        return sorted(self._children[path])

    def items(self) -> Iterable[tuple[str, Node]]:
        """All values, parents before their children."""
        return sorted(self._nodes.items())

    def owned_by(self, session: int) -> list[str]:
        return sorted(path for path, node in self._nodes.items() if node.owner == session)

    def copy(self) -> Nodes:
        """An independent copy of the tree."""
        other = Nodes()
        other.clock = self.clock
        other._nodes = dict(self._nodes)
        other._children = {path: set(names) for path, names in self._children.items()}
        return other

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[list[int], list[Event]]:
        """Apply a commit: the versions that the operations leave, and the events. Conflict, with nothing changed, if
        any operation is impossible.
        """
        touched = {path for operation in operations for path in (operation.path, parent_of(operation.path))}
        nodes = {path: self._nodes.get(path) for path in touched}
        children = {path: set(self._children[path]) for path in touched if path in self._children}
        versions: list[int] = []
        self.clock += 1
        try:
            for operation in operations:
                versions.append(self._do(operation, session))
        except Conflict:
            self.clock -= 1
            self._undo(nodes, children)
            raise
        return versions, _changed_by(operations)

    def end_session(self, session: int) -> list[Event]:
        """Remove the values of a session."""
        operations = [Delete(path, self._nodes[path].version) for path in self.owned_by(session)]
        return self.apply(operations, 0)[1]

    def put_back(self, path: str, node: Node) -> None:
        """Add a value of a saved tree, parents before their children."""
        if path != ROOT:
            self._children[parent_of(path)].add(name_of(path))
            self._children.setdefault(path, set())
        self._nodes[path] = node

    def _undo(self, nodes: dict[str, Node | None], children: dict[str, set[str]]) -> None:
        for path, node in nodes.items():
            self._nodes.pop(path, None)
            self._children.pop(path, None)
            if node is not None:
                self._nodes[path] = node
                self._children[path] = children[path]

    def _do(self, operation: Operation, session: int) -> int:
        path = operation.path
        if isinstance(operation, Create):
            return self._create(operation, session if operation.ephemeral else 0)
        node = self._nodes.get(path)
        if node is None:
            raise Conflict(f"{path} does not exist")
        if node.version != operation.version:
            raise Conflict(f"{path} has version {node.version}, not {operation.version}")
        if isinstance(operation, Put):
            self._nodes[path] = Node(operation.data, node.version + 1, node.created, node.owner)
            return node.version + 1
        if isinstance(operation, Delete):
            if self._children[path]:
                raise Conflict(f"{path} has children")
            del self._nodes[path], self._children[path]
            self._children[parent_of(path)].remove(name_of(path))
        return ABSENT

    def _create(self, operation: Create, owner: int) -> int:
        path = operation.path
        above = self._nodes.get(parent_of(path))
        if path in self._nodes:
            raise Conflict(f"{path} exists already")
        if above is None:
            raise Conflict(f"{parent_of(path)} does not exist")
        if above.owner:
            raise Conflict(f"{parent_of(path)} belongs to a session and cannot have children")
        self._nodes[path] = Node(operation.data, 0, self.clock, owner)
        self._children[path] = set()
        self._children[parent_of(path)].add(name_of(path))
        return 0


def _changed_by(operations: Sequence[Operation]) -> list[Event]:
    """Each event once, in the order of the operations."""
    events: dict[Event, None] = {}
    for operation in operations:
        if isinstance(operation, Check):
            continue
        events[DATA, operation.path] = None
        if isinstance(operation, Delete):
            events[CHILDREN, operation.path] = None
        if not isinstance(operation, Put):
            events[CHILDREN, parent_of(operation.path)] = None
    return list(events)
