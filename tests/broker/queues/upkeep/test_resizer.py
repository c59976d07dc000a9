"""Queues that get more parts as they fill and fewer as they drain, with crashes, other doors and everything else."""

from __future__ import annotations

import asyncio
import zlib

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.upkeep import resizer
from longhall.broker.send import send
from longhall.broker.topic_administration import HIGH_WATERMARK, add_partitions, trim_log
from longhall.errors import Code
from longhall.queues.messages import Accepted, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import Record, build_batch
from longhall.topics.effects import CommitRequest
from tests.broker.queues.rig import Queues, Rig

GROWING = QueueSettings(parts_max=4, messages_max=400, shrink_after_ms=5_000)
ORDERED = msgspec.structs.replace(GROWING, fifo=True)
LOOK_S = 3 * resizer.LOOK_S


def parts(queues: Queues, name: str = "q") -> tuple[int, int]:
    """How many take messages, and how many of those that take none are shown beside them."""
    depth = queues.desk.depth(name)
    return depth.parts, depth.parts_going


def told(queues: Queues, name: str = "q") -> int:
    """How many partitions a Kafka client is told of."""
    shown = queues.life.hall.shown(name)
    assert shown is not None
    return len(shown)


async def fill(queues: Queues, count: int, groups: int = 7, start: int = 0) -> None:
    """Numbered messages, group by group in turn."""
    messages = [
        Outgoing(body=f"{number}".encode(), group=f"g{number % groups}") for number in range(start, start + count)
    ]
    assert all(one.code is None for one in await queues.desk.send("q", messages))


async def drain_in_order(queues: Queues, seen: dict[str, int], name: str = "q") -> int:
    """Receive and settle everything; the numbers of each group must rise, those that the hall gave among them."""
    count = 0
    numbers: dict[str, int] = {}
    while deliveries := await queues.receive(name):
        for one in deliveries:
            assert int(one.body) > seen.get(one.group, -1), one.group
            seen[one.group] = int(one.body)
            assert one.sequence > numbers.get(one.group, -1), one.group
            numbers[one.group] = one.sequence
        await queues.desk.settle(name, [one.receipt for one in deliveries])
        count += len(deliveries)
    return count


@pytest.mark.parametrize("fifo", [False, True])
def test_a_queue_grows_as_it_fills_and_shrinks_after_being_empty(fifo: bool) -> None:
    rig = Rig()
    seen: dict[str, int] = {}

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", ORDERED if fifo else GROWING)
        await fill(queues, 79)
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (1, 0)
        await fill(queues, 2, start=79)
        await asyncio.sleep(LOOK_S)
        assert (parts(queues), told(queues)) == ((2, 0), 2)
        await fill(queues, 200, start=81)
        await asyncio.sleep(LOOK_S)
        assert (parts(queues), told(queues)) == ((4, 0), 4)
        assert queues.desk.depth("q").generation == 2
        assert queues.desk.depth("q").available == 281
        received = await drain_in_order(queues, seen) if fifo else len(await queues.drain("q"))
        assert received == 281
        await asyncio.sleep(3)
        assert parts(queues) == (4, 0)
        await asyncio.sleep(3 + LOOK_S)
        assert (parts(queues), told(queues)) == ((2, 0), 2)
        await asyncio.sleep(5 + 2 * LOOK_S)
        assert (parts(queues), told(queues)) == ((1, 0), 1)
        await asyncio.sleep(60)
        assert parts(queues) == (1, 0)

    rig.live(play)


def test_a_queue_is_full_only_with_all_its_parts() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", GROWING)
        await fill(queues, 400)
        accepted = await queues.desk.send("q", [Outgoing(body=b"too much")])
        assert accepted[0].code is Code.QUEUE_FULL

    rig.live(play)


def test_order_inside_groups_holds_through_growth_shrinkage_and_crashes() -> None:
    rig = Rig()
    seen: dict[str, int] = {}
    sent = received = 0

    async def grow(queues: Queues) -> None:
        nonlocal sent
        if not sent:
            await queues.desk.create("q", ORDERED)
        for count in (85, 90, 150):
            await fill(queues, count, start=sent)
            sent += count
            await asyncio.sleep(LOOK_S)
        assert parts(queues) == (4, 0)

    async def work(queues: Queues) -> None:
        nonlocal received
        assert parts(queues) == (4, 0)
        for _ in range(12):
            deliveries = await queues.receive("q")
            for one in deliveries:
                assert int(one.body) > seen.get(one.group, -1)
                seen[one.group] = int(one.body)
            await queues.desk.settle("q", [one.receipt for one in deliveries])
            received += len(deliveries)
        await checkpoint(queues.life.hall)

    async def rest(queues: Queues) -> None:
        nonlocal sent, received
        received += await drain_in_order(queues, seen)
        assert received == sent
        await asyncio.sleep(5 + LOOK_S)
        await fill(queues, 21, start=sent)
        sent += 21
        await asyncio.sleep(LOOK_S)
        received += await drain_in_order(queues, seen)
        assert received == sent

    for end in ("kill", "cut"):
        for play in (grow, work, rest):
            rig.live(play, end=end)


