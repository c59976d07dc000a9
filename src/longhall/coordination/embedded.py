"""The coordination tree of a single machine: one process stores it in its data directory, without ZooKeeper.

A commit is on the disk before anyone sees it. Commits run one at a time. After a failed sync the state on the disk is
unknown, so every later commit has an unknown outcome until the process restarts. Sessions end when they are closed, or
with the process.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import final

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.nodes import CHILDREN, DATA, Event, Nodes
from longhall.coordination.ports import Expired, OutcomeUnknown, Session
from longhall.coordination.tree import Fired, Node, OnSession, Operation
from longhall.coordination.tree_file import load, publish, stage
from longhall.world.ports import Disk


def embedded_coordinator(disk: Disk) -> TreeCoordinator:
    """The coordinator of a single node. Raises LonghallError if the saved tree cannot be read."""
    return TreeCoordinator(EmbeddedTree(EmbeddedStore(disk)))


@final
class EmbeddedStore:
    """The one tree of a machine. Every `EmbeddedTree` over it is a session of its own."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._nodes = load(disk)
        self._turn = asyncio.Lock()
        self._broken = False
        self._sessions: set[int] = set()
        self._sessions_begun = 0
        self._watches: dict[Event, dict[int, tuple[int, Fired]]] = defaultdict(dict)
        self._watches_made = 0
        self._running: set[asyncio.Task[object]] = set()

    @property
    def nodes(self) -> Nodes:
        """The whole tree: saved values and values of sessions."""
        return self._nodes

    def begin_session(self) -> int:
        self._sessions_begun += 1
        self._sessions.add(self._sessions_begun)
        return self._sessions_begun

    async def commit(self, operations: Sequence[Operation], session: int) -> list[int]:
        """Commit operations. A commit that has begun is finished even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(self._commit(operations, session))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def end_session(self, session: int) -> None:
        """End a session and remove its values and its watches."""
        async with self._turn:
            self._sessions.discard(session)
            for event, watches in list(self._watches.items()):
                left = {number: watch for number, watch in watches.items() if watch[0] != session}
                if left:
                    self._watches[event] = left
                else:
                    del self._watches[event]
            self._fire(self._nodes.end_session(session))

    def watch(self, event: Event, session: int, fired: Fired) -> None:
        self._watches_made += 1
        self._watches[event][self._watches_made] = (session, fired)

    async def _commit(self, operations: Sequence[Operation], session: int) -> list[int]:
        async with self._turn:
            if self._broken:
                raise OutcomeUnknown("an earlier change could not be written: restart the process")
            if session not in self._sessions:
                raise Expired("the session is closed")
            after = self._nodes.copy()
            versions, events = after.apply(operations, session)
            await self._save(after)
            self._nodes = after
            self._fire(events)
            return versions

    async def _save(self, nodes: Nodes) -> None:
        try:
            file = stage(self._disk, nodes)
        except OSError as failure:  # The disk may be full. Nothing has changed, and the next commit may succeed.
            raise OutcomeUnknown(f"the change could not be written: {failure}") from failure
        try:
            await publish(self._disk, file)
        except OSError as failure:
            self._broken = True
            raise OutcomeUnknown(f"the change could not be made durable: {failure}") from failure

    def _fire(self, events: Sequence[Event]) -> None:
        for event in events:
            for _, fired in self._watches.pop(event, {}).values():
                fired()


@final
class EmbeddedTree:
    """One session on the store."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._session = 0
        self._on_session: Callable[[Session], None] = _ignore

    @property
    def session_id(self) -> int:
        return self._session

    async def start(self, on_session: OnSession) -> None:
        assert not self._session, "the session has begun"
        self._on_session = on_session
        self._session = self._store.begin_session()
        on_session(Session.CONNECTED)

    async def close(self) -> None:
        session, self._session = self._session, 0
        if session:
            await self._store.end_session(session)
            self._on_session(Session.CLOSED)

    async def make_root(self) -> None:
        """Do nothing: the root always exists."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        self._check_open()
        if fired is not None:
            self._store.watch((DATA, path), self._session, fired)
        return self._store.nodes.get(path)

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        self._check_open()
        names = self._store.nodes.children(path)
        if fired is not None:
            self._store.watch((CHILDREN, path), self._session, fired)
        return names

    async def commit(self, *operations: Operation) -> list[int]:
        self._check_open()
        return await self._store.commit(operations, self._session)

    async def sync(self) -> None:
        """Do nothing: there is only one copy."""
        self._check_open()

    def _check_open(self) -> None:
        if not self._session:
            raise Expired("the session is closed")


def _ignore(session: Session) -> None:
    """The callback before `start`: ignores the change."""
