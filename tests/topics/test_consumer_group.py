"""Groups with server-side assignment: the tables of the docstrings, epochs, fencing, time-outs, static members."""

from __future__ import annotations

import pytest

from longhall.errors import Code, LonghallError
from longhall.topics.effects import DeleteGroupsResult, DeleteOffsetsResult
from longhall.topics.events import SubscribedMember
from longhall.topics.group_configuration import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from longhall.topics.reconciliation import STABLE, UNRELEASED, UNREVOKED, reconcile
from longhall.topics.settings import GroupSettings
from tests.topics.hall import Hall, Topics

A = b"a" * 16


def opened(**partitions: int) -> Hall:
    return Hall(GroupSettings(), Topics(**(partitions or {"t": 4})))


def state(hall: Hall) -> str:
    described = hall.groups.describe_consumer_group("g")
    return "" if described is None else described.state


def all_of(count: int, topic: str = "t") -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


def test_the_states_of_a_group() -> None:
    hall = opened()
    first = hall.enter("m1", "t")
    assert (first.epoch, hall.named(first.assigned), state(hall)) == (1, all_of(4), "Stable")

    second = hall.enter("m2", "t")  # m1 has everything: m2 is in the new epoch and gets nothing yet.
    assert (second.epoch, hall.named(second.assigned), state(hall)) == (2, set(), "Reconciling")
    asked = hall.beat("m1", 1)
    assert (asked.epoch, len(hall.named(asked.assigned))) == (1, 2)
    kept = hall.named(asked.assigned)
    assert hall.beat("m1", 1).assigned is None  # It has not said that it has given them up.
    assert hall.beat("m2", 2).assigned is None
    given = hall.beat("m1", 1, owned=sorted(kept))
    assert (given.epoch, given.assigned, state(hall)) == (2, None, "Reconciling")
    got = hall.beat("m2", 2)
    assert (hall.named(got.assigned), state(hall)) == (all_of(4) - kept, "Stable")

    hall.topics.set("t", 6)
    hall.beat("m1", 2)
    assert state(hall) == "Reconciling"
    hall.beat("m2", 2)
    assert state(hall) == "Stable"

    assert hall.beat("m2", -1).epoch == -1
    assert state(hall) == "Assigning"
    assert hall.named(hall.beat("m1", 3).assigned) == all_of(6)
    assert state(hall) == "Stable"
    hall.advance(46_000)
    assert state(hall) == "Empty"


def a_member(member_state: str, assigned: int, revoking: int = 0) -> SubscribedMember:
    """A member in epoch 1 with partitions 0.. of `assigned`, and those after them to give up."""
    return SubscribedMember(
        member_id="m",
        epoch=1,
        state=member_state,
        assigned=((A, tuple(range(assigned))),),
        revoking=((A, tuple(range(assigned, assigned + revoking))),) if revoking else (),
    )


@pytest.mark.parametrize(
    ("member", "target", "owned", "others", "expected"),
    [
        (a_member(STABLE, 2), {0}, None, set(), (UNREVOKED, 1, {0})),
        (a_member(STABLE, 2), {0, 1, 2}, None, {2}, (UNRELEASED, 2, {0, 1})),
        (a_member(STABLE, 2), {0, 1, 2}, None, set(), (STABLE, 2, {0, 1, 2})),
        (a_member(UNREVOKED, 1, 1), {0, 5}, None, set(), (UNREVOKED, 1, {0})),
        (a_member(UNREVOKED, 1, 1), {0, 5}, {0, 1}, set(), (UNREVOKED, 1, {0})),
        (a_member(UNREVOKED, 1, 1), {0, 5}, {0}, set(), (STABLE, 2, {0, 5})),
        (a_member(UNREVOKED, 1, 1), {0, 5}, {0}, {5}, (UNRELEASED, 2, {0})),
        (a_member(UNRELEASED, 1), {0, 1, 2}, None, {2}, (UNRELEASED, 2, {0, 1})),
        (a_member(UNRELEASED, 1), {0, 1, 2}, None, set(), (STABLE, 2, {0, 1, 2})),
        (a_member(STABLE, 2), {0}, {0}, set(), (STABLE, 2, {0})),
    ],
)
def test_the_steps_of_a_member(
    member: SubscribedMember,
    target: set[int],
    owned: set[int] | None,
    others: set[int],
    expected: tuple[str, int, set[int]],
) -> None:
    after = reconcile(
        member,
        frozenset((A, number) for number in target),
        2,
        None if owned is None else frozenset((A, number) for number in owned),
        lambda place: place[1] in others,
    )
    assert (after.state, after.epoch, {number for _, numbers in after.assigned for number in numbers}) == expected


