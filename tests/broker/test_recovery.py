"""What a hall has again after it died: everything that was committed, and nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.hall import Hall
from longhall.broker.refused_producers import REMEMBERED_MS
from longhall.broker.send import send
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic, trim_log
from longhall.errors import Code, LonghallError
from longhall.log.layout import partition_directory, segment_path
from longhall.topics.effects import CommitRequest
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, picture, stored_batches

LARGE = bytes(range(256)) * 300  # More than is written to the log itself.


async def history(life: Life) -> None:
    """A bit of everything, all of it committed."""
    hall = life.hall
    await create_topic(hall, "t", 3, {"retention.ms": "-1"})
    await create_topic(hall, "gone", 2, {})
    await configure_topic(hall, "t", {"retention.ms": "777"})
    await add_partitions(hall, "t", 4)
    for number in range(6):
        await life.send(life.partition("t", number % 3), batch_of(b"small %d" % number, records=3))
        await life.send(life.partition("gone"), batch_of(LARGE))
    for number in range(5):
        batch = batch_of(LARGE + b"%d" % number, producer_id=900, epoch=0, sequence=number)
        await life.send(life.partition("t", 1), batch)
    await life.coordinator.commit_offsets(CommitRequest(group_id="g", offsets=(("t", 0, 5, -1, "m"),)))
    for outcome in (True, False):
        taken = await life.transactor.init("tx", 60_000, -1, -1)
        assert taken.code is None
        await life.transactor.add("tx", taken.producer_id, taken.producer_epoch, [("t", 2)])
        await life.send(
            life.partition("t", 2),
            batch_of(b"in", producer_id=taken.producer_id, epoch=taken.producer_epoch, sequence=0, transactional=True),
            "tx",
        )
        await life.transactor.end("tx", taken.producer_id, taken.producer_epoch, outcome, False)
    await trim_log(hall, life.partition("t", 1), 3)
    await delete_topic(hall, "gone")


@pytest.mark.parametrize("end", ["kill", "cut"])
@pytest.mark.parametrize("checkpoints", [(), ("before",), ("after",), ("before", "after")])
def test_a_history_survives(end: str, checkpoints: tuple[str, ...]) -> None:
    desk = Desk()
    before: dict[str, object] = {}
    epochs: list[int] = []

    async def play(life: Life) -> None:
        await create_topic(life.hall, "earlier", 1, {})
        await life.send(life.partition("earlier"), batch_of(LARGE))
        if "before" in checkpoints:
            await checkpoint(life.hall)
        await history(life)
        if "after" in checkpoints:
            await checkpoint(life.hall)
        await life.sync()
        before.update(picture(life.hall))
        epochs[:] = [shard.epoch for shard in life.hall.shards]

    desk.live(play, end=end)
    for _ in range(3):  # Starting changes nothing but the epoch.

        async def look(life: Life) -> None:
            assert picture(life.hall) == before
            assert life.report.damage == []
            assert life.hall.topic("t") is not None
            assert life.partition("t").options.retention_ms == 777
            assert all(shard.epoch > epoch for shard, epoch in zip(life.hall.shards, epochs, strict=True))
            epochs[:] = [shard.epoch for shard in life.hall.shards]
            offsets = await life.coordinator.fetch_offsets("g", [("t", 0)], False)
            assert [row.offset for row in offsets] == [5]
            assert life.partition("t", 2).table().aborted_ranges()

        desk.live(look, end=end)


def test_a_retried_batch_is_deduplicated_after_a_crash() -> None:
    desk = Desk()
    batches = [batch_of(b"%d" % n, producer_id=7, epoch=0, sequence=n) for n in range(8)]

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        for batch in batches[:4]:
            await life.send(life.partition("t"), batch)
        await checkpoint(life.hall)
        for batch in batches[4:7]:
            await life.send(life.partition("t"), batch)

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        partition = life.partition("t")
        for number in range(2, 7):
            sent = await life.send(partition, batches[number])
            assert (sent.code, sent.base_offset) == (None, number)
        assert partition.log.next_offset == 7
        assert (await life.send(partition, batches[7])).base_offset == 7
        late = batch_of(b"x", producer_id=7, epoch=0, sequence=12)
        assert (await life.send(partition, late)).code is Code.OUT_OF_ORDER_SEQUENCE

    desk.live(look)


@pytest.mark.parametrize("why", [Code.NOT_ENOUGH_REPLICAS, Code.STORAGE_FULL, Code.COMMIT_BACKLOG])
def test_a_general_refusal_precedes_a_sequence_error(why: Code) -> None:
    """On a sequence error librdkafka begins a new epoch and resends batches that are in the log."""
    batches = [batch_of(b"%d" % n, producer_id=7, epoch=0, sequence=n) for n in range(4)]

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        partition = life.partition("t")
        assert (await life.send(partition, batches[0])).base_offset == 0
        if why is Code.STORAGE_FULL:
            life.hall.storage_full = True
        elif why is Code.COMMIT_BACKLOG:
            life.hall.backlog.is_full = True
        else:
            life.hall.refusal = why
        assert [(await life.send(partition, batch)).code for batch in batches] == [None, why, why, why]
        life.hall.storage_full, life.hall.refusal, life.hall.backlog.is_full = False, None, False
        assert (await life.send(partition, batches[2])).code is why  # It was under way behind one that was refused.
        await asyncio.sleep(REMEMBERED_MS / 1000 + 1)
        assert (await life.send(partition, batches[2])).code is Code.OUT_OF_ORDER_SEQUENCE
        assert [(await life.send(partition, batch)).base_offset for batch in batches] == [0, 1, 2, 3]

    Desk().live(play)


def test_deleted_topics_stay_deleted_and_their_files_are_removed() -> None:
    desk = Desk()
    directories: list[str] = []

    async def play(life: Life) -> None:
        await history(life)
        directories.extend(partition_directory(partition.log.partition) for partition in life.hall.dropped)
        assert any(life.world.disk.exists(directory) for directory in directories)

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert life.hall.topic("gone") is None
        await checkpoint(life.hall)
        assert not any(life.world.disk.exists(directory) for directory in directories)

    desk.live(look)


def test_leftover_files_of_a_crash_are_removed_at_the_next_start() -> None:
    """The snapshots that no longer need them were published, and then the power went."""
    seen = 0
    for changes in range(1, 200):
        desk = Desk()
        paths: list[str] = []

        async def play(life: Life, changes: int = changes, desk: Desk = desk, paths: list[str] = paths) -> bool:
            await history(life)
            paths.extend(segment_path(number, base) for number, base in life.hall.dead_segments)
            paths.extend(partition_directory(partition.log.partition) for partition in life.hall.dropped)
            desk.host.faults.cut_after_changes = changes
            await checkpoint(life.hall)
            desk.host.faults.cut_after_changes = -1
            return True

        done = desk.live(play)
        desk.host.faults.cut_after_changes = -1

        async def look(life: Life, paths: list[str] = paths) -> bool:
            assert life.hall.topic("gone") is None
            assert life.partition("t", 1).log.start_offset == 3
            left = [path for path in paths if life.world.disk.exists(path)]
            waiting = bool(life.hall.dropped)
            await checkpoint(life.hall)
            assert not [path for path in paths if life.world.disk.exists(path)]
            return bool(left) and not waiting

        seen += bool(desk.live(look))
        if done:
            break
    else:
        raise AssertionError("the checkpoint never came to its end")


@pytest.mark.parametrize("kill", [False, True])
def test_a_crash_at_any_step_of_a_checkpoint_is_harmless(kill: bool) -> None:
    for changes in range(200):
        desk = Desk(seed=changes)
        before: dict[str, object] = {}

        async def play(
            life: Life, changes: int = changes, desk: Desk = desk, before: dict[str, object] = before
        ) -> bool:
            await create_topic(life.hall, "earlier", 1, {})
            await life.send(life.partition("earlier"), batch_of(LARGE))
            await checkpoint(life.hall)
            await history(life)
            before.update(picture(life.hall))
            desk.host.faults.cut_after_changes = changes
            if kill:
                desk.host.faults.cut_after_changes = -1
                task = life.world.process.start(checkpoint(life.hall))
                for _ in range(changes):
                    await asyncio.sleep(0.004)
                return task.done()
            await checkpoint(life.hall)
            desk.host.faults.cut_after_changes = -1
            return True

        done = desk.live(play, end="kill")
        desk.host.faults.cut_after_changes = -1

        async def look(life: Life, before: dict[str, object] = before) -> None:
            assert picture(life.hall) == before
            await life.send(life.partition("t"), batch_of(b"more"))

        desk.live(look, end="cut")
        if done:
            return
    raise AssertionError("the checkpoint never came to its end")


def test_offsets_of_a_recreated_topic_survive_two_crashes() -> None:
    """Replaying the deletion must not write anything: it would come after the newer commit."""
    desk = Desk()

    async def play(life: Life) -> None:
        for offset in (3, 5):
            await create_topic(life.hall, "t", 1, {})
            await life.coordinator.commit_offsets(CommitRequest(group_id="g", offsets=(("t", 0, offset, -1, ""),)))
            if offset == 3:
                await delete_topic(life.hall, "t")

    desk.live(play)

    async def look(life: Life) -> None:
        offsets = await life.coordinator.fetch_offsets("g", [("t", 0)], False)
        assert [row.offset for row in offsets] == [5]
        await life.sync()

    for _ in range(3):
        desk.live(look)


def test_an_event_larger_than_an_entry_survives() -> None:
    desk = Desk()
    rows = tuple(("t", number, number, -1, "m" * 4000) for number in range(1500))

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1500, {})
        result = await life.coordinator.commit_offsets(CommitRequest(group_id="g", offsets=rows))
        assert result.code is None
        await life.coordinator.commit_offsets(CommitRequest(group_id="h", offsets=rows[:1]))

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        found = await life.coordinator.fetch_offsets("g", None, False)
        assert sorted((row.partition, row.offset) for row in found) == [(n, n) for n in range(1500)]
        assert len(await life.coordinator.fetch_offsets("h", None, False)) == 1

    desk.live(look)


def test_half_of_a_large_event_is_ignored() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        rows = tuple(("t", 0, number, -1, "m" * 4000) for number in range(1500))
        life.coordinator.run(
            "g", life.hall.groups_of("g").commit_offsets(CommitRequest(group_id="g", offsets=rows), None, 1)
        )
        life.hall.journal.write(1)
        (current,) = [inode for path, inode in desk.host.platter.inodes() if path.startswith("wal/") and inode.content]
        del current.content[5_000_000:]  # The last frames of it never came to the disk.

    desk.live(play)

    async def look(life: Life) -> None:
        assert await life.coordinator.fetch_offsets("g", None, False) == []
        await life.coordinator.commit_offsets(CommitRequest(group_id="g", offsets=(("t", 0, 1, -1, ""),)))

    desk.live(look)

    async def again(life: Life) -> None:
        assert [row.offset for row in await life.coordinator.fetch_offsets("g", None, False)] == [1]

    desk.live(again)


def test_damage_in_the_log_is_reported_and_loses_only_its_entries() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        for number in range(10):
            await life.send(life.partition("t"), batch_of(b"number %d" % number))

    desk.live(play)
    (inode,) = [inode for path, inode in desk.host.platter.inodes() if path.startswith("wal/") and inode.content]
    inode.content[inode.content.index(b"number 4")] ^= 3

    async def look(life: Life) -> None:
        assert len(life.report.damage) == 1
        log = life.partition("t").log
        assert log.next_offset == 10
        assert log.damaged == [(4, 5)]
        assert log.read(4, 1000, 10).code is Code.STORAGE_DAMAGED
        assert b"number 3" in b"".join(log.read(3, 1000, 10).buffers)
        assert b"number 5" in b"".join(log.read(5, 1000, 10).buffers)
        await checkpoint(life.hall)

    desk.live(look)

    async def again(life: Life) -> None:
        assert life.report.damage == []
        log = life.partition("t").log
        assert log.read(4, 1000, 10).code is Code.STORAGE_DAMAGED
        assert b"number 5" in b"".join(log.read(5, 1000, 10).buffers)

    desk.live(again)


def test_a_hall_starts_after_damage_that_lost_a_topic() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "first", 1, {})
        await create_topic(life.hall, "lost-topic", 1, {})
        await configure_topic(life.hall, "lost-topic", {"retention.ms": "5"})
        await life.send(life.partition("lost-topic"), batch_of(b"x"))
        await delete_topic(life.hall, "lost-topic")
        await life.send(life.partition("first"), batch_of(b"y"))

    desk.live(play)
    (inode,) = [inode for path, inode in desk.host.platter.inodes() if path.startswith("wal/") and inode.content]
    inode.content[inode.content.index(b"lost-topic")] ^= 3

    async def look(life: Life) -> None:
        assert life.report.damage
        assert life.report.skipped
        assert len(stored_batches(life.partition("first"))) == 1
        assert life.hall.topic("lost-topic") is None

    desk.live(look)


def test_a_missing_or_damaged_snapshot_stops_the_start_with_a_reason() -> None:
    desk = Desk(options=OPTIONS)

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"max.message.bytes": "9000000"})
        for _ in range(4):
            for _ in range(8):
                await life.send(life.partition("t"), batch_of(bytes(50_000)))
                for _ in range(60):
                    send(life.hall, life.partition("t"), batch := batch_of(bytes(50_000)), 0, len(batch))
            await checkpoint(life.hall)
        assert life.hall.wal.start > 0

    desk.live(play)
    (path,) = [path for path, _ in desk.host.platter.inodes() if path.startswith("shards/0001")]
    saved = desk.host.platter
    for spoil in ("remove", "flip"):
        world = desk.host.boot()
        if spoil == "remove":
            world.disk.remove(path)
        else:
            world.disk.open(path, create=True).write_at(0, [b"LHSN" + bytes(40)])
        with pytest.raises(LonghallError) as caught:
            desk.live(_nothing)
        assert caught.value.code is Code.STORAGE_DAMAGED
        desk.host.kill()
        assert desk.host.platter is saved


async def _nothing(life: Life) -> None:
    """Only start."""


def test_time_continues_after_the_clock_was_set_back() -> None:
    desk = Desk()
    times: list[int] = []

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        times.append(life.hall.time.now_ms())

    desk.live(play)
    desk.host.clock_offset_ms = -3_600_000

    async def look(life: Life) -> None:
        assert life.hall.time.now_ms() >= times[0]

    desk.live(look)


def test_the_counted_tail_memory_is_right() -> None:
    desk = Desk()

    def counted(hall: Hall) -> None:
        assert hall.tail_bytes == sum(partition.log.tail_bytes for partition in hall.partitions.values())

    async def play(life: Life) -> None:
        hall = life.hall
        await create_topic(hall, "t", 2, {})
        await create_topic(hall, "u", 1, {})
        for number in range(20):
            await life.send(life.partition("t", number % 2), batch_of(LARGE if number % 5 == 4 else b"s" * 40_000))
            await life.send(life.partition("u"), batch_of(b"u"))
            counted(hall)
        await trim_log(hall, life.partition("t", 0), 10)
        counted(hall)
        await trim_log(hall, life.partition("t", 1), 4)
        counted(hall)
        await delete_topic(hall, "u")
        counted(hall)
        await life.send(life.partition("t", 0), batch_of(b"again"))
        counted(hall)

    desk.live(play)

    async def look(life: Life) -> None:
        counted(life.hall)
        assert stored_batches(life.partition("t", 0))[0][0].base_offset == 10
        await checkpoint(life.hall)
        counted(life.hall)
        assert life.hall.tail_bytes == 0

    desk.live(look)
