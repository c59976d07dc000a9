"""Queues in other replication groups grow as they fill and shrink as they drain, and FIFO groups keep their order."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.broker.queues.upkeep import resizer
from longhall.broker.send import send
from longhall.cluster.placement import placed_resizer
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch
from longhall.service.queue_operations import SendMessages, SettleMessages
from longhall.topics.effects import CommitRequest
from tests.service.house import House, live

LOOK_S = 3 * placed_resizer.LOOK_S
SHARE = QueueSettings(placement="share", parts_max=4, messages_max=400, shrink_after_ms=5_000)
PARTS = QueueSettings(
    placement="parts",
    partitions=3,
    parts_max=12,
    messages_max=1_200,
    shrink_after_ms=5_000,
    fifo=True,
    deduplication_scope="group",
)


def parts(house: House, name: str = "q") -> dict[int, tuple[int, int]]:
    """The open and shown parts in the hall (0) and in each group of the queue."""
    halls = {0: house.main.hall, **{number: life.hall for number, life in house.wings.items()}}
    found = {number: hall.topic(name) for number, hall in halls.items()}
    return {number: (one.open_count, one.shown_count) for number, one in found.items() if one is not None}


def all_have(house: House, open: int, shown: int = 0) -> bool:
    return set(parts(house).values()) == {(open, shown or open)}


async def fill(house: House, count: int, groups: int = 20, start: int = 0) -> None:
    messages = [
        Outgoing(body=b"%d" % number, group=f"g{number % groups}", deduplication_id=str(number))
        for number in range(start, start + count)
    ]
    for at in range(0, count, 10):
        replies = await house.service.dispatch(SendMessages("q", messages[at : at + 10]))
        assert [one.code for one in replies] == [None] * len(replies)


async def drain_in_order(house: House, seen: dict[str, int], most: int = 1_000_000) -> int:
    """Receive and settle; the numbers of each FIFO group must rise, and so must its sequence numbers."""
    count = 0
    sequences: dict[str, int] = {}
    while count < most and (deliveries := await house.receive("q")):
        for one in deliveries:
            assert int(one.body) > seen.get(one.group, -1), one.group
            seen[one.group] = int(one.body)
            assert one.sequence > sequences.get(one.group, -1), one.group
            sequences[one.group] = one.sequence
        codes = await house.service.dispatch(SettleMessages("q", [one.receipt for one in deliveries]))
        assert codes == [None] * len(codes)
        count += len(deliveries)
    return count


def test_a_queue_in_parts_grows_in_all_its_groups_and_keeps_the_order_of_fifo_groups() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", PARTS)
        assert all_have(house, 3)
        await fill(house, 200)
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 3)
        await fill(house, 100, start=200)
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 6)
        await fill(house, 300, start=300)
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 12)
        for number, life in house.wings.items():
            here = [one.number for one in life.hall.routes["q"] if not one.elsewhere]
            assert here == [place for place in range(12) if place % 3 == number - 1], "parts are spread over groups"
            assert all(one.log.next_offset == 0 for one in life.hall.routes["q"] if one.elsewhere)
            assert sum(one.log.next_offset > 0 for one in life.hall.routes["q"]) > 1, "a group uses its new parts"
        assert (await house.queues.weigh("q")).parts == 12
        seen: dict[str, int] = {}
        assert await drain_in_order(house, seen, 100) == 100
        await fill(house, 50, start=600)
        assert await drain_in_order(house, seen) == 550

    live(play)


def test_it_shrinks_when_all_groups_have_been_calm_and_order_holds_again() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", PARTS)
        await fill(house, 300)
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 6)
        seen: dict[str, int] = {}
        await drain_in_order(house, seen)
        await fill(house, 30, start=300)
        await asyncio.sleep(4.0)
        assert all_have(house, 6)
        await asyncio.sleep(2.0)
        assert all_have(house, 3, 6), "closed parts that are not drained are still shown"
        await fill(house, 60, start=330)
        assert await drain_in_order(house, seen) == 90
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 3)
        generation = house.main.hall.catalogue.topics["q"].generation
        await fill(house, 300, start=390)
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 6)
        assert house.main.hall.catalogue.topics["q"].generation == generation + 1
        assert await drain_in_order(house, seen) == 300

    live(play)


def test_a_queue_in_one_group_grows_there() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", SHARE)
        await fill(house, 90)
        await asyncio.sleep(LOOK_S)
        assert parts(house) == {0: (2, 2), 1: (2, 2)}
        await fill(house, 200, start=90)
        await asyncio.sleep(LOOK_S)
        assert parts(house) == {0: (4, 4), 1: (4, 4)}
        assert house.main.hall.shown("q") is not None
        assert len(house.main.hall.shown("q") or []) == 4
        assert len(await house.drain("q")) == 290

    live(play)


def test_a_group_that_was_away_has_the_new_parts_when_it_is_back() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", PARTS)
        await fill(house, 300)
        house.reach.lost = {2}
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 3), "nothing changes while a group cannot be asked"
        house.reach.lost = set()
        await asyncio.sleep(placed_resizer.LOOK_S + 0.01)
        house.reach.away = {3}
        await asyncio.sleep(LOOK_S)
        house.reach.away = set()
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 6)
        assert await drain_in_order(house, {}) == 300

    live(play)


def test_a_kafka_producer_opens_closed_parts_again_everywhere() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", PARTS)
        await fill(house, 300)
        await asyncio.sleep(LOOK_S)
        await drain_in_order(house, {})
        await asyncio.sleep(9.0)
        assert all_have(house, 3)
        group = house.wings[2].hall
        batch = build_batch([Record(-1, 0, b"g4", b"1000")])
        assert send(group, group.routes["q"][4], batch, 0, len(batch), connection=7).code is None
        assert parts(house)[2] == (6, 6), "no send is refused"
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 6)
        await house.drain("q")
        await asyncio.sleep(30.0)
        assert all_have(house, 6), "producers have not refreshed their metadata yet"
        await asyncio.sleep(resizer.CHOSEN_QUIET_MS / 1000)
        assert all_have(house, 3)

    live(play)


def test_a_closed_part_is_shown_until_consumer_groups_have_read_it() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", msgspec.structs.replace(PARTS, settled="keep"))
        await fill(house, 300)
        await asyncio.sleep(LOOK_S)
        await fill(house, 100, start=300)
        ends = {one.number: one.log.next_offset for one in house.wings[2].hall.routes["q"] if not one.elsewhere}
        assert ends[4] > 0
        coordinator = house.main.coordinator
        request = CommitRequest(group_id="readers", offsets=(("q", 4, ends[4] - 1, -1, ""),))
        await coordinator.commit_offsets(request)
        await drain_in_order(house, {})
        await asyncio.sleep(30.0)
        assert all_have(house, 3, 6)
        await coordinator.commit_offsets(msgspec.structs.replace(request, offsets=(("q", 4, ends[4], -1, ""),)))
        await asyncio.sleep(LOOK_S)
        assert all_have(house, 3)

    live(play)


@pytest.mark.parametrize(
    "settings",
    [
        msgspec.structs.replace(PARTS, partitions=4, parts_max=8),  # Not a multiple of the three groups.
        msgspec.structs.replace(PARTS, partitions=1, parts_max=4),  # It has three, and cannot double to four.
        msgspec.structs.replace(SHARE, parts_max=3),
        msgspec.structs.replace(SHARE, messages_max=0),
    ],
)
def test_growth_that_would_move_fifo_groups_is_refused(settings: QueueSettings) -> None:
    async def play(house: House) -> None:
        with pytest.raises(LonghallError) as caught:
            await house.queues.create("q", settings)
        assert caught.value.code is Code.INVALID_CONFIGURATION
        assert house.queues.view("q") is None

    live(play)


def test_a_queue_that_may_not_grow_any_more_shrinks() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", SHARE)
        await fill(house, 90)
        await asyncio.sleep(LOOK_S)
        assert parts(house)[1] == (2, 2)
        await house.queues.configure("q", msgspec.structs.replace(SHARE, parts_max=1))
        await house.drain("q")
        await asyncio.sleep(10.0)
        assert parts(house) == {0: (1, 1), 1: (1, 1)}
        await house.queues.delete("q")
        assert parts(house) == {}

    live(play)
