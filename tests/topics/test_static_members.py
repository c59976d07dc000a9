"""Static members, which rejoin with their instance id (KIP-345, KIP-814)."""

from __future__ import annotations

from typing import Any

from longhall.errors import Code
from tests.topics.hall import Hall


def test_rejoining_a_stable_group_changes_no_assignment() -> None:
    hall = Hall()
    _, other = pair(hall)
    back = hall.joined(hall.send_join(instance_id="b"))
    assert back.code is None
    assert back.member_id != other
    assert back.generation == 2
    assert not back.skip_assignment
    assert hall.state() == "Stable"
    assert hall.synced(hall.send_sync(back)).assignment == b"for b"


def test_the_previous_member_id_is_fenced() -> None:
    hall = Hall()
    _, other = pair(hall)
    hall.send_join(instance_id="b")
    assert hall.groups.heartbeat("g", other, 2, hall.now_ms, "b") is Code.FENCED_INSTANCE
    assert hall.groups.heartbeat("g", other, 2, hall.now_ms) is Code.UNKNOWN_MEMBER
    assert hall.joined(hall.send_join(other, instance_id="b")).code is Code.FENCED_INSTANCE
    assert hall.commit(generation=2, member_id=other, instance_id="b").code is Code.FENCED_INSTANCE


def test_a_leader_that_rejoins_leads_without_assigning() -> None:
    hall = Hall()
    pair(hall)
    back = hall.joined(hall.send_join(instance_id="a"))
    assert back.leader == back.member_id
    assert back.skip_assignment
    assert len(back.members) == 2
    assert hall.synced(hall.send_sync(back)).assignment == b"for a"


def test_an_old_client_that_was_leader_gets_its_previous_id_as_leader() -> None:
    hall = Hall()
    leader, _ = pair(hall)
    back = hall.joined(hall.send_join(instance_id="a", supports_skipping_assignment=False))
    assert back.leader == leader
    assert not back.skip_assignment
    assert back.members == ()


def test_another_protocol_starts_a_rebalance() -> None:
    hall = Hall()
    hall.stable(instance_id="a", protocols=(("x", b""), ("y", b"")))
    back = hall.joined(hall.send_join(instance_id="a", protocols=(("y", b""), ("x", b""))))
    assert back.generation == 2
    assert back.protocol == "y"


def test_a_waiting_request_of_the_previous_member_id_is_fenced() -> None:
    hall = Hall()
    leader, other = pair(hall)
    parked = hall.send_join(leader, instance_id="a")
    assert parked not in hall.replies
    back = hall.send_join(instance_id="a")
    assert hall.joined(parked).code is Code.FENCED_INSTANCE
    hall.send_join(other, instance_id="b")
    assert hall.joined(back).code is None


def test_a_static_member_stays_through_rebalances_until_its_session_ends() -> None:
    hall = Hall()
    leader, _ = pair(hall, rebalance_timeout_ms=10_000, session_timeout_ms=30_000)
    rejoined = hall.send_join(leader, instance_id="a", rebalance_timeout_ms=10_000, session_timeout_ms=30_000)
    hall.advance(10_000)
    assert len(hall.joined(rejoined).members) == 2  # b did not join, but its session has not expired.


def test_an_administrator_removes_a_member_by_instance_id() -> None:
    hall = Hall()
    pair(hall)
    result = hall.leave(("", "b"), ("", "nobody"))
    assert [line[2] for line in result.members] == [None, Code.UNKNOWN_MEMBER]
    assert hall.state() == "PreparingRebalance"


def test_the_new_id_survives_a_restart() -> None:
    hall = Hall()
    pair(hall)
    back = hall.joined(hall.send_join(instance_id="b"))
    hall.restart()
    assert hall.groups.heartbeat("g", back.member_id, 2, hall.now_ms, "b") is None


def pair(hall: Hall, **fields: Any) -> tuple[str, str]:
    """Instances a, the leader, and b, in a stable group of generation 2."""
    first = hall.joined(hall.send_join(instance_id="a", **fields))
    waiting = hall.send_join(instance_id="b", **fields)
    again = hall.joined(hall.send_join(first.member_id, instance_id="a", **fields))
    other = hall.joined(waiting)
    hall.send_sync(other)
    hall.send_sync(again, {again.member_id: b"for a", other.member_id: b"for b"})
    return again.member_id, other.member_id
