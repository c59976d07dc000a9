"""The transitions of the coordinator, the manager, and the nodes that read the record: leaders and replicas.

Every change of the record is a compare-and-set, so it does not matter which node manages; the model has one manager.
Reading the record and acting on it are two steps where the difference matters.
"""

from __future__ import annotations

from collections.abc import Iterator

from model.bounds import Bounds, breaks, spend
from model.replication import Step, advance, fresh_entry, stepped_down
from model.state import (
    NOBODY,
    NOTHING,
    Node,
    Office,
    Record,
    State,
    bit,
    last_epoch,
    members,
    names,
    with_node,
    with_record,
)


def is_stale(node: Node, record: Record, bounds: Bounds) -> bool:
    """True if this replica knows that the record is older than changes that the cluster has made since."""
    if "R3" in bounds.rules and last_epoch(node.log) > record.epoch:
        return True
    return "R11" in bounds.rules and (record.version < node.seen or record.epoch < node.epoch)


def node_steps(state: State, bounds: Bounds, number: int) -> Iterator[Step]:
    """The steps of a node about the record: read it, lead as it says, register."""
    node = state.nodes[number]
    coordinator = state.coordinator
    name = number + 1
    if not coordinator.registered & bit(number):
        seen = coordinator._replace(registered=coordinator.registered | bit(number))
        yield f"node {name} registers", state._replace(coordinator=seen)
        return
    record = coordinator.record
    if record is not None and not is_stale(node, record, bounds):
        after = _heard(state, bounds, number, record)
        if after != state:
            yield f"node {name} hears the record", after
    heard = node.heard
    if (
        heard is not None
        and heard.leader == number
        and node.office is None
        and heard.epoch == node.epoch
        and not is_stale(node, heard, bounds)
    ):
        if heard.epoch <= last_epoch(node.log) or not heard.in_sync & bit(number):
            if record == heard:
                yield f"node {name} declines to lead", with_record(state, record._replace(leader=NOBODY))
            return
        yield f"node {name} begins to lead epoch {heard.epoch}", _begin(state, bounds, number, heard)


def _heard(state: State, bounds: Bounds, number: int, record: Record) -> State:
    node = state.nodes[number]
    if record.epoch < node.epoch:
        return state  # It has seen a newer epoch since its start.
    node = node._replace(heard=record if record.leader == number else None)  # Other nodes have no use for it.
    if "R11" in bounds.rules:
        node = node._replace(seen=record.version)
    office = node.office
    if office is not None and record.leader == number and record.epoch == office.epoch:
        in_sync = record.in_sync | bit(number)
        node = node._replace(heard=None)
        office = office._replace(version=record.version, in_sync=in_sync, asked=NOTHING, replicas=record.replicas)
        return advance(with_node(state, number, node._replace(office=office)), bounds, number)
    if office is not None:
        node = stepped_down(node, record)
    leader = record.leader if record.replicas & bit(number) and record.leader != number else NOBODY
    same = node.agreed and (node.epoch, node.leader) == (record.epoch, leader)
    return with_node(
        state, number, node._replace(epoch=record.epoch, leader=leader, agreed=same, halted=node.halted and same)
    )


def _begin(state: State, bounds: Bounds, number: int, heard: Record) -> State:
    node = state.nodes[number]
    begun = len(node.log)
    entry = fresh_entry(state, begun + 1, heard.epoch, heard.replicas | bit(number))
    office = Office(
        epoch=heard.epoch,
        version=heard.version,
        in_sync=heard.in_sync,
        asked=NOTHING,
        replicas=heard.replicas | bit(number),
        begun=begun,
        answered=(0,) * len(state.nodes),
    )
    leading = node._replace(
        log=(*node.log, entry), office=office, leader=NOBODY, agreed=False, halted=False, heard=None
    )
    return with_node(state, number, leading)


# The manager. It does not matter which node manages: every change is a compare-and-set.


