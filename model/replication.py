"""The transitions of leaders and followers: append, sync, push, answer, commit, agree, and in-sync changes.

A follower takes an entry and syncs it in one step: until it has synced, it answers nothing, so a crash before the sync
is as if the entry had not arrived. The leader's own append and sync are two steps, because it pushes before it syncs.
An exchange is an answer of the follower and, with it, the commit index that the leader knew before.
"""

from __future__ import annotations

from collections.abc import Iterator

from model.bounds import Bounds, breaks, spend
from model.state import (
    NOBODY,
    NOTHING,
    Entry,
    Log,
    Node,
    Office,
    Record,
    State,
    bit,
    last_epoch,
    members,
    names,
    notes,
    with_node,
    with_record,
)

Step = tuple[str, State]


def fresh_entry(state: State, index: int, epoch: int, note: int) -> Entry:
    """An entry that differs from every other one that was ever seen at this index."""
    logs: list[Log] = [node.log for node in state.nodes]
    logs.append(tuple(entry for entry, _ in state.truth))
    logs.extend(saved.log for saved in state.saved if saved is not None)
    taken = {log[index - 1].tag for log in logs if len(log) >= index and log[index - 1].epoch == epoch}
    return Entry(epoch, next(tag for tag in range(len(taken) + 1) if tag not in taken), note)


def common_index(leader: Log, follower: Log, by_nonce: bool) -> int:
    """The last index up to which two logs agree, by epochs and their first indexes, and by the nonces of the epochs.

    The tag of the entry that begins an epoch stands for the nonce of that epoch.
    """
    common = 0
    epoch = 0
    for index, (mine, theirs) in enumerate(zip(leader, follower, strict=False), 1):
        if mine.epoch != theirs.epoch or (by_nonce and mine.epoch != epoch and mine.tag != theirs.tag):
            break
        epoch = mine.epoch
        common = index
    return common


def stepped_down(node: Node, record: Record | None) -> Node:
    """A leader forgets its leadership state and recovers from its disk, in the same process."""
    epoch = node.epoch if record is None else max(node.epoch, record.epoch)
    return node._replace(office=None, leader=NOBODY, agreed=False, synced=len(node.log), epoch=epoch)


def advance(state: State, bounds: Bounds, number: int) -> State:
    """Commit what the leader, the in-sync set and the set that it asked for have synced."""
    node = state.nodes[number]
    office = node.office
    assert office is not None
    if node.synced <= office.begun:
        return state  # A crash could make it forget that this epoch has begun.
    reached = node.synced
    for other in members(office.in_sync | office.asked):
        if other != number:
            reached = min(reached, office.answered[other])
    if "I7" in bounds.checks:
        state = _note_quorum(state, number, node, office)
    if reached <= node.committed:
        return state
    state = with_node(state, number, node._replace(committed=reached))
    if (office.epoch, number) not in state.leaders:
        rivals = [leader for epoch, leader in state.leaders if epoch == office.epoch]
        state = state._replace(leaders=(*state.leaders, (office.epoch, number)))
        if rivals:
            sentence = f"nodes {rivals[0] + 1} and {number + 1} both commit in epoch {office.epoch}"
            state = breaks(state, bounds, "I3", sentence)
    for index in range(min(reached, len(state.truth))):
        if node.log[index] != state.truth[index][0]:
            sentence = f"node {number + 1} commits another entry {index + 1} than was committed before"
            return breaks(state, bounds, "I2", sentence)
    more = tuple((entry, office.epoch) for entry in node.log[len(state.truth) : reached])
    return state._replace(truth=state.truth + more)


