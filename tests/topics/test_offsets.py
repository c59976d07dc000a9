"""Commit, fetch, deletion and expiry of offsets."""

from __future__ import annotations

from longhall.errors import Code
from longhall.topics.effects import DeleteGroupsResult, DeleteOffsetsResult
from longhall.topics.settings import DAY_MS, GroupSettings
from tests.topics.hall import Hall


def subscription(*topics: str) -> tuple[tuple[str, bytes], ...]:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return (("range", b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"),)


def test_without_members_any_client_may_commit() -> None:
    hall = Hall()
    assert hall.offset() == -1
    assert hall.commit(42).code is None
    assert hall.offset() == 42
    assert hall.state() == "Empty"


def test_commits_of_another_generation_are_refused() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    assert hall.commit(1, generation=1, member_id=leader.member_id).code is None
    assert hall.commit(2, generation=0, member_id=leader.member_id).code is Code.ILLEGAL_GENERATION
    assert hall.commit(2, generation=1, member_id="who").code is Code.UNKNOWN_MEMBER
    assert hall.commit(2).code is Code.UNKNOWN_MEMBER
    assert hall.commit(2, generation=1, group_id="none").code is Code.ILLEGAL_GENERATION
    assert hall.offset() == 1


def test_commits_are_accepted_while_a_rebalance_is_prepared_but_not_while_it_completes() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    hall.send_join()
    assert hall.commit(1, generation=1, member_id=leader.member_id).code is None
    again = hall.joined(hall.send_join(leader.member_id))
    late = hall.commit(2, generation=again.generation, member_id=leader.member_id)
    assert late.code is Code.REBALANCE_IN_PROGRESS


def test_long_metadata_is_refused_by_partition() -> None:
    hall = Hall()
    assert hall.commit(metadata="x" * 5000).refused == {("t", 0): Code.OFFSET_METADATA_TOO_LARGE}
    assert hall.commit(metadata=None).refused == {}
    assert hall.offset() == 1


def test_offsets_of_an_open_transaction_count_when_it_commits() -> None:
    hall = Hall()
    hall.commit(1)
    hall.hold(7, 10)
    assert hall.offset() == 1
    (unstable,) = hall.groups.fetch_offsets("g", [("t", 0)], require_stable=True)
    assert unstable.code is Code.UNSTABLE_OFFSETS
    hall.restart()
    hall.end(7, committed=True)
    assert hall.offset() == 10
    (stable,) = hall.groups.fetch_offsets("g", None, require_stable=True)
    assert stable.code is None


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    hall = Hall()
    hall.hold(7, 10)
    hall.end(7, committed=False)
    hall.end(7, committed=True)  # Reported twice, by a coordinator that restarted.
    assert hall.offset() == -1


def test_a_later_plain_commit_wins_over_an_earlier_transactional_one() -> None:
    hall = Hall()
    hall.hold(7, 10)
    hall.commit(20)
    hall.end(7, committed=True)
    assert hall.offset() == 20


def test_transactional_commits_check_the_generation_if_they_have_one() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    assert hall.hold(7, 1, generation=0, member_id=leader.member_id).code is Code.ILLEGAL_GENERATION
    assert hall.hold(7, 1).code is None  # Old clients send neither member nor generation.


def test_a_fetch_without_partitions_returns_all_offsets() -> None:
    hall = Hall()
    hall.commit(1, partition=0)
    hall.commit(2, partition=1)
    hall.commit(3, topic="u")
    fetched = hall.groups.fetch_offsets("g", None, require_stable=False)
    assert {(row.topic, row.partition): row.offset for row in fetched} == {("t", 0): 1, ("t", 1): 2, ("u", 0): 3}
    assert hall.groups.fetch_offsets("none", None, require_stable=False) == []


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    hall = Hall()
    hall.commit(1, topic="read")
    hall.commit(2, topic="left")
    hall.stable(protocols=subscription("read"))
    ticket = hall.ticket()
    wanted = (("read", 0), ("left", 0), ("left", 9))
    hall.take(hall.groups.delete_offsets("g", wanted, ticket, hall.now_ms))
    result = hall.replies[ticket]
    assert isinstance(result, DeleteOffsetsResult)
    assert result.refused == {("read", 0): Code.GROUP_SUBSCRIBED}
    assert (hall.offset("read"), hall.offset("left")) == (1, -1)


def test_deleting_offsets_of_missing_or_other_groups_is_refused() -> None:
    hall = Hall()
    hall.stable(protocol_type="connect")
    for group_id, code in (("g", Code.GROUP_NOT_EMPTY), ("none", Code.GROUP_UNKNOWN)):
        ticket = hall.ticket()
        hall.take(hall.groups.delete_offsets(group_id, (("t", 0),), ticket, hall.now_ms))
        assert hall.replies[ticket] == DeleteOffsetsResult(code=code)


def test_groups_are_deleted_only_when_empty() -> None:
    hall = Hall()
    hall.stable()
    hall.commit(group_id="old")
    ticket = hall.ticket()
    hall.take(hall.groups.delete_groups(("g", "old", "none"), ticket, hall.now_ms))
    expected = (("g", Code.GROUP_NOT_EMPTY), ("old", None), ("none", Code.GROUP_UNKNOWN))
    assert hall.replies[ticket] == DeleteGroupsResult(groups=expected)
    assert hall.offset(group_id="old") == -1
    assert len(hall.replayed()) == 1


def test_the_offsets_of_a_deleted_topic_are_deleted() -> None:
    hall = Hall()
    hall.commit(1, topic="gone")
    hall.commit(2, topic="kept")
    hall.hold(7, 3, topic="gone")
    hall.take(hall.groups.forget_topics(frozenset({"gone"}), hall.now_ms))
    hall.end(7, committed=True)
    assert (hall.offset("gone"), hall.offset("kept")) == (-1, 2)


def test_offsets_expire_after_the_group_became_empty() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    hall.commit(1, generation=1, member_id=leader.member_id)
    for _ in range(60 * 24 * 2):
        hall.advance(30_000)
        hall.groups.heartbeat("g", leader.member_id, 1, hall.now_ms)
    hall.leave((leader.member_id, None))
    hall.advance(7 * DAY_MS - 60_000)
    assert hall.offset() == 1
    hall.restart()
    hall.advance(120_000)
    assert hall.offset() == -1
    assert hall.state() == "Dead"
    assert len(hall.replayed()) == 0


def test_offsets_of_simple_consumers_expire_after_their_last_commit() -> None:
    hall = Hall(GroupSettings(offsets_retention_ms=8_000))
    hall.commit(1, partition=0)
    hall.advance(7_000)
    hall.commit(2, partition=1)
    hall.advance(2_000)
    assert (hall.offset(partition=0), hall.offset(partition=1)) == (-1, 2)
    hall.advance(8_000)
    assert hall.state() == "Dead"


def test_offsets_of_longhall_jobs_do_not_expire() -> None:
    hall = Hall(GroupSettings(offsets_retention_ms=DAY_MS))
    for group_id in ("longhall.archive", "longhall.replay.again.orders-0", "longhallish"):
        hall.commit(5, group_id=group_id)
    hall.advance(30 * DAY_MS)
    hall.restart()
    hall.advance(30 * DAY_MS)
    assert hall.offset(group_id="longhall.archive") == 5
    assert hall.offset(group_id="longhall.replay.again.orders-0") == 5
    assert hall.offset(group_id="longhallish") == -1


def test_offsets_of_topics_no_longer_read_expire() -> None:
    hall = Hall(GroupSettings(offsets_retention_ms=80_000, initial_rebalance_delay_ms=0))
    hall.commit(1, topic="read")
    hall.commit(2, topic="left")
    (leader,) = hall.stable(protocols=subscription("read"))
    for _ in range(4):
        hall.advance(40_000)
        hall.groups.heartbeat("g", leader.member_id, 1, hall.now_ms)
    assert (hall.offset("read"), hall.offset("left")) == (1, -1)


def test_an_empty_group_without_offsets_is_removed_soon() -> None:
    hall = Hall()
    (leader,) = hall.stable()
    hall.leave((leader.member_id, None))
    assert hall.state() == "Empty"
    hall.advance(10 * 60 * 1000)
    assert hall.state() == "Dead"


def test_listing_filters_by_state_and_type() -> None:
    hall = Hall()
    hall.stable()
    hall.commit(group_id="simple")
    groups = hall.groups
    assert {line.group_id for line in groups.list_groups()} == {"g", "simple"}
    assert [line.group_id for line in groups.list_groups(states=["stable"])] == ["g"]
    assert [line.protocol_type for line in groups.list_groups(states=["Empty"])] == [""]
    assert groups.list_groups(types=["consumer"]) == []
    assert len(groups.list_groups(types=["Classic"])) == 2


def test_a_description_has_members_with_their_assignment() -> None:
    hall = Hall()
    leader, other = hall.stable(2, client_id="c", client_host="/127.0.0.1")
    described = hall.groups.describe_group("g")
    assert described is not None
    assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "roundrobin")
    assert {member.member_id: member.assignment for member in described.members} == {
        leader.member_id: leader.member_id.encode(),
        other.member_id: other.member_id.encode(),
    }
    assert described.members[0].client_host == "/127.0.0.1"