def manager_steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """The steps of the manager: end sessions of dead nodes, drop them from the in-sync set, depose, elect, move."""
    coordinator = state.coordinator
    for number in members(coordinator.registered):
        if not state.nodes[number].up:
            without = coordinator._replace(registered=coordinator.registered & ~bit(number))
            yield f"the session of node {number + 1} ends", state._replace(coordinator=without)
    record = coordinator.record
    if record is None or not any(node.up for node in state.nodes):
        return
    if "R12" in bounds.rules and _is_disputed(state, bounds, record):
        return
    if record.leader == NOBODY:
        if coordinator.given < bounds.epoch_max:
            yield from _elections(state, bounds, record)
        return
    leader = state.nodes[record.leader]
    gone = not coordinator.registered & bit(record.leader)
    if not gone:
        dropped = record.in_sync & ~coordinator.registered & ~bit(record.leader)
        for number in members(dropped) if bounds.allows(state, "drop") else ():
            after = with_record(state, record._replace(in_sync=record.in_sync & ~bit(number)))
            yield f"the manager drops node {number + 1} from the in-sync set", spend(after, "drop")
        yield from _moves(state, bounds, record)
    if coordinator.given >= bounds.epoch_max:
        return
    epoch = max(coordinator.given, record.epoch) + 1
    deposed = with_record(state, record._replace(leader=NOBODY, epoch=epoch))
    label = f"the manager deposes leader {record.leader + 1}; epoch {epoch}"
    if not leader.up:
        yield label, deposed
    elif gone and "R8" not in bounds.rules:
        if leader.office is not None and leader.office.epoch == record.epoch and "I7" in bounds.checks:
            deposed = deposed._replace(alone=leader.log[: leader.synced])
        yield label, deposed
    elif bounds.allows(state, "whim"):
        yield f"{label}, which lives", spend(deposed, "whim")
    yield from _transfers(state, bounds, record, epoch)


def _elections(state: State, bounds: Bounds, record: Record) -> Iterator[Step]:
    registered = state.coordinator.registered
    candidates = members(record.in_sync & registered & record.replicas)
    answering = {
        number: (last_epoch(state.nodes[number].log), len(state.nodes[number].log))
        for number in candidates
        if state.nodes[number].up and state.nodes[number].epoch == record.epoch and state.nodes[number].office is None
    }
    epoch = max(state.coordinator.given, record.epoch) + 1
    size = record.in_sync.bit_count()
    for chosen, position in answering.items():
        if "R15" in bounds.rules and position < state.coordinator.progress:
            continue
        beaten = [one for one, other in answering.items() if other <= position]
        if "R7" in bounds.rules and len(beaten) < len(candidates) and len(beaten) < (size + 1) // 2:
            continue
        after = with_record(state, record._replace(leader=chosen, epoch=epoch, in_sync=record.in_sync & registered))
        if "I7" in bounds.checks:
            after = _check_modes(after, bounds, record, chosen, [one for one in candidates if state.nodes[one].up])
        after = after._replace(alone=(), quorum=(NOTHING, ())) if "I7" in bounds.checks else after
        yield (
            f"the manager elects node {chosen + 1} for epoch {epoch}, in sync {names(record.in_sync & registered)}",
            after,
        )


def _is_disputed(state: State, bounds: Bounds, record: Record) -> bool:
    """True if a node that answers says that the record is stale. Whether it is registered makes no difference."""
    return any(node.up and is_stale(node, record, bounds) for node in state.nodes)


def _check_modes(state: State, bounds: Bounds, record: Record, chosen: int, there: list[int]) -> State:
    """Weaker modes lose nothing while the leader, or enough of the in-sync set, could have been asked."""
    log = state.nodes[chosen].log
    alone = state.alone
    if log[: len(alone)] != alone:
        sentence = f"node {chosen + 1} is elected without what the old leader acknowledged, which could be asked"
        return breaks(state, bounds, "I7", sentence)
    in_sync, kept = state.quorum
    if in_sync == record.in_sync and 2 * len(there) >= in_sync.bit_count() and log[: len(kept)] != kept:
        return breaks(state, bounds, "I7", f"node {chosen + 1} is elected without what a quorum acknowledged")
    return state


def _transfers(state: State, bounds: Bounds, record: Record, epoch: int) -> Iterator[Step]:
    """A leader that is alive and has no session, or is asked to, transfers its leadership to a complete replica."""
    node = state.nodes[record.leader]
    office = node.office
    if office is None or office.version != record.version or not bounds.allows(state, "transfer"):
        return
    for number in members(office.in_sync & ~bit(record.leader)):
        if office.answered[number] >= len(node.log) and node.committed >= len(node.log):
            after = with_record(
                state, record._replace(leader=number, epoch=epoch, in_sync=record.in_sync & ~bit(record.leader))
            )
            yield f"leader {record.leader + 1} transfers to node {number + 1}, epoch {epoch}", spend(after, "transfer")


