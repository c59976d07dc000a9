"""A restart of the broker: consumers that return within their session notice nothing."""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.topics.effects import Persist, Reply, SyncRequest
from longhall.topics.groups import Groups
from tests.topics.hall import QUICK, Hall


def test_members_continue_without_a_rebalance() -> None:
    hall = Hall()
    leader, other = hall.stable(2, session_timeout_ms=10_000)
    hall.commit(5, generation=leader.generation, member_id=leader.member_id)
    hall.advance(9_000)
    hall.restart()
    hall.advance(9_000)  # A new session began with the restart.
    for member in (leader, other):
        assert hall.groups.heartbeat("g", member.member_id, member.generation, hall.now_ms) is None
    assert hall.commit(6, generation=leader.generation, member_id=leader.member_id).code is None
    assert hall.offset() == 6
    again = hall.joined(hall.send_join(other.member_id))
    assert again.generation == other.generation
    assert hall.synced(hall.send_sync(again)).assignment == other.member_id.encode()


def test_a_member_that_does_not_return_is_removed_after_its_session() -> None:
    hall = Hall()
    leader, other = hall.stable(2, session_timeout_ms=10_000)
    hall.restart()
    hall.advance(6_000)
    assert hall.groups.heartbeat("g", leader.member_id, leader.generation, hall.now_ms) is None
    hall.advance(6_000)
    code = hall.groups.heartbeat("g", leader.member_id, leader.generation, hall.now_ms)
    assert code is Code.REBALANCE_IN_PROGRESS
    assert hall.groups.heartbeat("g", other.member_id, other.generation, hall.now_ms) is Code.UNKNOWN_MEMBER


def test_a_generation_without_assignment_is_forgotten_and_joined_again() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    second = hall.joined(hall.send_join(leader.member_id))
    hall.restart()
    assert hall.groups.heartbeat("g", leader.member_id, second.generation, hall.now_ms) is Code.ILLEGAL_GENERATION
    assert hall.joined(hall.send_join(leader.member_id)).code is None


def test_a_snapshot_restores_the_same_state_as_the_journal() -> None:
    hall = Hall()
    (leader,) = hall.stable(session_timeout_ms=10_000)
    hall.commit(5, generation=1, member_id=leader.member_id)
    hall.hold(7, 9, generation=1, member_id=leader.member_id)
    stored = msgspec.msgpack.encode(hall.groups.snapshot())
    hall.groups = Groups(QUICK)
    hall.groups.restore(msgspec.msgpack.decode(stored), hall.now_ms)
    assert hall.groups.heartbeat("g", leader.member_id, 1, hall.now_ms) is None
    hall.end(7, committed=True)
    assert hall.offset() == 9
    hall.advance(10_000)
    assert hall.state() == "Empty"


def test_the_assignment_is_written_before_any_member_gets_it() -> None:
    hall = Hall()
    joined = hall.joined(hall.send_join())
    request = SyncRequest(
        group_id="g",
        member_id=joined.member_id,
        generation=1,
        assignments=((joined.member_id, b"x"),),
    )
    effects = hall.groups.sync(request, 99, hall.now_ms)
    assert [type(effect) for effect in effects] == [Persist, Reply]


def test_ten_thousand_idle_groups_cost_nothing() -> None:
    groups = Groups(QUICK)
    hall = Hall()
    hall.groups = groups
    joined = [hall.joined(hall.send_join(group_id=f"g{index}")) for index in range(10_000)]
    for index, result in enumerate(joined):
        hall.send_sync(result, {}, group_id=f"g{index}")
    size = len(groups._table.timers._heap)
    for index, result in enumerate(joined):
        assert groups.heartbeat(f"g{index}", result.member_id, 1, hall.now_ms + 5_000) is None
    assert len(groups._table.timers._heap) == size
    deadline_ms = groups.next_deadline_ms()
    assert deadline_ms is not None
    assert groups.tick(deadline_ms - 1) == []
