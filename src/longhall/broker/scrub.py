"""The background scrub: reads and verifies all stored data periodically, to find damage before it is needed.

    verified                       on damage
    the identity of the directory  written again from memory
    snapshots                      replaced by a checkpoint
    write-ahead log                a checkpoint makes the damaged file unnecessary
    segments                       repaired from another replica (`replica_repair`); a standalone node reports it
    indexes of closed segments     rebuilt from their segment

A pass goes through all of them in this order, partition by partition and segment by segment, one slice at a time, at
the pace of `broker.scrub_pace`. Where it is, and when the last pass was complete, survives restarts in `scrub.json`.
The janitor does the reading. The scrub does not know other nodes: `Partition.report_damage` requests repairs.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, final

from longhall.broker.checkpoint import request_checkpoint
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.scrub_pace import ScrubPace
from longhall.broker.scrub_report import (
    DAMAGED_MAX,
    IDENTITY,
    INDEX,
    LOG,
    SEGMENT,
    SNAPSHOT,
    ScrubReport,
    StoredItem,
    read_progress,
    write_progress,
)
from longhall.errors import LonghallError
from longhall.log.layout import segment_path
from longhall.log.segment import Segment

SLICE_BYTES: Final = 1024 * 1024
START_S: Final = 10.0  # After a start, because returning clients come first.
REST_S_MAX: Final = 1.0  # The longest sleep between two checks of the pace.
PARTITIONS_A_TURN: Final = 64
NOTED_EVERY_MS: Final = 30_000
CONFIRMED_TIMES: Final = 3  # Reads of a segment that the cleaner may be replacing.
CHECKPOINT_S_MAX: Final = 60.0
AGAIN_S: Final = 60.0  # The pause after a failure of the scrub itself.
REPAIRS_S_MAX: Final = 30.0  # How long a pass waits at its end for the repairs that it requested.

_log = logging.getLogger("longhall.scrub")


class IdentityFile(NamedTuple):
    """A small file with the identity of the directory: how to check its bytes, and how to rewrite it."""

    path: str
    is_right: Callable[[bytes], bool]
    rewrite: Callable[[], None]


@final
class Scrubber:
    """The scrub of one hall. With an interval of 0 it runs only on request."""

    def __init__(self, hall: Hall, identity_files: Sequence[IdentityFile] = ()) -> None:
        self.report = ScrubReport()
        self._hall = hall
        self._identity_files = identity_files
        self._pace = ScrubPace(hall.options.scrub_interval_ms, hall.options.scrub_bytes_a_second_max)
        self._wanted = asyncio.Event()
        self._repairs: set[tuple[int, int]] = set()  # Segments, by partition and base offset, that are being repaired.
        self._again: list[tuple[int, int]] = []  # Segments whose repair has ended.
        self._owed = 0.0  # Bytes read ahead of the pace.
        self._noted_ms = 0
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Continue from the stored progress."""
        self.report.progress = read_progress(self._hall.world.disk)
        self._task = self._hall.background.start("scrub", self._run)

    async def stop(self) -> None:
        """Stop; the progress is stored."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def begin_now(self) -> int:
        """Begin a pass now, from the start, at the bound of the pace; returns its number."""
        self._pace.hurried = True
        self.report.progress.rewind()
        self.report.restarts += 1
        self._wanted.set()
        return self.report.passes + 1

    # Passes

    async def _run(self) -> None:
        await self._rest(START_S)
        while True:
            try:
                await self._wait_until_due()
                await self._pass()
            except (OSError, LonghallError) as error:
                self.report.failures += 1
                _log.warning("the scrub stopped and will be retried", extra={"reason": str(error)})
                await asyncio.sleep(AGAIN_S)
            except Exception:
                self.report.failures += 1
                _log.exception("the scrub failed and will be retried")
                await asyncio.sleep(AGAIN_S)

    async def _wait_until_due(self) -> None:
        progress = self.report.progress
        while not self._is_due():
            await self._rest(REST_S_MAX)
            await self._look_again()
        if not progress.is_under_way:
            progress.begin(self._now_ms())

    async def _rest(self, seconds: float) -> None:
        """Sleep, until there is a request."""
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            pass
        self._wanted.clear()

    def _is_due(self) -> bool:
        if self._hall.options.scrub_interval_ms == 0:
            return self._pace.hurried
        progress = self.report.progress
        return progress.is_under_way or self._pace.is_due(progress.began_ms, self._now_ms())

    async def _pass(self) -> None:
        """Run a pass, or the rest of one. A request for a new pass ends it."""
        report, progress = self.report, self.report.progress
        restarts = report.restarts
        self._repairs.clear()
        report.bytes_total = self._bytes_at_rest()
        if self._pace.is_too_slow(report.bytes_total) and not self._pace.hurried:
            extra = {"bytes": report.bytes_total, "bytes_a_second_max": self._pace.bytes_a_second_max}
            _log.warning("the scrub cannot end in time: raise scrub_bytes_a_second_max", extra=extra)
        if progress.partition < 0:
            await self._check_identity_files()
            await self._check_snapshots()
            await self._check_log()
        done = self._hall.wal.end - self._hall.wal.start
        for at, (number, partition) in enumerate(sorted(self._hall.partitions.items())):
            if number < progress.partition:
                done += partition.log.bytes_kept()
                continue
            if at % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            report.bytes_done = done
            await self._check_partition(number, partition, restarts)
            if report.restarts != restarts:
                break
            done += partition.log.bytes_kept()
        else:
            await self._end_repairs(restarts)
        if report.restarts != restarts:
            progress.begin(self._now_ms())
        else:
            await self._finish()

    async def _end_repairs(self, restarts: int) -> None:
        """Wait until the requested repairs have ended: a replica that is damaged at the same place may have to be
        repaired first. A replica that does not answer holds back the end of a pass only for a bounded time.
        """
        deadline_s = self._loop.time() + REPAIRS_S_MAX
        await self._look_again()
        while self._repairs and self._loop.time() < deadline_s and self.report.restarts == restarts:
            await self._rest(REST_S_MAX)
            await self._look_again()

    async def _finish(self) -> None:
        report = self.report
        report.progress.complete(self._now_ms())
        report.passes += 1
        report.bytes_done = report.bytes_total
        self._pace.hurried = False
        await self._note()
        extra = {"bytes": report.bytes_total, "damaged": len(report.damaged)}
        _log.info("all stored data was verified", extra=extra)

    async def _check_partition(self, number: int, partition: Partition, restarts: int) -> None:
        progress = self.report.progress
        first = progress.base_offset if number == progress.partition else -1
        while not partition.deleted and self.report.restarts == restarts:
            segment = next((one for one in partition.log.segments if one.base_offset >= first), None)
            if segment is None:
                return
            progress.reach(number, segment.base_offset)
            await self._check_segment(number, partition, segment)
            first = segment.base_offset + 1
            await self._note_now_and_then()

    # Segments

    async def _check_segment(self, number: int, partition: Partition, segment: Segment) -> None:
        if partition.log.is_indexed(segment):
            await self._check_index(number, partition, segment)
        position, expected = 0, segment.base_offset
        size_bytes = segment.written_bytes
        while position < segment.written_bytes and _is_kept(partition, segment):
            if segment.written_bytes < size_bytes:
                position, expected = 0, segment.base_offset  # The cleaner has replaced it: start over.
            size_bytes = segment.written_bytes
            rest: dict[str, object] = {"position": position, "expected": expected, "bytes_max": SLICE_BYTES}
            try:
                found: Any = await self._janitor("verify_slice", {**_written(number, partition, segment), **rest})
            except OSError as error:
                _log.error("a segment cannot be read", extra={**_place(number, segment), "reason": str(error)})
                found = {"position": size_bytes, "expected": expected, "damaged": expected}
            read_bytes = max(found["position"] - position, 1)
            position, expected = found["position"], found["expected"]
            await self._spend(read_bytes)
            if found["damaged"] >= 0:
                await self._suspect(number, partition, segment)
                return
        self._forgive(StoredItem(SEGMENT, number, segment.base_offset))

    async def _suspect(self, number: int, partition: Partition, segment: Segment) -> None:
        """Verify the whole segment, and repair it if it is damaged and not being replaced."""
        stretches = await self._damage_in(number, partition, segment, "find_damage")
        if not stretches:
            return
        place = StoredItem(SEGMENT, number, segment.base_offset)
        extra: dict[str, object] = {"partition": number, "topic": partition.topic, "offset": stretches[0][2]}
        self._found(place, {"path": place.path, **extra})
        stretches = await self._damage_in(number, partition, segment, "restore_from_memory")
        if not stretches:
            self._repaired(place)
            return
        key = (number, segment.base_offset)
        if len(self._repairs) < DAMAGED_MAX:
            self._repairs.add(key)
        if not partition.report_damage(stretches[0][2], partial(self._repair_ended, key)):
            self._repairs.discard(key)
            _log.error("no other replica has these messages; readers get an error", extra=extra)

    async def _damage_in(self, number: int, partition: Partition, segment: Segment, chore: str) -> list[list[int]]:
        """The damaged ranges of a segment after this janitor job; none if the segment is gone."""
        for _ in range(CONFIRMED_TIMES):
            written = _written(number, partition, segment)
            many = chore == "find_damage"
            try:
                found: Any = await self._janitor(chore, {"segments": [written]} if many else written)
            except OSError:
                return [[0, segment.written_bytes, segment.base_offset, segment.next_offset]]
            stretches: list[list[int]] = found["damaged"][0] if many else found["damaged"]
            if not _is_kept(partition, segment) or not stretches:
                return []
            if segment.written_bytes == written["size_bytes"]:
                return stretches
        return []

    def _repair_ended(self, key: tuple[int, int]) -> None:
        """Verify a segment again: its repair has ended."""
        self._repairs.discard(key)
        self._again.append(key)
        self._wanted.set()

    async def _look_again(self) -> None:
        """Verify the segments whose repair has ended."""
        while self._again:
            number, base_offset = self._again.pop(0)
            partition = self._hall.partitions.get(number)
            segments = partition.log.segments if partition is not None else []
            segment = next((one for one in segments if one.base_offset == base_offset), None)
            place = StoredItem(SEGMENT, number, base_offset)
            if partition is None or segment is None:
                self.report.damaged.pop(place, None)
            elif not await self._damage_in(number, partition, segment, "find_damage"):
                self._repaired(place)

    async def _check_index(self, number: int, partition: Partition, segment: Segment) -> None:
        path = segment_path(number, segment.base_offset)
        known_bytes = segment.written_bytes
        try:
            found: Any = await self._janitor("verify_index", {"path": path})
        except OSError:  # Unreadable: it is rebuilt.
            found = {"covers": -1, "size_bytes": 0, "segment_bytes": segment.written_bytes}
        await self._spend(max(found["size_bytes"], 1))
        covers, segment_bytes = found["covers"], found["segment_bytes"]
        replaced = covers == segment_bytes or await self._is_replaced(number, partition, segment, segment_bytes)
        if not _is_kept(partition, segment) or segment.written_bytes != known_bytes:
            return  # The cleaner has removed or replaced it meanwhile.
        if replaced:
            partition.log.measured(segment, segment_bytes)
        if covers == segment.written_bytes or segment_bytes < segment.written_bytes:
            return  # The index is right, or the segment is damaged too.
        place = StoredItem(INDEX, number, segment.base_offset)
        if found["size_bytes"] >= 0:
            self._found(place, {"path": place.path})
        try:
            await self._janitor("rebuild_index", {"path": path, "size_bytes": segment.written_bytes})
        except OSError as error:
            _log.warning("an index could not be rebuilt", extra={"path": place.path, "reason": str(error)})
            return
        partition.log.mended(segment.base_offset)
        self._repaired(place)

    async def _is_replaced(self, number: int, partition: Partition, segment: Segment, size_bytes: int) -> bool:
        """True if a file of another size than is known has the whole segment: a crash came between the compaction of
        the segment and the next checkpoint, and has torn the index too.
        """
        written = _written(number, partition, segment)
        if size_bytes in (-1, segment.written_bytes) or written["next_offset"] != segment.next_offset:
            return False
        rest = {"size_bytes": size_bytes, "position": 0, "expected": segment.base_offset, "bytes_max": size_bytes}
        try:
            found: Any = await self._janitor("verify_slice", {**written, **rest})
        except OSError:
            return False
        await self._spend(max(found["position"], 1))
        return bool(found["damaged"] < 0 and found["expected"] == segment.next_offset)

    # Identity, snapshots and log

    async def _check_identity_files(self) -> None:
        disk = self._hall.world.disk
        for identity_file in self._identity_files:
            data = b""
            if disk.exists(identity_file.path):
                file = disk.open(identity_file.path)
                data = file.read_at(0, file.size())
                file.close()
            if not identity_file.is_right(data):
                place = StoredItem(IDENTITY, name=identity_file.path)
                self._found(place, {"path": identity_file.path})
                identity_file.rewrite()
                self._repaired(place)

    async def _check_snapshots(self) -> None:
        for shard in range(len(self._hall.shards)):
            place = StoredItem(SNAPSHOT, shard)
            if await self._is_damaged(shard):
                self._found(place, {"shard": shard})
                if await request_checkpoint(self._hall, CHECKPOINT_S_MAX) and not await self._is_damaged(shard):
                    self._repaired(place)
            else:
                self._forgive(place)

    async def _is_damaged(self, shard: int) -> bool:
        found: Any = await self._janitor("verify_snapshots", {"shards": [shard]})
        await self._spend(found["size_bytes"])
        return bool(found["damaged"])

    async def _check_log(self) -> None:
        """Verify every file of the write-ahead log up to its durable end. In the current file, data before the last
        checkpoint is not needed.
        """
        wal = self._hall.wal
        files = wal.kept_files()
        for path, start, until in files:
            position = start
            while position < until and wal.locate(start) is not None:  # Else a checkpoint has released it.
                part: dict[str, object] = {"path": path, "start": start, "position": position, "until": until}
                try:
                    found: Any = await self._janitor("verify_log", {**part, "bytes_max": SLICE_BYTES})
                except OSError:
                    found = {"position": until, "damaged": position}
                await self._spend(found["position"] - position)
                position, damaged = found["position"], found["damaged"]
                needless = path == files[-1][0] and damaged < self._hall.checkpoint_at
                if damaged >= 0 and not needless and wal.locate(start) is not None:
                    await self._leave_log(path, start, damaged, until)

    async def _leave_log(self, path: str, start: int, position: int, until: int) -> None:
        """Replace damaged entries of the log, which are still in memory, by a checkpoint."""
        hall = self._hall
        place = StoredItem(LOG, start)
        self._found(place, {"path": path, "position": position})
        if await request_checkpoint(hall, CHECKPOINT_S_MAX) and hall.checkpoint_at >= until:
            hall.wal.release_before(until)
            hall.positions.release_before(hall.wal.start)
            self._repaired(place)

    # Findings

    def _found(self, place: StoredItem, extra: dict[str, object]) -> None:
        if self.report.found(place):
            # An index is a cache, and a crash can tear it.
            level = logging.WARNING if place.kind == INDEX else logging.ERROR
            _log.log(level, "stored data is damaged", extra={"kind": place.kind, **extra})

    def _repaired(self, place: StoredItem) -> None:
        if self.report.repaired(place):
            _log.warning("damaged data was repaired", extra={"kind": place.kind, "path": place.path})

    def _forgive(self, place: StoredItem) -> None:
        """Note that a damaged item is intact again."""
        if place in self.report.damaged:
            self._repaired(place)

    # ScrubPace

    async def _spend(self, size_bytes: int) -> None:
        """Count read bytes and sleep until the pace allows more; handles ended repairs meanwhile."""
        report = self.report
        report.bytes_read += size_bytes
        report.bytes_done += size_bytes
        self._owed += size_bytes
        while self._owed >= 1:
            left = max(report.bytes_total - report.bytes_done, 0) + math.ceil(self._owed)
            rate = self._pace.bytes_a_second(left, report.progress.began_ms, self._now_ms())
            rest_s = min(self._owed / rate, REST_S_MAX)
            await asyncio.sleep(rest_s)
            self._owed -= rate * rest_s
            if self._again:
                await self._look_again()

    def _bytes_at_rest(self) -> int:
        wal = self._hall.wal
        return wal.end - wal.start + sum(one.log.bytes_kept() for one in list(self._hall.partitions.values()))

    def _janitor(self, job: str, arguments: dict[str, object]) -> Awaitable[dict[str, object]]:
        return self._hall.world.janitor.run(job, arguments)

    def _now_ms(self) -> int:
        return self._hall.world.clock.wall_ms()

    async def _note_now_and_then(self) -> None:
        if not 0 <= self._now_ms() - self._noted_ms < NOTED_EVERY_MS:
            self.report.bytes_total = self._bytes_at_rest()
            await self._note()

    async def _note(self) -> None:
        self._noted_ms = self._now_ms()
        try:
            await write_progress(self._hall.world, self.report.progress)
        except OSError as error:
            _log.info("the progress of the scrub could not be stored", extra={"reason": str(error)})


def _is_kept(partition: Partition, segment: Segment) -> bool:
    return not partition.deleted and segment in partition.log.segments


def _written(number: int, partition: Partition, segment: Segment) -> dict[str, object]:
    """The written part of a segment."""
    return {
        "path": segment_path(number, segment.base_offset),
        "size_bytes": segment.written_bytes,
        "next_offset": min(segment.next_offset, partition.log.tail_offset),
    }


def _place(number: int, segment: Segment) -> dict[str, object]:
    return {"partition": number, "base_offset": segment.base_offset}