def _moves(state: State, bounds: Bounds, record: Record) -> Iterator[Step]:
    if not bounds.allows(state, "move"):
        return
    for number in range(len(state.nodes)):
        if not record.replicas & bit(number):
            if state.coordinator.registered & bit(number):
                after = with_record(state, record._replace(replicas=record.replicas | bit(number)))
                yield f"the manager makes node {number + 1} a replica", spend(after, "move")
        elif number != record.leader and record.in_sync & ~bit(number):
            without = record._replace(replicas=record.replicas & ~bit(number), in_sync=record.in_sync & ~bit(number))
            yield f"the manager removes replica {number + 1}", spend(with_record(state, without), "move")


# A record that is missing or stale.


def recovery_steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Create a record, or replace a stale one, by proof (R2)."""
    if "R2" not in bounds.rules:
        return
    record = state.coordinator.record
    if record is not None and not _is_disputed(state, bounds, record):
        return
    up = [number for number, node in enumerate(state.nodes) if node.up and not node.blank]
    done: set[Record] = set()
    for choice in range(1, 1 << len(up)):
        there = [number for at, number in enumerate(up) if choice >> at & 1]
        if record is not None and not any(is_stale(state.nodes[one], record, bounds) for one in there):
            continue
        found = _proof_by_leader(state, there) or _proof_by_notes(state, bounds, there)
        if found is not None and found not in done:
            done.add(found)
            coordinator = state.coordinator
            given = max(coordinator.given, found.epoch)
            after = state._replace(coordinator=coordinator._replace(record=found, given=given))
            if "R13" in bounds.rules and found.leader == NOBODY:
                after = _promised(after, found, there)
            yield _proof_label(found, there), after


def _proof_label(record: Record, there: list[int]) -> str:
    kind = "a live leader" if record.leader != NOBODY else "all noted replicas"
    answered = names(sum(bit(one) for one in there))
    return f"{answered} answer: record by proof of {kind}, epoch {record.epoch}, in sync {names(record.in_sync)}"


def _promised(state: State, record: Record, there: list[int]) -> State:
    """The nodes that answered accept nothing more from leaders before this epoch, and lead none of these epochs."""
    for number in there:
        node = state.nodes[number]
        node = stepped_down(node, record)._replace(heard=None, halted=False)
        state = with_node(state, number, node)
    return state


def noted_by(node: Node) -> int:
    """The replicas that may count by this log: of the last note that is known to be committed, and of all behind it."""
    found = NOTHING
    for index in range(len(node.log), 0, -1):
        entry = node.log[index - 1]
        found |= entry.note
        if entry.note and index <= node.committed:
            break
    return found


def _newest(state: State, there: list[int]) -> tuple[int, int]:
    epochs = [max(state.nodes[one].epoch, last_epoch(state.nodes[one].log)) for one in there]
    versions = [state.nodes[one].seen for one in there]
    record = state.coordinator.record
    if record is not None:
        epochs.append(record.epoch)
        versions.append(record.version)
    return max(epochs), max(versions)


def _proof_by_notes(state: State, bounds: Bounds, there: list[int]) -> Record | None:
    """Proof A: all replicas that the available logs name have answered, and none leads."""
    answered = sum(bit(one) for one in there)
    noted = NOTHING
    for one in there:
        if state.nodes[one].office is not None and "R13" not in bounds.rules:
            return None
        noted |= noted_by(state.nodes[one])
    if not noted or noted & ~answered:
        return None
    ends = {one: (last_epoch(state.nodes[one].log), len(state.nodes[one].log)) for one in there}
    newest = max(there, key=lambda one: ends[one])
    replicas = next(entry.note for entry in reversed(state.nodes[newest].log) if entry.note)
    most = max(ends[one] for one in members(replicas))
    in_sync = sum(bit(one) for one in members(replicas) if ends[one] == most)
    epoch, version = _newest(state, there)
    return Record(NOBODY, epoch + 1, replicas, in_sync, version + 1)


def _proof_by_leader(state: State, there: list[int]) -> Record | None:
    """Proof B: a leader is alive, and all nodes that could have replaced it have answered and know no newer epoch."""
    answered = sum(bit(one) for one in there)
    for one in there:
        office = state.nodes[one].office
        if office is None or (office.in_sync | office.asked) & ~answered:
            continue
        epoch, version = _newest(state, there)
        if epoch == office.epoch:
            return Record(one, epoch, office.replicas, office.in_sync, version + 1)
    return None
