"""The state of the model: nodes with their logs, the coordinator's record, and the history that invariants refer to.

Everything is a tuple, so that states can be compared and hashed. Nodes are numbered from 0; a set of nodes is a bit
mask. A trace shows node 0 as 1, as operators do.

An entry has an epoch, a tag and a note. The protocol knows an entry by epoch and index alone. The tag tells two entries
apart that have the same epoch and index by mistake; only the invariants look at it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NOBODY: Final = -1
NOTHING: Final = 0  # An empty set of nodes; in an entry, no note.


class Entry(NamedTuple):
    """One entry of a log. The entry that begins an epoch carries the note of the replicas as well."""

    epoch: int
    tag: int
    note: int


Log = tuple[Entry, ...]


class Record(NamedTuple):
    """The record of the replication group at the coordinator."""

    leader: int
    epoch: int
    replicas: int
    in_sync: int
    version: int


class Office(NamedTuple):
    """The state of a leader. `begun` is the length of its log before its epoch began."""

    epoch: int
    version: int
    in_sync: int
    asked: int
    replicas: int
    begun: int
    answered: tuple[int, ...]


class Node(NamedTuple):
    """One node. The first six fields outlive a crash, as far as they were synced; the others do not."""

    log: Log
    synced: int
    committed: int
    life: int
    seen: int  # The version of the newest record that it has noted (R11).
    blank: bool  # The directory was never a member's.
    up: bool
    epoch: int  # The newest that it has seen or written.
    leader: int  # The node that it follows.
    agreed: bool  # It has agreed with that leader on a common log.
    halted: bool  # It refuses to follow, because the leader lacks what is committed here.
    heard: Record | None
    office: Office | None


class Coordinator(NamedTuple):
    """The data of ZooKeeper. `given` is the highest assigned epoch, `lives` the last life of each node."""

    record: Record | None
    given: int
    registered: int
    lives: tuple[int, ...]
    progress: tuple[int, int] = (0, 0)  # Epoch and index of what a leader has noted as committed.


class Saved(NamedTuple):
    """A snapshot of a directory, taken while its node ran."""

    log: Log
    committed: int
    life: int
    seen: int


class State(NamedTuple):
    """The whole state. The last fields are history: no transition of the protocol reads them."""

    nodes: tuple[Node, ...]
    coordinator: Coordinator
    backup: Coordinator | None
    saved: tuple[Saved | None, ...]
    spent: tuple[int, ...]  # How often each bounded step was taken, in the order of bounds.KINDS.
    truth: tuple[tuple[Entry, int], ...]  # Committed entries, with the epoch of their commit.
    leaders: tuple[tuple[int, int], ...]  # Epoch and node of leaders that have committed something.
    alone: Log  # The synced log of a leader that was deposed while it could be asked.
    quorum: tuple[int, Log]  # An in-sync set, and what more than half of it have synced.
    broken: str  # The first invariant that was broken, as a sentence.


def bit(node: int) -> int:
    """The set that has only this node."""
    return 1 << node


def members(mask: int) -> list[int]:
    """The nodes of a set, in order."""
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def names(mask: int) -> str:
    """A set of nodes as a trace shows it."""
    return "{" + ",".join(str(node + 1) for node in members(mask)) + "}"


def last_epoch(log: Log) -> int:
    """The epoch of the last entry; 0 if there is none."""
    return log[-1].epoch if log else 0


def notes(log: Log) -> list[tuple[int, int]]:
    """The notes of a log: index (from 1) and replicas."""
    return [(index, entry.note) for index, entry in enumerate(log, 1) if entry.note]


def with_node(state: State, number: int, node: Node) -> State:
    """The state after one node has changed."""
    nodes = state.nodes
    return state._replace(nodes=(*nodes[:number], node, *nodes[number + 1 :]))


def with_record(state: State, record: Record) -> State:
    """The state after the record was changed by compare-and-set; the version is the next one."""
    coordinator = state.coordinator
    before = coordinator.record
    version = before.version + 1 if before is not None else 0
    given = max(coordinator.given, record.epoch)
    changed = coordinator._replace(record=record._replace(version=version), given=given)
    return state._replace(coordinator=changed)


def describe_log(log: Log, synced: int, committed: int) -> str:
    """A log in one line: epochs, notes, `|` behind what is committed, `~` before what is not synced."""
    words: list[str] = []
    for index, entry in enumerate(log, 1):
        if index == synced + 1:
            words.append("~")
        words.append(
            f"{entry.epoch}{chr(96 + entry.tag) if entry.tag else ''}{names(entry.note) if entry.note else ''}"
        )
        if index == committed:
            words.append("|")
    return " ".join(words) or "-"


def describe(state: State) -> list[str]:
    """The state as text: a line for each node and one for the coordinator."""
    lines = []
    for number, node in enumerate(state.nodes):
        role = "down"
        if node.up:
            role = "idle"
            if node.leader != NOBODY:
                role = f"follows {node.leader + 1}" + ("" if node.agreed else " (not agreed)")
            if node.halted:
                role = "halted"
            if node.office is not None:
                asked = f" asked {names(node.office.asked)}" if node.office.asked else ""
                role = f"leads {node.office.epoch} in sync {names(node.office.in_sync)}{asked}"
        lines.append(
            f"node {number + 1}: {role}; epoch {node.epoch}; log {describe_log(node.log, node.synced, node.committed)}"
        )
    record = state.coordinator.record
    if record is None:
        lines.append(f"coordinator: no record; registered {names(state.coordinator.registered)}")
    else:
        leader = str(record.leader + 1) if record.leader != NOBODY else "none"
        lines.append(
            f"coordinator: leader {leader}, epoch {record.epoch}, replicas {names(record.replicas)}, "
            f"in sync {names(record.in_sync)}, version {record.version}; "
            f"registered {names(state.coordinator.registered)}"
        )
    return lines