def test_a_group_uses_the_new_part_and_waits_for_the_old() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        group = next(f"h{n}" for n in range(100) if zlib.crc32(f"h{n}".encode()) % 2)  # In two parts it goes elsewhere.
        await queues.desk.create("q", ORDERED)
        await fill(queues, 85, groups=5)
        await queues.send("q", "old", group=group)
        await asyncio.sleep(LOOK_S)
        await queues.send("q", "new", group=group)
        assert queues.life.partition("q", 1).log.next_offset == 1
        held = []
        while deliveries := await queues.receive("q"):
            mine = [one for one in deliveries if one.group == group]
            held += mine
            await queues.desk.settle("q", [one.receipt for one in deliveries if one not in mine])
        assert [one.body for one in held] == [b"old"]
        waiting = asyncio.ensure_future(queues.desk.receive("q", 1, 20_000, 30_000, ""))
        await asyncio.sleep(1)
        assert not waiting.done()
        await queues.desk.settle("q", [one.receipt for one in held])
        assert [one.body for one in await waiting] == [b"new"]

    rig.live(play)


def test_a_waiting_receiver_gets_messages_of_new_parts() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", GROWING)
        await fill(queues, 85, groups=1)
        held = [one for _ in range(10) for one in await queues.receive("q")]
        assert len(held) == 85
        waiting = asyncio.ensure_future(queues.desk.receive("q", 1, 20_000, 30_000, ""))
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (2, 0)
        await send_by_itself(queues, 1, "late")
        assert [one.body for one in await waiting] == [b"late"]

    rig.live(play)


async def send_by_itself(queues: Queues, number: int, *bodies: str) -> None:
    """As a Kafka producer does, to a partition of its choice."""
    life = queues.life
    batch = build_batch(
        [Record(at, life.hall.time.now_ms(), b"k", body.encode(), ()) for at, body in enumerate(bodies)]
    )
    assert send(life.hall, life.partition("q", number), batch, 0, len(batch), connection=7).code is None
    await life.sync()


def test_keys_of_a_kafka_producer_keep_their_order() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", ORDERED)
        await send_by_itself(queues, 0, "1", "2")
        await fill(queues, 85, groups=3, start=100)
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (2, 0)
        await send_by_itself(queues, 0, "3")  # It has not heard of the growth yet.
        await send_by_itself(queues, 1, "4")  # Now it has.
        await send_by_itself(queues, 1, "5")
        numbers: list[int] = []
        while deliveries := await queues.receive("q", 3):
            numbers += [int(one.body) for one in deliveries if one.group == "k"]
            await queues.desk.settle("q", [one.receipt for one in deliveries])
        assert numbers == [1, 2, 3, 4, 5]

    rig.live(play)


def test_a_queue_does_not_shrink_under_kafka_producers() -> None:
    rig = Rig()

    async def grow(queues: Queues) -> None:
        await queues.desk.create("q", GROWING)
        await fill(queues, 85)
        await send_by_itself(queues, 0, "x")
        await asyncio.sleep(LOOK_S)
        await queues.drain("q")
        for _ in range(30):
            await send_by_itself(queues, 1, "x")
            await queues.drain("q")
            await asyncio.sleep(2)
        assert parts(queues) == (2, 0)

    async def shrink(queues: Queues) -> None:
        await asyncio.sleep(resizer.CHOSEN_QUIET_MS / 1000 - 5)
        assert parts(queues) == (2, 0)
        await asyncio.sleep(10 + 2 * LOOK_S)
        assert (parts(queues), told(queues)) == ((1, 0), 1)
        await send_by_itself(queues, 1, "old habits")  # To a part that nobody is told of.
        assert (parts(queues), told(queues)) == ((2, 0), 2)
        assert await queues.drain("q") == ["old habits"]

    rig.live(grow)
    rig.live(shrink)


