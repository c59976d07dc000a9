"""Groups whose members change between the classic and the consumer protocol while they are members."""

from __future__ import annotations

import struct

from longhall.errors import Code
from longhall.topics.consumer_protocol import encode_assignment, parse_assignment, parse_subscription
from longhall.topics.effects import JoinResult
from longhall.topics.settings import GroupSettings
from tests.topics.hall import Hall, Topics


def subscription(*owned: int) -> bytes:
    """To topic t, in version 1, with the owned partitions."""
    rows = struct.pack(f">ih1si{len(owned)}i", 1, 1, b"t", len(owned), *owned) if owned else struct.pack(">i", 0)
    return struct.pack(">hih1si", 1, 1, 1, b"t", -1) + rows


def protocols(*owned: int) -> tuple[tuple[str, bytes], ...]:
    return (("cooperative-sticky", subscription(*owned)),)


def classic_group(migration: str = "bidirectional") -> tuple[Hall, JoinResult]:
    """A stable classic group with one member that has all four partitions."""
    settings = GroupSettings(initial_rebalance_delay_ms=0, consumer_migration=migration)
    hall = Hall(settings, Topics(t=4))
    joined = hall.joined(hall.send_join(protocols=protocols()))
    sync = hall.send_sync(joined, {joined.member_id: encode_assignment(1, {"t": (0, 1, 2, 3)})})
    assert hall.synced(sync).code is None
    return hall, joined


def rejoin(hall: Hall, member_id: str, *owned: int) -> tuple[JoinResult, set[int]]:
    joined = hall.joined(hall.send_join(member_id, protocols=protocols(*owned)))
    assert joined.code is None
    synced = hall.synced(hall.send_sync(joined))
    assert synced.code is None
    return joined, set(parse_assignment(synced.assignment).get("t", ()))


def test_a_classic_member_shares_with_one_of_the_consumer_protocol() -> None:
    hall, joined = classic_group()
    hall.commit(7, member_id=joined.member_id, generation=joined.generation)
    entered = hall.enter("c1", "t")
    assert (entered.epoch, hall.named(entered.assigned)) == (joined.generation + 1, set())
    beat = hall.groups.heartbeat("g", joined.member_id, joined.generation, hall.now_ms)
    assert beat is Code.REBALANCE_IN_PROGRESS

    asked, kept = rejoin(hall, joined.member_id, 0, 1, 2, 3)
    assert (asked.generation, len(kept)) == (joined.generation, 2)  # It has to give up two first.
    assert hall.named(hall.beat("c1", entered.epoch).assigned) == set()
    hall.restart()
    done, kept = rejoin(hall, joined.member_id, *kept)
    assert done.generation == entered.epoch
    assert hall.groups.heartbeat("g", joined.member_id, done.generation, hall.now_ms) is None
    got = {number for _, number in hall.named(hall.beat("c1", entered.epoch).assigned)}
    assert kept | got == {0, 1, 2, 3}
    assert not kept & got
    assert hall.offset() == 7
    assert hall.commit(8, member_id=joined.member_id, generation=done.generation).code is None
    assert hall.commit(8, member_id=joined.member_id, generation=1).code is Code.ILLEGAL_GENERATION


def test_the_group_is_classic_again_when_only_classic_members_are_left() -> None:
    hall, joined = classic_group()
    entered = hall.enter("c1", "t")
    hall.beat("c1", -1)
    assert hall.groups.describe_consumer_group("g") is None
    described = hall.groups.describe_group("g")
    assert described is not None
    assert described.generation > joined.generation
    assert [member.member_id for member in described.members] == [joined.member_id]
    again = hall.joined(hall.send_join(joined.member_id, protocols=protocols(0, 1, 2, 3)))
    assert again.generation > entered.epoch
    hall.restart()
    assert hall.groups.describe_group("g") is not None


def test_a_classic_member_leaves_and_expires() -> None:
    hall, joined = classic_group()
    entered = hall.enter("c1", "t")
    assert hall.leave((joined.member_id, None)).members[0][2] is None
    assert len(hall.named(hall.beat("c1", entered.epoch).assigned)) == 4
    late = hall.send_join("late", protocols=protocols(), session_timeout_ms=6_000)
    assert hall.joined(late).code is None
    hall.advance(7_000)
    assert hall.groups.count_members("g") == 1


def test_empty_groups_change_their_kind_and_keep_their_offsets() -> None:
    hall, joined = classic_group()
    hall.commit(5, member_id=joined.member_id, generation=joined.generation)
    hall.leave((joined.member_id, None))
    entered = hall.enter("c1", "t")
    assert entered.epoch > joined.generation  # Epochs continue generations.
    assert hall.offset() == 5
    hall.beat("c1", -1)
    again = hall.joined(hall.send_join(protocols=protocols()))
    assert again.generation > entered.epoch
    assert hall.offset() == 5
    hall.restart()
    assert hall.offset() == 5


def test_the_policy_and_other_protocols_are_respected() -> None:
    hall, joined = classic_group("disabled")
    assert hall.enter("c1", "t").code is Code.GROUP_UNKNOWN
    assert hall.groups.heartbeat("g", joined.member_id, joined.generation, hall.now_ms) is None
    other = Hall(GroupSettings(initial_rebalance_delay_ms=0), Topics(t=1))
    other.stable(protocol_type="connect", protocols=(("default", b"anything"),))
    assert other.enter("c1", "t").code is Code.GROUP_UNKNOWN
    hall.leave((joined.member_id, None))
    hall.enter("c1", "t")
    wrong = hall.send_join(protocol_type="connect", protocols=(("default", b"x"),))
    assert hall.joined(wrong).code is Code.INCONSISTENT_PROTOCOL


def test_a_classic_join_without_an_id_is_told_one() -> None:
    hall, _ = classic_group()
    hall.enter("c1", "t")
    told = hall.joined(hall.send_join(protocols=protocols(), requires_known_member=True))
    assert told.code is Code.MEMBER_ID_REQUIRED
    assert hall.joined(hall.send_join(told.member_id, protocols=protocols())).code is None


def test_the_embedded_protocol() -> None:
    assert parse_subscription(subscription(1, 2)).owned == {"t": (1, 2)}
    assert parse_assignment(encode_assignment(3, {"t": (0, 7), "u": ()})) == {"t": (0, 7), "u": ()}
