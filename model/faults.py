"""The faults: crashes, ended sessions, lost directories and older copies of them, a coordinator that forgets."""

from __future__ import annotations

from collections.abc import Iterator

from model.bounds import Bounds, spend
from model.membership import is_stale
from model.replication import Step
from model.state import (
    NOBODY,
    Coordinator,
    Node,
    Record,
    Saved,
    State,
    bit,
    last_epoch,
    members,
    with_node,
    with_record,
)


def fault_steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Every fault that the bounds still allow."""
    for number, node in enumerate(state.nodes):
        if node.up:
            yield from _ends(state, bounds, number, node)
        else:
            yield from _disk_faults(state, bounds, number, node)
    coordinator = state.coordinator
    nobody = coordinator._replace(registered=0)
    if bounds.allows(state, "lose") and coordinator.record is not None:
        lost = Coordinator(None, 0, 0, (0,) * len(state.nodes))
        yield "the coordinator loses its data", spend(state._replace(coordinator=lost), "lose")
    if bounds.allows(state, "restore"):
        if state.backup is None and coordinator.record is not None:
            yield "a backup of the coordinator is taken", state._replace(backup=nobody)
        elif state.backup is not None and state.backup != nobody:
            if bounds.attended and not all(node.up for node in state.nodes):
                return
            yield (
                "the coordinator is restored from the backup",
                spend(state._replace(coordinator=state.backup), "restore"),
            )


def start_steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Nodes that are down start. This is no fault, and costs nothing."""
    for number, node in enumerate(state.nodes):
        if not node.up and not bounds.lost & bit(number):
            yield from _start(state, bounds, number, node)


def crashed(node: Node, length: int, committed: int) -> Node:
    """The node after a crash: its synced entries, and perhaps more."""
    log = node.log[:length]
    return node._replace(
        log=log,
        synced=length,
        committed=min(committed, length),
        up=False,
        epoch=last_epoch(log),
        leader=NOBODY,
        agreed=False,
        halted=False,
        heard=None,
        office=None,
    )


def _ends(state: State, bounds: Bounds, number: int, node: Node) -> Iterator[Step]:
    name = number + 1
    restored = not bounds.allows(state, "restore") and bounds.attended
    if bounds.allows(state, "crash") and not restored:
        for length in sorted({node.synced, len(node.log)}):
            committed = 0 if bounds.forgets else node.committed
            label = f"node {name} crashes and keeps {length} entries, {committed} known as committed"
            yield label, spend(with_node(state, number, crashed(node, length, committed)), "crash")
    if bounds.allows(state, "session") and state.coordinator.registered & bit(number):
        after = state.coordinator._replace(registered=state.coordinator.registered & ~bit(number))
        yield f"the session of node {name} ends although it lives", spend(state._replace(coordinator=after), "session")
    if bounds.allows(state, "rollback") and state.saved[number] is None and node.synced:
        saved = Saved(node.log[: node.synced], node.committed, node.life, node.seen)
        copies = (*state.saved[:number], saved, *state.saved[number + 1 :])
        yield f"the directory of node {name} is copied", state._replace(saved=copies)


def _disk_faults(state: State, bounds: Bounds, number: int, node: Node) -> Iterator[Step]:
    name = number + 1
    if bounds.allows(state, "wipe") and node.log:
        wiped = crashed(node, 0, 0)._replace(blank=True, life=0, seen=0)
        yield f"the directory of node {name} is lost", spend(_mourned(with_node(state, number, wiped)), "wipe")
    saved = state.saved[number]
    if bounds.progress and state.coordinator.progress[1] < len(state.truth):
        return
    if (
        bounds.allows(state, "rollback")
        and saved is not None
        and saved.log != node.log
        and (bounds.same_life or saved.life < node.life)
    ):
        older = crashed(node._replace(log=saved.log), len(saved.log), saved.committed)
        older = older._replace(life=saved.life, seen=saved.seen)
        yield (
            f"the directory of node {name} becomes its older copy",
            spend(_mourned(with_node(state, number, older)), "rollback"),
        )


def _mourned(state: State) -> State:
    """Entries that no directory has any more are lost by the fault; no protocol can bring them back."""
    kept = max(
        (sum(1 for _ in _agreeing(state, node)) for node in state.nodes),
        default=0,
    )
    return state._replace(truth=state.truth[:kept])


def _agreeing(state: State, node: Node) -> Iterator[int]:
    for index, (entry, _) in enumerate(state.truth):
        if index >= len(node.log) or node.log[index] != entry:
            return
        yield index


def _start(state: State, bounds: Bounds, number: int, node: Node) -> Iterator[Step]:
    name = number + 1
    coordinator = state.coordinator
    life = node.life + 1
    is_copy = "R10" in bounds.rules and coordinator.lives[number] >= life
    lives = (*coordinator.lives[:number], max(life, coordinator.lives[number]), *coordinator.lives[number + 1 :])
    after = state._replace(
        coordinator=coordinator._replace(registered=coordinator.registered | bit(number), lives=lives)
    )
    started = node._replace(up=True, life=max(lives[number], life))
    label = f"node {name} starts"
    record = coordinator.record
    if record is None:
        if "R2" not in bounds.rules:
            made = Record(NOBODY, last_epoch(node.log), bit(number), bit(number), node.seen + 1)
            after = after._replace(coordinator=after.coordinator._replace(record=made, given=made.epoch))
            yield f"{label} and makes itself the only replica", with_node(after, number, started)
        else:
            yield label, with_node(after, number, started)
        return
    if not is_stale(node, record, bounds):
        confessed = _confessed(state, bounds, number, record, is_copy or (node.blank and record.epoch > 0))
        if confessed is None:
            return  # It refuses to start: it alone had all entries.
        if (confessed.leader, confessed.in_sync) != (record.leader, record.in_sync):
            after = with_record(after, confessed)
            label += f"; in sync is {[one + 1 for one in members(confessed.in_sync)]} then"
    yield label, with_node(after, number, started)


def _confessed(state: State, bounds: Bounds, number: int, record: Record, empty: bool) -> Record | None:
    """The record after a node that was stopped uncleanly has left the in-sync set; None if it must not start."""
    others = [one for one in members(record.in_sync) if one != number]
    if record.in_sync & bit(number):
        if empty and not others:
            return None
        if "R9" in bounds.rules:
            leaves = any(_in_good_standing(state, one, record) for one in others)
        else:
            leaves = any(state.coordinator.registered & bit(one) for one in others)
        if empty or leaves:
            record = record._replace(in_sync=record.in_sync & ~bit(number))
    return record._replace(leader=NOBODY) if record.leader == number else record


def _in_good_standing(state: State, number: int, record: Record) -> bool:
    node = state.nodes[number]
    if not node.up:
        return False
    if node.office is not None:
        return node.office.epoch == record.epoch and node.committed > node.office.begun
    return node.agreed and node.leader == record.leader and node.epoch == record.epoch
