"""The classic group protocol, as its members see it."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.errors import Code
from longhall.topics.effects import JoinResult
from longhall.topics.group import Group, State, subscribed_topics
from longhall.topics.settings import GroupSettings
from tests.topics.hall import Hall

SLOW = GroupSettings(initial_rebalance_delay_ms=3_000)


def test_the_docstring_is_the_transition_table() -> None:
    assert Group.__doc__ is not None
    names = {state.value.removesuffix("Rebalance"): state for state in State}
    rows = [line.strip().strip("|").split("|") for line in Group.__doc__.splitlines() if line.strip().startswith("|")]
    table = {(names[row[0].strip()], names[row[2].strip()]) for row in rows[2:]}
    assert table == Group.TRANSITIONS


def test_a_group_goes_through_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: set[tuple[State, State]] = set()
    transition = Group.transition

    def record(group: Group, state: State) -> None:
        walked.add((group.state, state))
        transition(group, state)

    monkeypatch.setattr(Group, "transition", record)
    hall = Hall()
    one = hall.joined(hall.send_join())  # Empty, Preparing, Completing
    two = hall.send_join()  # Completing, Preparing
    again = hall.joined(hall.send_join(one.member_id))
    hall.send_sync(again, {})  # Stable
    hall.leave((hall.joined(two).member_id, None))  # Preparing
    hall.leave((one.member_id, None))  # Empty
    hall.take(hall.groups.delete_groups(("g",), hall.ticket(), hall.now_ms))  # Dead
    assert walked == Group.TRANSITIONS


def test_the_first_member_becomes_leader() -> None:
    hall = Hall()
    joined = hall.joined(hall.send_join(client_id="c"))
    assert joined.code is None
    assert joined.leader == joined.member_id
    assert joined.generation == 1
    assert joined.protocol == "roundrobin"
    assert joined.members == ((joined.member_id, None, b"r"),)
    sync = hall.send_sync(joined, {joined.member_id: b"all"})
    assert hall.synced(sync).assignment == b"all"
    assert hall.state() == "Stable"
    assert hall.groups.heartbeat("g", joined.member_id, 1, hall.now_ms) is None


def test_a_second_member_makes_the_first_rejoin() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    waiting = hall.send_join()
    assert waiting not in hall.replies
    assert hall.groups.heartbeat("g", leader.member_id, 1, hall.now_ms) is Code.REBALANCE_IN_PROGRESS
    again = hall.joined(hall.send_join(leader.member_id))
    other = hall.joined(waiting)
    assert (again.generation, other.generation) == (2, 2)
    assert len(again.members) == 2
    assert other.members == ()
    waiting = hall.send_sync(other)
    assert waiting not in hall.replies
    hall.send_sync(again, {again.member_id: b"0", other.member_id: b"1"})
    assert hall.synced(waiting).assignment == b"1"


def test_members_must_rejoin_with_their_id() -> None:
    hall = Hall()
    asked = hall.joined(hall.send_join(requires_known_member=True))
    assert asked.code is Code.MEMBER_ID_REQUIRED
    assert asked.member_id
    joined = hall.joined(hall.send_join(asked.member_id, requires_known_member=True))
    assert joined.code is None
    assert joined.member_id == asked.member_id


def test_a_pending_member_that_never_returns_does_not_block_the_others() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    hall.send_join(requires_known_member=True, session_timeout_ms=10_000)
    rejoined = hall.send_join(leader.member_id)
    assert rejoined not in hall.replies  # The pending member may still return.
    hall.advance(10_000)
    assert hall.joined(rejoined).generation == 2


def test_a_group_without_returning_members_is_removed() -> None:
    hall = Hall()
    hall.send_join(requires_known_member=True)
    assert len(hall.groups) == 1
    hall.advance(45_000)
    assert len(hall.groups) == 0
    assert hall.journal == []


def test_the_initial_delay_collects_members_in_one_generation() -> None:
    hall = Hall(SLOW)
    tickets = [hall.send_join()]
    hall.advance(2_000)
    tickets.append(hall.send_join())
    hall.advance(1_000)
    assert not hall.replies  # A member joined meanwhile, so the delay starts again.
    hall.advance(3_000)
    assert [hall.joined(ticket).generation for ticket in tickets] == [1, 1]


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    hall = Hall(SLOW)
    first = hall.send_join(rebalance_timeout_ms=7_000)
    for _ in range(8):
        hall.advance(1_000)
        hall.send_join(rebalance_timeout_ms=7_000)
    assert first in hall.replies


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    hall = Hall()
    leader, other = hall.stable(2, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    rejoined = hall.send_join(leader.member_id, rebalance_timeout_ms=20_000)
    assert rejoined not in hall.replies
    hall.advance(20_000)
    assert len(hall.joined(rejoined).members) == 1
    assert hall.groups.heartbeat("g", other.member_id, 2, hall.now_ms) is Code.UNKNOWN_MEMBER


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    hall = Hall()
    leader, other = hall.stable(2, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    changed = (("roundrobin", b"changed"),)
    rejoined = hall.send_join(other.member_id, protocols=changed, rebalance_timeout_ms=20_000)
    hall.advance(20_000)
    assert hall.joined(rejoined).leader == other.member_id
    assert leader.member_id != other.member_id


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    hall = Hall()
    leader, other = hall.stable(2, session_timeout_ms=10_000)
    for _ in range(3):
        hall.advance(4_000)
        code = hall.groups.heartbeat("g", leader.member_id, leader.generation, hall.now_ms)
    assert code is Code.REBALANCE_IN_PROGRESS
    assert hall.groups.heartbeat("g", other.member_id, other.generation, hall.now_ms) is Code.UNKNOWN_MEMBER
    rejoined = hall.joined(hall.send_join(leader.member_id))
    assert rejoined.members == ((leader.member_id, None, b"r"),)


def test_a_commit_refreshes_the_session() -> None:
    hall = Hall()
    (leader,) = hall.stable(session_timeout_ms=10_000)
    for offset in range(5):
        hall.advance(9_000)
        assert hall.commit(offset, generation=1, member_id=leader.member_id).code is None
    assert hall.state() == "Stable"


def test_waiting_members_need_no_heartbeat_but_new_ones_time_out() -> None:
    hall = Hall()
    leader, other = hall.stable(2, session_timeout_ms=10_000, rebalance_timeout_ms=1_000_000)
    rejoined = hall.send_join(other.member_id, protocols=(("roundrobin", b"new"),), rebalance_timeout_ms=1_000_000)
    new = hall.send_join(rebalance_timeout_ms=1_000_000)
    generation = leader.generation
    for _ in range(40):
        hall.advance(9_000)
        hall.groups.heartbeat("g", leader.member_id, generation, hall.now_ms)
    assert rejoined not in hall.replies
    assert hall.joined(new).code is Code.UNKNOWN_MEMBER


def test_a_member_that_does_not_sync_is_removed() -> None:
    hall = Hall()
    tickets = [hall.send_join(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)]
    first = hall.joined(tickets[0])
    waiting = hall.send_join(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    again = hall.joined(hall.send_join(first.member_id, rebalance_timeout_ms=20_000, session_timeout_ms=60_000))
    sync = hall.send_sync(hall.joined(waiting))
    hall.advance(20_000)  # The leader never sends its assignment.
    assert hall.synced(sync).code is Code.REBALANCE_IN_PROGRESS
    assert hall.groups.heartbeat("g", again.member_id, 2, hall.now_ms) is Code.UNKNOWN_MEMBER


def test_the_protocol_is_elected_among_those_that_all_support() -> None:
    hall = Hall(SLOW)
    tickets = [
        hall.send_join(protocols=(("a", b""), ("b", b""), ("c", b""))),
        hall.send_join(protocols=(("b", b""), ("c", b""))),
        hall.send_join(protocols=(("c", b""), ("b", b""))),
    ]
    refused = hall.joined(hall.send_join(protocols=(("a", b""),)))
    assert refused.code is Code.INCONSISTENT_PROTOCOL
    hall.advance(60_000)
    assert {hall.joined(ticket).protocol for ticket in tickets} == {"b"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"session_timeout_ms": 10}, Code.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 10**9}, Code.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, Code.INCONSISTENT_PROTOCOL),
        ({"protocol_type": ""}, Code.INCONSISTENT_PROTOCOL),
        ({"member_id": "who"}, Code.UNKNOWN_MEMBER),
    ],
)
def test_invalid_joins_are_refused(fields: dict[str, Any], code: Code) -> None:
    hall = Hall()
    assert hall.joined(hall.send_join(**fields)).code is code
    assert len(hall.groups) == 0


def test_another_protocol_type_is_refused() -> None:
    hall = Hall()
    hall.stable()
    assert hall.joined(hall.send_join(protocol_type="connect")).code is Code.INCONSISTENT_PROTOCOL


def test_a_full_group_refuses_new_members() -> None:
    hall = Hall(GroupSettings(initial_rebalance_delay_ms=0, members_max=1))
    hall.stable()
    assert hall.joined(hall.send_join()).code is Code.GROUP_FULL
    assert hall.state() == "Stable"


def test_a_follower_that_missed_the_answer_gets_it_again() -> None:
    hall = Hall()
    leader, other = hall.stable(2)
    again = hall.joined(hall.send_join(other.member_id))
    assert again.generation == other.generation
    assert hall.synced(hall.send_sync(again)).assignment == other.member_id.encode()
    assert hall.state() == "Stable"
    assert leader.leader == again.leader


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    assert hall.joined(hall.send_join(leader.member_id)).generation == 2


def test_sync_and_heartbeat_check_the_member() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    stranger = JoinResult(member_id="who", generation=1)
    late = JoinResult(member_id=leader.member_id, generation=0)
    assert hall.synced(hall.send_sync(stranger)).code is Code.UNKNOWN_MEMBER
    assert hall.synced(hall.send_sync(late)).code is Code.ILLEGAL_GENERATION
    assert hall.synced(hall.send_sync(leader, protocol="other")).code is Code.INCONSISTENT_PROTOCOL
    assert hall.synced(hall.send_sync(leader, protocol_type="connect")).code is Code.INCONSISTENT_PROTOCOL
    assert hall.synced(hall.send_sync(leader, group_id="none")).code is Code.UNKNOWN_MEMBER
    assert hall.groups.heartbeat("g", "who", 1, hall.now_ms) is Code.UNKNOWN_MEMBER
    assert hall.groups.heartbeat("g", leader.member_id, 7, hall.now_ms) is Code.ILLEGAL_GENERATION
    assert hall.groups.heartbeat("none", leader.member_id, 1, hall.now_ms) is Code.UNKNOWN_MEMBER


def test_a_leave_answers_for_each_member() -> None:
    hall = Hall()
    leader, other = hall.stable(2)
    result = hall.leave((other.member_id, None), ("who", None))
    assert [line[2] for line in result.members] == [None, Code.UNKNOWN_MEMBER]
    assert hall.groups.heartbeat("g", leader.member_id, leader.generation, hall.now_ms) is Code.REBALANCE_IN_PROGRESS


def test_a_leave_answers_the_waiting_requests_of_the_member() -> None:
    hall = Hall()
    leader, other = hall.stable(2)
    changed = (("roundrobin", b"new"),)
    parked = hall.send_join(other.member_id, protocols=changed)
    hall.leave((other.member_id, None))
    assert hall.joined(parked).code is Code.UNKNOWN_MEMBER
    assert leader.member_id != other.member_id


def test_a_retried_join_is_answered_under_its_last_ticket() -> None:
    hall = Hall()
    _leader, other = hall.stable(2)
    changed = (("roundrobin", b"new"),)
    first = hall.send_join(other.member_id, protocols=changed)
    second = hall.send_join(other.member_id, protocols=changed)
    assert hall.joined(first).code is Code.REBALANCE_IN_PROGRESS
    assert second not in hall.replies


def test_subscribed_topics_are_read_from_any_metadata_version() -> None:
    two = b"\x00\x03" + b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x02bc" + b"more"
    assert subscribed_topics(two) == ["a", "bc"]
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\x00\x00\x7f\xff\xff\xff\x00\x01a") is None