def test_parts_stay_until_all_readers_have_finished() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", GROWING)
        await fill(queues, 85)
        await asyncio.sleep(LOOK_S)
        await fill(queues, 20)
        await queues.drain("q")
        end = queues.life.partition("q", 1).log.next_offset
        assert end
        for offset in (1, end):
            request = CommitRequest(group_id="readers", offsets=(("q", 1, offset, -1, ""),))
            await queues.life.coordinator.commit_offsets(request)
            if offset == 1:
                await asyncio.sleep(8 + LOOK_S)
                assert (parts(queues), told(queues)) == ((1, 1), 2)
                await fill(queues, 3)  # None of it goes where nothing goes any more.
                assert queues.life.partition("q", 1).log.next_offset == end
                await queues.drain("q")
        await asyncio.sleep((resizer.READERS_LOOKS + 2) * resizer.LOOK_S)
        assert (parts(queues), told(queues)) == ((1, 0), 1)

    rig.live(play)


def test_offsets_continue_when_a_part_is_reopened() -> None:
    rig = Rig()
    ends: list[int] = []

    async def play(queues: Queues) -> None:
        if not ends:
            await queues.desk.create("q", GROWING)
        await fill(queues, 85)
        await asyncio.sleep(LOOK_S)
        await fill(queues, 30)
        await queues.drain("q")
        ends.append(queues.life.partition("q", 1).log.next_offset)
        await asyncio.sleep(10)
        assert (parts(queues), told(queues)) == ((1, 0), 1)
        await checkpoint(queues.life.hall)

    rig.live(play)
    rig.live(play)
    assert 0 < ends[0] < ends[1]


def test_a_queue_in_parts_looks_like_one_queue() -> None:
    """Peeked at, searched, purged, rewound and moved as if it had one log."""
    rig = Rig()

    async def play(queues: Queues) -> None:
        desk = queues.desk
        await desk.create("letters", QueueSettings())
        letters = DeadLetters(queue="letters", attempts_max=1)
        settings = msgspec.structs.replace(ORDERED, settled="keep", dead_letters=letters)
        await desk.create("q", settings)
        await fill(queues, 90)
        await asyncio.sleep(LOOK_S)
        await fill(queues, 90, start=90)
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (4, 0)
        found: list[str] = []
        place = ""
        while True:
            page = await desk.inspection.peek("q", 50, place)
            found += [one.delivery.body.decode() for one in page.messages]
            place = page.next
            if not place:
                break
        assert sorted(map(int, found)) == list(range(180))
        assert len((await desk.inspection.search("q", text="17", count_max=100)).messages) == 12
        seen: dict[str, int] = {}
        assert await drain_in_order(queues, seen) == 180
        await desk.rewind("q", "start")
        seen = {}
        assert await drain_in_order(queues, seen) == 180
        await desk.fork("q", "again", "start")
        seen = {}
        assert await drain_in_order(queues, seen, "again") == 180
        await desk.rewind("q", "start")
        held = [one for _ in range(30) for one in await queues.receive("q", lease_ms=100)]
        assert held
        await asyncio.sleep(1)
        await queues.receive("q")
        assert desk.depth("letters").available > 0
        await desk.purge("q")
        assert desk.depth("q").available == 0
        before = desk.depth("letters").available
        await desk.start_move("letters", "q", 0)
        await asyncio.sleep(5)
        assert desk.depth("letters").available == 0
        assert desk.depth("q").available == before

    rig.live(play)


def test_what_cannot_be_is_refused() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        desk = queues.desk
        for settings in (
            QueueSettings(parts_max=3, messages_max=10),
            QueueSettings(parts_max=2),
            QueueSettings(parts_max=2, messages_max=10, grow_at=30, shrink_at=20),
            QueueSettings(parts_max=2, messages_max=10, one_by_one=True),
            QueueSettings(partitions=2, parts_max=5, messages_max=10),
        ):
            assert await queues.refused(desk.create("q", settings)) is Code.INVALID_CONFIGURATION
        await desk.create("q", GROWING)
        assert await queues.refused(add_partitions(queues.life.hall, "q", 3)) is Code.INVALID_PARTITION_COUNT
        assert await queues.refused(desk.declare("over", "q", GROWING)) is Code.INVALID_CONFIGURATION
        odd = msgspec.structs.replace(GROWING, parts_max=3)
        assert await queues.refused(desk.configure("q", odd)) is Code.INVALID_CONFIGURATION

    rig.live(play)