def test_a_member_is_fenced_unless_it_missed_one_answer() -> None:
    hall = opened()
    hall.enter("m1", "t")
    hall.enter("m2", "t")
    kept = sorted(hall.named(hall.beat("m1", 1).assigned))
    assert hall.beat("m1", 1, owned=kept).epoch == 2
    missed = hall.beat("m1", 1, owned=kept)  # The answer was lost: the member repeats.
    assert (missed.code, missed.epoch) == (None, 2)
    assert hall.beat("m1", 1).code is Code.FENCED_MEMBER_EPOCH
    assert hall.beat("m1", 1, owned=[("t", 0), ("t", 1), ("t", 2), ("t", 3)]).code is Code.FENCED_MEMBER_EPOCH
    assert hall.beat("m1", 7).code is Code.FENCED_MEMBER_EPOCH
    assert hall.beat("nobody", 2).code is Code.UNKNOWN_MEMBER
    assert hall.beat("m1", 2, group_id="other").code is Code.GROUP_UNKNOWN
    again = hall.enter("m1", "t")  # A fenced member joins again under its own id.
    assert (again.code, again.epoch, hall.named(again.assigned)) == (None, 2, set(kept))


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_removed() -> None:
    hall = opened()
    hall.enter("m1", "t", rebalance_timeout_ms=10_000)
    hall.enter("m2", "t")
    hall.beat("m1", 1)
    for _ in range(3):  # Its heartbeats go on.
        hall.advance(4_000)
        other = hall.beat("m2", 2)
        last = hall.beat("m1", 1, owned=[("t", 0), ("t", 1), ("t", 2), ("t", 3)])
    assert last.code is Code.UNKNOWN_MEMBER
    assert hall.named(other.assigned) == all_of(4)


def test_a_static_member_returns_to_its_partitions_in_its_session() -> None:
    hall = opened()
    hall.enter("m1", "t", instance_id="one")
    assert hall.enter("m2", "t", instance_id="one").code is Code.UNRELEASED_INSTANCE
    assert hall.beat("m1", -2, instance_id="one").epoch == -2
    assert hall.beat("m1", 1, instance_id="one").code is Code.FENCED_MEMBER_EPOCH
    returned = hall.enter("m2", "t", instance_id="one")
    assert (returned.epoch, hall.named(returned.assigned)) == (1, all_of(4))  # Nothing else has changed.
    assert hall.beat("m1", 1, instance_id="one").code is Code.FENCED_INSTANCE
    assert hall.beat("m1", -1, instance_id="one").code is Code.FENCED_INSTANCE
    hall.beat("m2", -2, instance_id="one")
    hall.advance(46_000)
    assert state(hall) == "Empty"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, Code.INVALID_REQUEST),
        ({"instance_id": ""}, Code.INVALID_REQUEST),
        ({"rack_id": ""}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"topics": None}, Code.INVALID_REQUEST),
        ({"assignor": "sticky"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"pattern": "(a"}, Code.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_join_that_cannot_be_right_is_refused(fields: dict[str, object], code: Code) -> None:
    hall = opened()
    result = hall.enter("m1", "t", **fields)
    assert result.code is code
    assert result.message
    assert not hall.journal
    assert hall.beat("", 3).code is Code.INVALID_REQUEST
    assert hall.beat("m1", -3).code is Code.INVALID_REQUEST
    assert hall.beat("m1", -2).code is Code.INVALID_REQUEST
    assert hall.beat("m1", 0, rebalance_timeout_ms=1, topics=("t",), owned=[("t", 1)]).code is Code.INVALID_REQUEST


def test_a_group_is_full() -> None:
    hall = Hall(GroupSettings(consumer_members_max=1), Topics(t=1))
    hall.enter("m1", "t")
    assert hall.enter("m2", "t").code is Code.GROUP_FULL
    assert hall.enter("m1", "t").code is None


def test_expressions_follow_the_topics() -> None:
    hall = opened(logs_a=1, logs_b=2, other=1)
    first = hall.enter("m1", pattern="logs_.*")
    assert hall.named(first.assigned) == {("logs_a", 0), ("logs_b", 0), ("logs_b", 1)}
    hall.topics.set("logs_c", 1)
    hall.topics.drop("logs_a")
    left = hall.named(hall.beat("m1", first.epoch).assigned)
    assert left == {("logs_b", 0), ("logs_b", 1)}
    grown = hall.beat("m1", first.epoch, owned=sorted(left))
    assert hall.named(grown.assigned) == {("logs_b", 0), ("logs_b", 1), ("logs_c", 0)}
    none = hall.beat("m1", grown.epoch, pattern="nothing")
    assert hall.named(none.assigned) == set()


def test_the_majority_of_the_members_chooses_the_assignor() -> None:
    hall = opened(a=3, b=3)
    hall.enter("m1", "a", "b", assignor="range")
    hall.enter("m2", "a", "b")
    described = hall.groups.describe_consumer_group("g")
    assert described is not None
    assert described.assignor == "range"
    targets = {one.member.member_id: hall.named(one.target) for one in described.members}
    assert targets["m1"] == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}