def _note_quorum(state: State, number: int, node: Node, office: Office) -> State:
    """What more than half of the in-sync set have synced is acknowledged in mode `quorum`."""
    if office.asked:
        return state
    counts = sorted(node.synced if one == number else office.answered[one] for one in members(office.in_sync))
    reached = counts[(len(counts) - 1) // 2]
    before, log = state.quorum
    if before != office.in_sync or reached > len(log):
        return state._replace(quorum=(office.in_sync, node.log[:reached]))
    return state


def leader_steps(state: State, bounds: Bounds, number: int) -> Iterator[Step]:
    """The steps of a leader on its own."""
    node = state.nodes[number]
    office = node.office
    assert office is not None
    name = number + 1
    if node.synced < len(node.log):
        synced = with_node(state, number, node._replace(synced=len(node.log)))
        yield f"leader {name} syncs", advance(synced, bounds, number)
    if node.committed > office.begun and bounds.allows(state, "write"):
        entry = fresh_entry(state, len(node.log) + 1, office.epoch, NOTHING)
        yield (
            f"leader {name} appends a message",
            spend(with_node(state, number, node._replace(log=(*node.log, entry))), "write"),
        )
    known = notes(node.log)
    if known[-1][1] != office.replicas:
        entry = fresh_entry(state, len(node.log) + 1, office.epoch, office.replicas)
        noted = with_node(state, number, node._replace(log=(*node.log, entry)))
        yield f"leader {name} appends the note {names(office.replicas)}", noted
    reached = (node.log[node.committed - 1].epoch, node.committed) if node.committed else (0, 0)
    if bounds.progress and reached > state.coordinator.progress and node.committed > office.begun:
        noted = state._replace(coordinator=state.coordinator._replace(progress=reached))
        yield f"leader {name} notes that {node.committed} entries are committed", noted
    if not office.asked:
        yield from _wishes(state, bounds, number, node, office)
    else:
        record = state.coordinator.record
        if (
            record is not None
            and record.version == office.version
            and record.leader == number
            and record.epoch == office.epoch
        ):
            after = with_record(state, record._replace(in_sync=office.asked))
            yield f"the coordinator records in sync {names(office.asked)} for leader {name}", after


def _wishes(state: State, bounds: Bounds, number: int, node: Node, office: Office) -> Iterator[Step]:
    """The in-sync sets that a leader may request: one follower less, or one more."""
    index, noted = notes(node.log)[-1]
    for other in range(len(state.nodes)):
        if other == number:
            continue
        if office.in_sync & bit(other):
            if bounds.allows(state, "remove"):
                after = node._replace(office=office._replace(asked=office.in_sync & ~bit(other)))
                label = f"leader {number + 1} asks to go on without {other + 1}"
                yield label, spend(with_node(state, number, after), "remove")
            continue
        follower = state.nodes[other]
        follows = follower.up and follower.agreed and follower.leader == number and follower.epoch == office.epoch
        if not follows or not office.replicas & bit(other):
            continue
        if office.answered[other] < max(node.committed, office.begun):
            continue
        if "R1" in bounds.rules and not (noted & bit(other) and index <= node.committed):
            continue
        after = node._replace(office=office._replace(asked=office.in_sync | bit(other)))
        yield f"leader {number + 1} asks for {other + 1} to be in sync", with_node(state, number, after)


def follower_steps(state: State, bounds: Bounds, number: int) -> Iterator[Step]:
    """The steps of a follower with its leader, if that node leads."""
    node = state.nodes[number]
    leader = state.nodes[node.leader]
    office = leader.office
    if not leader.up or office is None or office.epoch != node.epoch or node.halted:
        return
    if not office.replicas & bit(number):
        return  # The leader has closed the stream of a node that has no replica any more.
    if not node.agreed:
        if leader.synced > office.begun:
            yield from _meet(state, bounds, number, node, leader, office)
        return
    name = number + 1
    if len(node.log) < len(leader.log):
        log = (*node.log, leader.log[len(node.log)])
        taken = node._replace(log=log, synced=len(log))
        yield f"follower {name} takes and syncs an entry of {node.leader + 1}", with_node(state, number, taken)
    committed = max(node.committed, min(leader.committed, len(node.log)))
    if committed > node.committed or office.answered[number] < node.synced:
        answered = (*office.answered[:number], node.synced, *office.answered[number + 1 :])
        after = with_node(state, number, node._replace(committed=committed))
        after = with_node(after, node.leader, leader._replace(office=office._replace(answered=answered)))
        yield f"follower {name} answers {node.leader + 1}: synced {node.synced}", advance(after, bounds, node.leader)


def _meet(state: State, bounds: Bounds, number: int, node: Node, leader: Node, office: Office) -> Iterator[Step]:
    """A follower and its leader determine up to where their logs agree."""
    name = number + 1
    common = common_index(leader.log, node.log, "R14" in bounds.rules)
    if "R3" in bounds.rules and last_epoch(node.log) > office.epoch:
        return
    answered = (*office.answered[:number], common, *office.answered[number + 1 :])
    if common >= node.committed:
        after = with_node(state, number, node._replace(log=node.log[:common], synced=common, agreed=True))
        after = with_node(after, node.leader, leader._replace(office=office._replace(answered=answered)))
        yield f"follower {name} agrees with leader {node.leader + 1} up to {common}", after
        return
    if "R5" in bounds.rules and office.in_sync & bit(number):
        after = with_node(state, node.leader, stepped_down(leader, None))
        record = state.coordinator.record
        if record is not None and (record.leader, record.epoch) == (node.leader, office.epoch):
            rest = record.in_sync & ~bit(node.leader)
            after = with_record(after, record._replace(leader=NOBODY, in_sync=rest or record.in_sync))
            yield f"leader {node.leader + 1} lacks what {name} has committed and gives way", after
            return
    if "R4" in bounds.rules:
        yield (
            f"follower {name} halts: leader {node.leader + 1} lacks what is committed here",
            with_node(state, number, node._replace(halted=True)),
        )
        return
    copied = node._replace(log=leader.log, synced=len(leader.log), committed=leader.committed, agreed=True)
    after = breaks(
        with_node(state, number, copied), bounds, "I4", f"node {name} discards entries that it knows to be committed"
    )
    answered = (*office.answered[:number], len(leader.log), *office.answered[number + 1 :])
    after = with_node(after, node.leader, leader._replace(office=office._replace(answered=answered)))
    yield f"follower {name} replaces its log by that of leader {node.leader + 1}", after