def test_new_settings_can_reduce_the_parts() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", GROWING)
        await fill(queues, 170)
        await asyncio.sleep(2 * LOOK_S)
        assert parts(queues) == (4, 0)
        await queues.desk.configure("q", QueueSettings(shrink_after_ms=1000))
        await asyncio.sleep(10)
        assert parts(queues)[0] == 1
        assert len(await queues.drain("q")) == 170
        await asyncio.sleep(2 * LOOK_S)
        assert (parts(queues), told(queues)) == ((1, 0), 1)

    rig.live(play)

    async def still(queues: Queues) -> None:
        assert (parts(queues), told(queues)) == ((1, 0), 1)

    rig.live(still)


def test_a_fifo_queue_over_a_growing_topic_keeps_its_order() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(fifo=True))
        seen: dict[str, int] = {}
        sent = 0
        for partitions in (2, 3, 5):
            await fill(queues, 40, groups=9, start=sent)
            sent += 40
            await add_partitions(queues.life.hall, "q", partitions)
        await fill(queues, 40, groups=9, start=sent)
        assert await drain_in_order(queues, seen) == sent + 40

    rig.live(play)


def test_a_repeated_send_that_waits_for_room_is_accepted_once() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        settings = QueueSettings(fifo=True, deduplication="id", messages_max=1, when_full="wait")
        await queues.desk.create("q", settings)
        await queues.send("q", "first", group="g", deduplication_id="1")
        again = [asyncio.ensure_future(queues.send("q", "second", group="g", deduplication_id="2")) for _ in range(2)]
        await asyncio.sleep(1)
        assert await queues.drain("q") == ["first"]
        await asyncio.sleep(1)
        assert await queues.drain("q") == ["second"]
        ids = [await one for one in again]
        assert ids[0] == ids[1]
        assert await queues.drain("q") == []

    rig.live(play)


def test_a_repeated_send_gets_the_number_of_the_first_one() -> None:
    rig = Rig()
    first: list[Accepted] = []
    message = Outgoing(body=b"x", group="g1", deduplication_id="1")

    async def grow(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(ORDERED, deduplication="id"))
        await fill(queues, 85)
        await asyncio.sleep(LOOK_S)
        first.extend(await queues.desk.send("q", [message]))
        await fill(queues, 100)
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (4, 0)

    async def again(queues: Queues) -> None:
        (repeated,) = await queues.desk.send("q", [message])
        assert repeated.repeated
        assert (repeated.message_id, repeated.sequence) == (first[0].message_id, first[0].sequence)

    rig.live(grow)
    rig.live(again)


def test_a_full_queue_does_not_shrink() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(GROWING, shrink_after_ms=0))
        await fill(queues, 85)
        for _ in range(20):
            await asyncio.sleep(LOOK_S)
            assert parts(queues)[0] == 2
        await queues.drain("q")
        await asyncio.sleep(2 * LOOK_S)
        assert (parts(queues), told(queues)) == ((1, 0), 1)

    rig.live(play)


def test_a_part_that_ends_with_an_aborted_transaction_is_hidden() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        life = queues.life
        life.transactor.start()
        await queues.desk.create("q", ORDERED)
        await fill(queues, 85)
        taken = await life.transactor.init("tx", 60_000, -1, -1)
        producer, epoch = taken.producer_id, taken.producer_epoch
        await life.transactor.add("tx", producer, epoch, [("q", 0)])
        record = [Record(0, 0, b"k", b"no", ())]
        batch = build_batch(record, producer_id=producer, producer_epoch=epoch, base_sequence=0, transactional=True)
        assert send(life.hall, life.partition("q"), batch, 0, len(batch), "tx").code is None
        await asyncio.sleep(LOOK_S)
        assert parts(queues) == (2, 0)
        await fill(queues, 40, start=85)
        await life.transactor.end("tx", producer, epoch, False, False)
        assert await drain_in_order(queues, {}) == 125
        await asyncio.sleep(resizer.CHOSEN_QUIET_MS / 1000 + 10)
        assert (parts(queues), told(queues)) == ((1, 0), 1)
        await life.transactor.stop()

    rig.live(play)


def test_a_trimmed_part_is_hidden() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", ORDERED)
        await fill(queues, 85)
        await asyncio.sleep(LOOK_S)
        await fill(queues, 40, start=85)
        left = queues.life.partition("q", 1).log.next_offset
        assert left
        await trim_log(queues.life.hall, queues.life.partition("q"), HIGH_WATERMARK)
        assert await drain_in_order(queues, {}) == left

    rig.live(play)