def test_commits_and_fetches_need_the_epoch_of_the_member() -> None:
    hall = opened()
    assert hall.commit(1).code is None  # Nobody is a member.
    hall.enter("m1", "t")
    assert hall.offset() == 1
    assert hall.commit(2, member_id="m1", generation=1).code is None
    assert hall.commit(3, member_id="m1", generation=0).code is Code.STALE_MEMBER_EPOCH
    assert hall.commit(3, member_id="m1", generation=1, knows_epochs=False).code is Code.UNSUPPORTED_VERSION
    assert hall.commit(3, member_id="m9", generation=1).code is Code.UNKNOWN_MEMBER
    assert hall.commit(3).code is Code.UNKNOWN_MEMBER
    assert hall.hold(5, 4, member_id="m1", generation=1).code is None
    assert hall.hold(5, 4, member_id="m1", generation=0).code is Code.ILLEGAL_GENERATION
    hall.end(5, committed=True)
    assert hall.offset() == 4
    groups = hall.groups
    assert groups.check_fetch("g", None, -1) is None
    assert groups.check_fetch("g", "m1", 1) is None
    assert groups.check_fetch("g", "m1", 2) is Code.STALE_MEMBER_EPOCH
    assert groups.check_fetch("g", "m9", 1) is Code.UNKNOWN_MEMBER
    assert groups.check_fetch("unknown", "m9", 1) is None


def test_a_group_with_members_is_not_deleted_and_keeps_the_offsets_of_its_topics() -> None:
    hall = opened(t=1, u=1)
    hall.commit(1)
    hall.commit(1, topic="u")
    hall.enter("m1", "t")
    ticket = hall.ticket()
    hall.take(hall.groups.delete_groups(("g",), ticket, hall.now_ms))
    assert hall.replies[ticket] == DeleteGroupsResult(groups=(("g", Code.GROUP_NOT_EMPTY),))
    ticket = hall.ticket()
    hall.take(hall.groups.delete_offsets("g", (("t", 0), ("u", 0)), ticket, hall.now_ms))
    assert hall.replies[ticket] == DeleteOffsetsResult(refused={("t", 0): Code.GROUP_SUBSCRIBED})
    assert (hall.offset("t"), hall.offset("u")) == (1, -1)
    hall.beat("m1", -1)
    ticket = hall.ticket()
    hall.take(hall.groups.delete_groups(("g",), ticket, hall.now_ms))
    assert hall.groups.describe_consumer_group("g") is None
    hall.restart()
    assert hall.groups.describe_consumer_group("g") is None


def test_settings_of_a_group_hold_and_are_kept() -> None:
    hall = opened()
    settings = {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "7000"}
    hall.groups.check_configuration("g", settings)
    hall.take(hall.groups.configure("g", settings, hall.ticket(), hall.now_ms))
    assert hall.enter("m1", "t").heartbeat_interval_ms == 7000
    assert hall.enter("m1", "t", group_id="other").heartbeat_interval_ms == 5000
    hall.restart()
    hall.beat("m1", 1)
    hall.advance(49_000)
    assert state(hall) == "Stable"
    hall.advance(2_000)
    assert state(hall) == "Empty"
    for wrong in ({SESSION_TIMEOUT: "1"}, {SESSION_TIMEOUT: "x"}, {"nothing": "1"}, {HEARTBEAT_INTERVAL: "60000"}):
        with pytest.raises(LonghallError) as refused:
            hall.groups.check_configuration("g", wrong)
        assert refused.value.code is Code.INVALID_CONFIGURATION
