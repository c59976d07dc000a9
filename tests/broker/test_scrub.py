"""The scrub of a lone node: everything at rest is read, damage is found, told and repaired where that can be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.recovery import read_identity, write_identity
from longhall.broker.scrub import IdentityFile, Scrubber
from longhall.broker.scrub_report import IDENTITY, INDEX, LOG, SEGMENT, SNAPSHOT, ScrubProgress, read_progress
from longhall.broker.topic_administration import create_topic
from longhall.errors import Code
from longhall.log.layout import SCRUB
from longhall.log.snapshots import read_snapshot
from longhall.records.batch import Record, build_batch
from longhall.shards.feed import Feed
from simulation.platter import Inode
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, stored_batches

SMALL = msgspec.structs.replace(OPTIONS, segment_bytes=4096, scrub_bytes_a_second_max=1 << 30)
COUNT = 40


def inode_of(desk: Desk, fits: Callable[[str], bool], at: int = 0) -> Inode:
    found = [(path, inode) for path, inode in sorted(desk.host.platter.inodes()) if fits(path.lstrip("/"))]
    return found[at][1]


async def filled(life: Life) -> None:
    await create_topic(life.hall, "t", 1, {})
    for number in range(COUNT):
        await life.send(life.partition("t"), batch_of(b"%d" % number + b"v" * 300))
    await checkpoint(life.hall)


async def one_pass(life: Life, scrubber: Scrubber) -> None:
    passes = scrubber.begin_now()
    for _ in range(600):
        await asyncio.sleep(0.1)
        if scrubber.report.passes >= passes:
            return
    raise AssertionError("the pass does not end")


def scrubbed(desk: Desk, hurt: Callable[[], object]) -> Scrubber:
    """What a pass found after the damage was done to a hall with some closed segments."""

    async def play(life: Life) -> Scrubber:
        housekeeper = Housekeeper(life.hall)
        housekeeper.start()
        await filled(life)
        await life.send(life.partition("t"), batch_of(b"behind the checkpoint"))
        scrubber = Scrubber(life.hall, [_identity(life)])
        scrubber.start()
        await one_pass(life, scrubber)
        assert sum(scrubber.report.damage.values()) == 0
        assert scrubber.report.bytes_read >= COUNT * 300
        hurt()
        await one_pass(life, scrubber)
        await asyncio.sleep(2)
        await scrubber.stop()
        await housekeeper.stop()
        return scrubber

    found: Scrubber = desk.live(play)
    return found


def _identity(life: Life) -> IdentityFile:
    identity = read_identity(life.world.disk)
    assert identity is not None
    right = msgspec.json.encode(identity) + b"\n"
    return IdentityFile("longhall.json", lambda data: data == right, lambda: write_identity(life.world.disk, identity))


@pytest.mark.parametrize("at", [0, 1, -2, -1])
def test_damage_in_a_segment_is_reported_and_readers_get_an_error(at: int) -> None:
    """Closed ones, and the one that is being written."""
    desk = Desk(options=SMALL)
    report = scrubbed(
        desk, lambda: inode_of(desk, lambda path: path.endswith(".log") and path.startswith("part"), at).flip(100, 4)
    ).report
    assert (report.damage[SEGMENT], report.repairs[SEGMENT]) == (1, 0)
    assert [place.kind for place in report.damaged] == [SEGMENT]

    async def look(life: Life) -> None:
        log = life.partition("t").log
        codes = {log.read(offset, 1, COUNT).code for offset in range(COUNT)}
        assert codes == {None, Code.STORAGE_DAMAGED} or at == -1  # The newest is written again from the log.

    desk.live(look)


def test_a_damaged_index_is_rebuilt() -> None:
    desk = Desk(options=SMALL)
    index: list[bytes] = []

    def hurt() -> None:
        inode = inode_of(desk, lambda path: path.endswith(".index"))
        index.append(bytes(inode.content))
        inode.flip(70, 1)

    report = scrubbed(desk, hurt).report
    assert (report.damage[INDEX], report.repairs[INDEX]) == (1, 1)
    rebuilt = inode_of(desk, lambda path: path.endswith(".index")).content
    assert rebuilt[8:24] == index[0][8:24]  # It covers as much.


def test_a_checkpoint_replaces_a_damaged_snapshot() -> None:
    desk = Desk(options=SMALL)
    report = scrubbed(desk, lambda: inode_of(desk, lambda path: path.endswith(".snapshot"), 1).flip(30, 1)).report
    assert (report.damage[SNAPSHOT], report.repairs[SNAPSHOT]) == (1, 1)

    async def look(life: Life) -> None:
        assert life.partition("t").log.next_offset == COUNT + 1
        for shard in range(3):
            read_snapshot(life.world.disk, shard)

    desk.live(look)


def test_a_checkpoint_replaces_a_damaged_log_file() -> None:
    desk = Desk(options=SMALL)

    def hurt() -> None:
        inode = inode_of(desk, lambda path: path.startswith("wal/"))
        at = inode.content.index(b"behind the checkpoint")
        inode.flip(at, 1)
        inode.flip(at + 3, 1)

    report = scrubbed(desk, hurt).report
    assert (report.damage[LOG], report.repairs[LOG]) == (1, 1)

    async def look(life: Life) -> None:
        assert life.report.damage == []
        assert b"behind the checkpoint" in stored_batches(life.partition("t"))[-1][1]

    desk.live(look)


def test_the_identity_of_the_directory_is_rewritten_from_memory() -> None:
    desk = Desk(options=SMALL)
    report = scrubbed(desk, lambda: inode_of(desk, lambda path: path == "longhall.json").flip(20, 1)).report
    assert (report.damage[IDENTITY], report.repairs[IDENTITY]) == (1, 1)
    desk.live(_starts)


async def _starts(life: Life) -> None:
    assert life.partition("t").log.next_offset == COUNT + 1


def test_a_restart_resumes_the_pass() -> None:
    desk = Desk(options=msgspec.structs.replace(SMALL, scrub_interval_ms=600_000))

    async def play(life: Life) -> ScrubProgress:
        await filled(life)
        scrubber = Scrubber(life.hall)
        scrubber.start()
        await asyncio.sleep(270)
        assert 0.5 < scrubber.report.ratio < 1.0
        assert scrubber.report.progress.base_offset > 0
        return scrubber.report.progress

    progress: ScrubProgress = desk.live(play)

    async def look(life: Life) -> None:
        noted = read_progress(life.world.disk)
        assert noted.is_under_way
        assert noted.began_ms == progress.began_ms
        assert 0 < noted.base_offset <= progress.base_offset
        scrubber = Scrubber(life.hall)
        scrubber.start()
        await asyncio.sleep(1)
        assert scrubber.report.progress.base_offset >= noted.base_offset
        await asyncio.sleep(120)
        assert scrubber.report.passes == 1  # Within half of the interval, the restart notwithstanding.
        await scrubber.stop()

    desk.live(look)


def test_unreadable_progress_restarts_the_pass() -> None:
    desk = Desk(options=SMALL)

    async def play(life: Life) -> None:
        file = life.world.disk.open(SCRUB, create=True)
        file.write_at(0, (b"{nonsense",))
        assert read_progress(life.world.disk) == ScrubProgress()

    desk.live(play)


def test_without_an_interval_the_scrub_runs_only_on_request() -> None:
    desk = Desk(options=SMALL)

    async def play(life: Life) -> None:
        await filled(life)
        scrubber = Scrubber(life.hall)
        scrubber.start()
        await asyncio.sleep(3600)
        assert scrubber.report.bytes_read == 0
        await one_pass(life, scrubber)
        assert scrubber.report.bytes_read > 0
        await scrubber.stop()

    desk.live(play)


class RepairQueue(Feed):
    """Stands for the other replicas: the repairs that a hall requested. Their end is up to the test, which appends
    nothing meanwhile.
    """

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def damage_found(self, partition: int, offset: int, on_repaired: Callable[[], None]) -> bool:
        self.waiting.append(on_repaired)
        return True


def _with_a_repair_under_way(check: Callable[[Scrubber, RepairQueue, Callable[[], None]], Awaitable[None]]) -> None:
    """Damage a segment, begin a pass that requests its repair, and run the check 10 s later."""
    desk = Desk(options=SMALL)

    async def play(life: Life) -> None:
        await filled(life)
        scrubber, repairs = Scrubber(life.hall), RepairQueue()
        scrubber.start()
        await one_pass(life, scrubber)
        inode = inode_of(desk, lambda path: path.endswith(".log") and path.startswith("part"))
        inode.flip(100, 4)
        life.partition("t").shard.feed = repairs
        scrubber.begin_now()
        await asyncio.sleep(10)
        assert (len(repairs.waiting), scrubber.report.passes) == (1, 1)
        await check(scrubber, repairs, lambda: inode.flip(100, 4))
        await scrubber.stop()
        life.partition("t").shard.feed = None

    desk.live(play)


def test_a_pass_ends_after_the_repairs_that_it_requested() -> None:
    async def check(scrubber: Scrubber, repairs: RepairQueue, restore: Callable[[], None]) -> None:
        restore()
        repairs.waiting[0]()
        await asyncio.sleep(1)
        assert scrubber.report.passes == 2
        assert (scrubber.report.damage[SEGMENT], scrubber.report.repairs[SEGMENT]) == (1, 1)

    _with_a_repair_under_way(check)


def test_a_repair_without_an_end_holds_back_a_pass_for_a_bounded_time() -> None:
    async def check(scrubber: Scrubber, repairs: RepairQueue, restore: Callable[[], None]) -> None:
        await asyncio.sleep(30)
        assert scrubber.report.passes == 2
        assert [place.kind for place in scrubber.report.damaged] == [SEGMENT]

    _with_a_repair_under_way(check)


def test_a_request_while_a_pass_waits_for_repairs_begins_a_new_pass() -> None:
    async def check(scrubber: Scrubber, repairs: RepairQueue, restore: Callable[[], None]) -> None:
        read_bytes = scrubber.report.bytes_read
        scrubber.begin_now()
        await asyncio.sleep(10)
        assert scrubber.report.passes == 1
        assert scrubber.report.bytes_read >= read_bytes + COUNT * 300  # Everything was read again.
        assert len(repairs.waiting) == 2

    _with_a_repair_under_way(check)


def test_segments_that_compaction_made_larger_are_intact_after_a_crash() -> None:
    """The delete horizon of a tombstone lengthens its record, and the crash comes before the next checkpoint."""
    desk = Desk(options=SMALL)
    keys = [b"key-%d" % number for number in range(COUNT)]

    async def play(life: Life) -> list[bytes]:
        await create_topic(life.hall, "t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        partition = life.partition("t")
        for key in keys:
            now_ms = life.hall.time.now_ms()
            await life.send(partition, batch_of(b"v" * 300, key=key, timestamp_ms=now_ms))
            deleted = [Record(-1, now_ms, b"deleted-" + key, None)]
            await life.send(partition, build_batch(deleted))
        await checkpoint(life.hall)
        closed = partition.log.segments[:-1]
        before = [segment.written_bytes for segment in closed]
        await LogCleaner(life.hall).run()
        assert any(after > was for after, was in zip([one.written_bytes for one in closed], before, strict=True))
        return [batch for _, batch in stored_batches(partition)]

    stored: list[bytes] = desk.live(play, end="cut")

    async def look(life: Life) -> None:
        scrubber = Scrubber(life.hall)
        scrubber.start()
        await one_pass(life, scrubber)
        await scrubber.stop()
        assert scrubber.report.damage[SEGMENT] == 0, "only their indexes may be torn"
        assert [batch for _, batch in stored_batches(life.partition("t"))] == stored

    desk.live(look)
