"""The space of settled messages is freed soon, despite outstanding messages and crashes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.queues.service import QueueService as Queues
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import read_records
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, stored_batches

SETTINGS = QueueSettings(lease_ms=43_200_000)
SMALL = {"segment.bytes": "20000", "max.message.bytes": "100000"}
BODY = b"." * 1000
GRACE_MS = OPTIONS.settled_grace_ms


async def declare(life: Life, settings: QueueSettings = SETTINGS) -> Queues:
    queues = Queues(life.hall)
    await queues.create("q", settings)
    await configure_topic(life.hall, "q", SMALL)
    return queues


async def pass_through(queues: Queues, count: int) -> None:
    """Messages that are sent, received and settled."""
    for at in range(0, count, 10):
        await queues.send("q", [Outgoing(body=b"%d" % (at + step) + BODY) for step in range(min(10, count - at))])
        found = await queues.receive("q", 10, 0, 60_000, "")
        assert await queues.settle("q", [one.receipt for one in found]) == [None] * len(found)


async def clean(life: Life, cleaner: LogCleaner) -> None:
    """What the housekeeper does in a minute or two."""
    await checkpoint(life.hall)
    await cleaner.run()
    await asyncio.sleep(GRACE_MS / 1000 + 1)
    await cleaner.run()
    await checkpoint(life.hall)


def on_disk(life: Life, topic: str = "q") -> tuple[int, int]:
    """Bytes and files of the log."""
    disk = life.world.disk
    directory = f"partitions/{life.partition(topic).log.partition:016x}"
    names = [name for name in disk.list(directory) if name.endswith(".log")]
    return sum(disk.open(f"{directory}/{name}").size() for name in names), len(names)


async def given_again(life: Life, name: str = "q") -> list[Delivery]:
    """Everything that is still in the queue, once all leases are over."""
    await asyncio.sleep(50_000)
    found: list[Delivery] = []
    queues = Queues(life.hall)
    while more := await queues.receive(name, 10, 0, 3_600_000, ""):
        found += more
    return found


def test_traffic_behind_one_unsettled_message_is_freed() -> None:
    desk = Desk()
    sizes: list[tuple[int, int]] = []

    async def play(life: Life) -> None:
        queues = await declare(life)
        cleaner = LogCleaner(life.hall)
        await queues.send("q", [Outgoing(body=b"old")])
        assert len(await queues.receive("q", 1, 0, 43_200_000, "")) == 1
        for _ in range(12):
            await pass_through(queues, 100)
            await clean(life, cleaner)
            sizes.append(on_disk(life))
        assert max(size for size, _ in sizes) < 50_000, "of more than a megabyte that passed"
        assert max(files for _, files in sizes) <= 4
        assert len(life.partition("q").log.segments) <= 4
        assert life.partition("q").log.start_offset == 0

    async def look(life: Life) -> None:
        assert on_disk(life)[0] < 50_000
        assert [one.body for one in await given_again(life)] == [b"old"]

    desk.live(play)
    desk.live(look, end="cut")
    desk.live(look)


def test_live_messages_keep_offset_and_bytes() -> None:
    desk = Desk()

    async def play(life: Life) -> dict[bytes, str]:
        queues = await declare(life)
        cleaner = LogCleaner(life.hall)
        for at in range(0, 200, 10):
            await queues.send("q", [Outgoing(body=b"%d" % (at + step) + BODY) for step in range(10)])
        found: list[Delivery] = []
        while more := await queues.receive("q", 10, 0, 43_200_000, ""):
            found += more
        kept = found[7::25]
        await queues.settle("q", [one.receipt for one in found if one not in kept])
        before = life.partition("q").log.bytes_kept()
        await clean(life, cleaner)
        await clean(life, cleaner)
        after = on_disk(life)
        assert after[0] < before // 4
        records = [
            record
            for header, batch in stored_batches(life.partition("q"))
            if header.record_count
            for record in read_records(batch, 0)
        ]
        wanted = {one.body for one in kept}
        assert wanted <= {record.value for record in records}, "readers of the topic see the same"
        for record in records:
            assert record.value == b"%d" % record.offset + BODY
        await queues.settle("q", [one.receipt for one in kept[:4]])
        await clean(life, cleaner)
        return {one.body: one.message_id for one in kept[4:]}

    async def look(life: Life) -> None:
        again = await given_again(life)
        assert {one.body: one.message_id for one in again} == kept

    kept = desk.live(play, end="cut")
    assert len(kept) == 4
    desk.live(look)


def test_a_drained_queue_uses_no_disk() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        cleaner = LogCleaner(life.hall)
        await pass_through(queues, 1100)
        assert on_disk(life)[0] > 1_000_000
        await clean(life, cleaner)
        assert on_disk(life) == (0, 0)
        await pass_through(queues, 10)
        await queues.send("q", [Outgoing(body=b"next")])
        assert [one.body for one in await given_again(life)] == [b"next"]

    Desk().live(play)


@pytest.mark.parametrize("kind", ["keep", "topic", "both"])
def test_messages_that_other_readers_need_are_not_freed(kind: str) -> None:
    async def play(life: Life) -> None:
        settings = msgspec.structs.replace(SETTINGS, settled="keep" if kind == "keep" else "free")
        queues = Queues(life.hall)
        if kind == "topic":  # A topic keeps its retention, also when it is consumed as a queue.
            await create_topic(life.hall, "t", 1, SMALL)
            await queues.declare("q", "t", settings)
        else:
            queues = await declare(life, settings)
        if kind == "both":
            await queues.declare("other", "q", msgspec.structs.replace(SETTINGS, settled="keep"))
        topic = "t" if kind == "topic" else "q"
        await pass_through(queues, 100)
        await clean(life, LogCleaner(life.hall))
        assert on_disk(life, topic)[0] == life.partition(topic).log.bytes_kept() > 100_000

    Desk().live(play)


def test_a_rewind_during_cleaning_loses_nothing() -> None:
    async def play(life: Life) -> None:
        queues = await declare(life)
        cleaner = LogCleaner(life.hall)
        await queues.send("q", [Outgoing(body=b"old")])
        await queues.receive("q", 1, 0, 43_200_000, "")
        await pass_through(queues, 100)
        await checkpoint(life.hall)
        await cleaner.run()  # What is settled is marked now,
        await queues.configure("q", msgspec.structs.replace(SETTINGS, settled="keep"))
        await queues.rewind("q", "start")
        await queues.configure("q", SETTINGS)
        await asyncio.sleep(GRACE_MS / 1000 + 1)
        await cleaner.run()  # and is not settled any more.
        assert len(await given_again(life)) == 101

    Desk().live(play)


def test_batches_of_kafka_producers_are_opened() -> None:
    async def play(life: Life) -> None:
        queues = await declare(life)
        for _ in range(10):
            await life.send(life.partition("q"), batch_of(BODY, records=10))
        found: list[Delivery] = []
        while more := await queues.receive("q", 10, 0, 43_200_000, ""):
            found += more
        await queues.settle("q", [one.receipt for one in found if one is not found[3]])
        await clean(life, LogCleaner(life.hall))
        assert on_disk(life)[0] < 25_000
        (again,) = await given_again(life)
        assert again.message_id == found[3].message_id
        assert again.body == BODY

    Desk().live(play)


def test_markers_of_aborted_transactions_outlive_their_segments() -> None:
    async def play(life: Life) -> None:
        queues = await declare(life)
        life.transactor.start()
        partition = life.partition("q")
        await queues.send("q", [Outgoing(body=b"old")])
        await queues.receive("q", 1, 0, 43_200_000, "")
        taken = await life.transactor.init("tx", 60_000, -1, -1)
        producer, epoch = taken.producer_id, taken.producer_epoch
        for sequence, commit in enumerate((False, True)):
            await life.transactor.add("tx", producer, epoch, [("q", 0)])
            batch = batch_of(
                b"%d" % commit + BODY, producer_id=producer, epoch=epoch, sequence=sequence, transactional=True
            )
            assert (await life.send(partition, batch, "tx")).code is None
            await life.transactor.end("tx", producer, epoch, commit, False)
            await asyncio.sleep(1)
            await life.send(partition, batch_of(BODY, records=25))  # Another segment.
        found: list[Delivery] = []
        while more := await queues.receive("q", 10, 0, 43_200_000, ""):
            found += more
        assert [one.body for one in found].count(b"1" + BODY) == 1
        assert b"0" + BODY not in [one.body for one in found], "what was aborted is no message"
        await queues.settle("q", [one.receipt for one in found])
        await clean(life, LogCleaner(life.hall))
        headers = [header for header, _ in stored_batches(partition)]
        markers = [header for header in headers if header.is_control]
        assert len(markers) >= 1, "readers of committed messages know where it ended"
        assert on_disk(life)[0] < 30_000
        await life.transactor.stop()

    Desk().live(play)


def test_a_checkpoint_is_requested_to_free_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhall.broker.settled_cleaner.UNSAFE_BYTES_MAX", 50_000)

    async def play(life: Life) -> None:
        queues = await declare(life)
        await queues.send("q", [Outgoing(body=b"old")])
        await queues.receive("q", 1, 0, 43_200_000, "")
        await pass_through(queues, 30)
        await LogCleaner(life.hall).run()
        assert not life.hall.checkpoint_wanted
        await pass_through(queues, 100)
        await LogCleaner(life.hall).run()
        assert life.hall.checkpoint_wanted
        await checkpoint(life.hall)
        assert not life.hall.checkpoint_wanted

    Desk().live(play)


@pytest.mark.parametrize("changes", [*range(1, 34), *range(34, 84, 3)])
def test_a_crash_while_cleaning_neither_loses_nor_revives_messages(changes: int) -> None:
    desk = Desk(changes)

    async def fill(life: Life) -> None:
        queues = await declare(life)
        cleaner = LogCleaner(life.hall)
        for at in range(0, 150, 10):
            await queues.send("q", [Outgoing(body=b"%d" % (at + step) + BODY) for step in range(10)])
        found: list[Delivery] = []
        while more := await queues.receive("q", 10, 0, 43_200_000, ""):
            found += more
        kept = [found[5], found[60], *found[130:]]
        await queues.settle("q", [one.receipt for one in found if one not in kept])
        await checkpoint(life.hall)
        await cleaner.run()
        await asyncio.sleep(GRACE_MS / 1000 + 1)
        desk.host.faults.cut_after_changes = changes
        bodies[:] = [one.body for one in kept]
        await cleaner.run()
        await checkpoint(life.hall)

    async def look(life: Life) -> None:
        assert sorted(one.body for one in await given_again(life)) == sorted(bodies)
        await clean(life, LogCleaner(life.hall))
        assert on_disk(life)[0] < 60_000
        files = life.world.disk.list(f"partitions/{life.partition('q').log.partition:016x}")
        bases = {f"{segment.base_offset:020d}" for segment in life.partition("q").log.segments}
        assert {name.partition(".")[0] for name in files} == bases, "nothing is left lying about"

    bodies: list[bytes] = []
    desk.live(fill, end="cut")
    desk.host.faults.cut_after_changes = -1
    desk.live(look)
    desk.live(look)
