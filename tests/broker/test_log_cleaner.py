"""Retention and compaction in a hall that may die at any step of them."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker import feature_gates
from longhall.broker.checkpoint import checkpoint
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.log.layout import segment_path
from longhall.records.batch import Record, build_batch, read_records
from longhall.shards.replica import Replica
from tests.broker.desk import Desk, Life, batch_of, stored_batches

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "3000"}


async def fill(life: Life, rounds: int = 30) -> None:
    partition = life.partition("t")
    for number in range(rounds):
        await life.send(partition, batch_of(b"%d" % number + b"." * 400, key=b"key-%d" % (number % 4)))


def table(life: Life) -> dict[bytes, int]:
    """What a reader makes of the topic: the last value of each key."""
    rows: dict[bytes, int] = {}
    for header, batch in stored_batches(life.partition("t")):
        for record in [] if header.record_count == 0 else read_records(batch, 0):
            assert record.key is not None
            assert record.value is not None
            rows[record.key] = int(record.value.partition(b".")[0])
    return rows


def expected(rounds: int = 30) -> dict[bytes, int]:
    return {b"key-%d" % (number % 4): number for number in range(rounds)}


def sizes(life: Life) -> list[tuple[int, int]]:
    """What the node believes of closed segments and what their files have."""
    log = life.partition("t").log
    disk = life.world.disk
    return [
        (segment.size_bytes, disk.open(segment_path(log.partition, segment.base_offset)).size())
        for segment in log.segments[:-1]
    ]


def test_compaction_keeps_the_last_message_of_every_key() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, COMPACT)
        await fill(life)
        before = life.partition("t").log.bytes_kept()
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.bytes_kept() == before, "what the log still refers to is not touched"
        await checkpoint(life.hall)
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.bytes_kept() < before // 2
        assert table(life) == expected()
        assert all(believed == real for believed, real in sizes(life))

    desk.live(play)


def test_compaction_asks_for_the_checkpoint_that_it_waits_for() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, COMPACT)
        await LogCleaner(life.hall).run()
        await fill(life)
        await LogCleaner(life.hall).run()
        assert life.hall.checkpoint_wanted
        await checkpoint(life.hall)
        await LogCleaner(life.hall).run()
        assert not life.hall.checkpoint_wanted
        await fill(life)
        await LogCleaner(life.hall).run()
        assert not life.hall.checkpoint_wanted, "at most one checkpoint in ten seconds"
        await asyncio.sleep(11)
        await LogCleaner(life.hall).run()
        assert life.hall.checkpoint_wanted

    desk.live(play)


def test_compaction_follows_the_checkpoint_that_it_waits_for_without_a_second_interval() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, COMPACT)
        await checkpoint(life.hall)
        keeper = Housekeeper(life.hall)
        keeper.start()
        await asyncio.sleep(10)
        await fill(life)
        before = life.partition("t").log.bytes_kept()
        interval_s = life.hall.options.cleaner_interval_ms / 1000
        await asyncio.sleep(interval_s)  # The cleaner has run once since, and asked for a checkpoint.
        assert life.partition("t").log.bytes_kept() < before // 2
        await keeper.stop()

    desk.live(play)


@pytest.mark.parametrize(
    ("configuration", "sleep_s", "is_compacted"),
    [
        ({"min.cleanable.dirty.ratio": "0.01"}, 1, True),
        ({"min.cleanable.dirty.ratio": "0.99"}, 1, False),
        ({"min.cleanable.dirty.ratio": "0.99", "max.compaction.lag.ms": "60000"}, 1, False),
        ({"min.cleanable.dirty.ratio": "0.99", "max.compaction.lag.ms": "60000"}, 61, True),
        ({"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "60000"}, 1, False),
        ({"min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "60000"}, 61, True),
    ],
)
def test_what_is_compacted_and_when(configuration: dict[str, str], sleep_s: int, is_compacted: bool) -> None:
    """A third of the closed segments is dirty."""
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, COMPACT)
        partition = life.partition("t")
        for number in range(40):  # Nothing of these can be removed.
            await life.send(partition, now(life, number, key=b"key-%d" % number))
        await checkpoint(life.hall)
        await LogCleaner(life.hall).run()
        await configure_topic(life.hall, "t", {**COMPACT, **configuration})
        for number in range(20):
            await life.send(partition, now(life, number, key=b"again"))
        await asyncio.sleep(sleep_s)
        await checkpoint(life.hall)
        before = partition.log.bytes_kept()
        await LogCleaner(life.hall).run()
        assert (partition.log.bytes_kept() < before) is is_compacted

    desk.live(play)


def test_the_longest_lag_closes_segments_too() -> None:
    """An active segment is not compacted, so with a lag it is not active for longer."""
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"cleanup.policy": "compact", "max.compaction.lag.ms": "60000"})
        partition = life.partition("t")
        for number in range(3):
            await life.send(partition, now(life, number, key=b"k"))
            await asyncio.sleep(61)
        assert len(partition.log.segments) == 3
        await configure_topic(life.hall, "t", {"max.compaction.lag.ms": "60000"})  # Not compacted.
        await life.send(partition, now(life, 3, key=b"k"))
        await asyncio.sleep(61)
        await life.send(partition, now(life, 4, key=b"k"))
        assert len(partition.log.segments) == 3

    desk.live(play)


def test_compaction_passes_over_a_log_that_retention_has_emptied() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"cleanup.policy": "compact,delete", "retention.ms": "1000"})
        await life.send(life.partition("t"), now(life, 1, key=b"k"))
        await asyncio.sleep(10)
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.start_offset == 1
        assert not life.partition("t").log.segments

    desk.live(play)


def test_jitter_closes_segments_earlier_and_at_different_times() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 8, {"segment.ms": "100000", "segment.jitter.ms": "90000"})
        ages = {life.partition("t", number).log.segment_ms for number in range(8)}
        assert len(ages) == 8
        assert all(10_000 <= age <= 100_000 for age in ages)
        await configure_topic(life.hall, "t", {"segment.ms": "100000"})
        assert {life.partition("t", number).log.segment_ms for number in range(8)} == {100_000}

    desk.live(play)


def test_without_a_policy_everything_is_kept() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        configuration = {"cleanup.policy": "", "segment.bytes": "3000", "retention.bytes": "6000", "retention.ms": "1"}
        await create_topic(life.hall, "t", 1, configuration)
        await fill(life)
        await checkpoint(life.hall)
        before = life.partition("t").log.bytes_kept()
        await LogCleaner(life.hall).run()
        assert (life.partition("t").log.start_offset, life.partition("t").log.bytes_kept()) == (0, before)

    desk.live(play)


def now(life: Life, number: int, key: bytes) -> bytes:
    return batch_of(b"%d" % number + b"." * 400, key=key, timestamp_ms=life.hall.time.now_ms())


QUIET = {"cleanup.policy": "compact", "max.compaction.lag.ms": "60000"}  # The cleaner closes the only segment.


@pytest.mark.parametrize("configuration", [COMPACT, QUIET], ids=["closed", "quiet"])
@pytest.mark.parametrize("end", ["kill", "cut"])
def test_a_crash_at_any_step_of_a_compaction_is_harmless(end: str, configuration: dict[str, str]) -> None:
    for changes in range(0, 400, 3):
        desk = Desk(changes)

        async def play(life: Life, changes: int = changes, desk: Desk = desk) -> bool:
            await create_topic(life.hall, "t", 1, configuration)
            await fill(life)
            if configuration is COMPACT:
                await checkpoint(life.hall)
            await fill(life, 2)
            if configuration is QUIET:
                await checkpoint(life.hall)
                await asyncio.sleep(61)
            desk.host.faults.cut_after_changes = changes
            await LogCleaner(life.hall).run()
            desk.host.faults.cut_after_changes = -1
            return True

        done = desk.live(play, end=end)
        desk.host.faults.cut_after_changes = -1

        async def look(life: Life) -> None:
            wanted = {**expected(), **expected(2)}
            assert table(life) == wanted
            await LogCleaner(life.hall).run()
            assert table(life) == wanted
            await checkpoint(life.hall)
            await fill(life, 9)
            await checkpoint(life.hall)
            await LogCleaner(life.hall).run()
            assert table(life) == {**wanted, **expected(9)}
            assert all(believed == real for believed, real in sizes(life))
            names = life.world.disk.list(segment_path(life.partition("t").log.partition, 0).rpartition("/")[0])
            assert not [name for name in names if name.endswith((".cleaned", ".new"))]
            assert life.partition("t").log.bytes_kept() < 8_000, "segments with old sizes are cleaned like others"

        desk.live(look, end=end)
        if done:
            return
    raise AssertionError("the cleaning never came to its end")


def test_retention_is_committed_and_a_checkpoint_removes_the_files() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"segment.bytes": "3000", "retention.bytes": "6000"})
        await fill(life)
        await LogCleaner(life.hall).run()
        log = life.partition("t").log
        assert log.start_offset > 10
        assert log.bytes_kept() < 10_000
        assert life.world.disk.exists(segment_path(log.partition, 0))

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        log = life.partition("t").log
        assert log.start_offset > 10
        await checkpoint(life.hall)
        assert not life.world.disk.exists(segment_path(log.partition, 0))
        assert stored_batches(life.partition("t"))[0][0].base_offset == log.start_offset

    desk.live(look)


def test_a_damaged_segment_does_not_keep_other_partitions_from_being_cleaned() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "bad", 1, COMPACT)
        await create_topic(life.hall, "t", 1, COMPACT)
        for number in range(30):
            await life.send(life.partition("bad"), batch_of(b"." * 400, key=b"%d" % (number % 3)))
        await fill(life)
        await checkpoint(life.hall)
        before = life.partition("t").log.bytes_kept()
        path = segment_path(life.partition("bad").log.partition, 0)
        life.hall.files.forget(path)
        life.world.disk.remove(path)
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.bytes_kept() < before // 2

    desk.live(play)


def test_a_segment_is_closed_at_its_age() -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"segment.ms": "60000"})
        partition = life.partition("t")
        await life.send(partition, now(life, 0, key=b"k"))
        await life.send(partition, now(life, 1, key=b"k"))
        assert len(partition.log.segments) == 1
        await asyncio.sleep(61)
        await life.send(partition, now(life, 2, key=b"k"))
        assert len(partition.log.segments) == 2

    Desk().live(play)


def test_tombstones_stay_for_the_time_that_the_topic_says() -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {**COMPACT, "delete.retention.ms": "60000"})
        partition = life.partition("t")
        gone = build_batch([Record(-1, life.hall.time.now_ms(), b"gone", None)])
        await life.send(partition, gone)
        await fill(life)
        for expected_keys, later_s in (({b"gone"}, 61), (set(), 0)):
            await checkpoint(life.hall)
            await LogCleaner(life.hall).run()
            records = [record for _, batch in stored_batches(partition) for record in read_records(batch, 0)]
            assert {record.key for record in records if record.value is None} == expected_keys
            await asyncio.sleep(later_s)
            await fill(life)  # Something to compact again.

    Desk().live(play)


def test_the_longest_lag_compacts_a_quiet_partition() -> None:
    """No further message comes that would close the active segment: the cleaner closes it by an event."""
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"cleanup.policy": "compact", "max.compaction.lag.ms": "60000"})
        await fill(life)
        log = life.partition("t").log
        before = log.bytes_kept()
        await asyncio.sleep(59)
        await LogCleaner(life.hall).run()
        assert not log.is_closed
        await asyncio.sleep(2)
        await LogCleaner(life.hall).run()
        assert log.is_closed
        assert life.hall.checkpoint_wanted
        await checkpoint(life.hall)
        await LogCleaner(life.hall).run()
        assert log.bytes_kept() < before // 2
        assert table(life) == expected()

    async def restarted(life: Life) -> None:
        log = life.partition("t").log
        assert log.is_closed
        assert table(life) == expected()
        await fill(life, 1)
        assert len(log.segments) == 2
        assert not log.is_closed
        assert table(life) == {**expected(), b"key-0": 0}

    async def restarted_again(life: Life) -> None:
        assert len(life.partition("t").log.segments) == 2
        assert table(life) == {**expected(), b"key-0": 0}

    desk.live(play)
    desk.live(restarted)
    desk.live(restarted_again)


def test_a_cluster_closes_quiet_segments_from_its_level_on(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        assert feature_gates.may_close_segments(hall)
        monkeypatch.setattr(hall, "replica", Replica(1))
        for level, expected_here in ((feature_gates.SEGMENT_CLOSED_LEVEL - 1, False), (feature_gates.NEWEST, True)):
            hall.feature_level = level
            assert feature_gates.may_close_segments(hall) is expected_here
        monkeypatch.undo()

    desk.live(play)


@pytest.mark.parametrize("end", ["kill", "cut"])
@pytest.mark.parametrize("runs", [1, 2])
def test_a_closed_quiet_segment_is_closed_after_a_crash(end: str, runs: int) -> None:
    """The event comes back from the write-ahead log, whether or not the compacted segment was installed before."""
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"cleanup.policy": "compact", "max.compaction.lag.ms": "60000"})
        await fill(life)
        await checkpoint(life.hall)
        await asyncio.sleep(61)
        for _ in range(runs):
            await LogCleaner(life.hall).run()

    async def restarted(life: Life) -> None:
        assert life.partition("t").log.is_closed
        assert table(life) == expected()
        await LogCleaner(life.hall).run()
        await checkpoint(life.hall)
        await LogCleaner(life.hall).run()
        assert table(life) == expected()
        await fill(life, 1)
        assert table(life) == {**expected(), b"key-0": 0}

    desk.live(play, end=end)
    desk.live(restarted)
