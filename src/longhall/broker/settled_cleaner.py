"""The settled cleaner: removes settled messages from the logs of queues, even behind an old outstanding message.

    below the floor            the log starts there (LogTrimmed); a drained log starts at its end
    dead segments above it     are dropped from the middle of the log (SegmentsDropped)
    mostly dead segments       are rewritten by the janitor; offsets stay

A log is cleaned only if a queue owns it and every queue on it has `settled: free`: a topic that was declared as a queue
follows its retention. Settled messages are marked first and removed after a grace period, so that readers of the topic
have time; on a full disk there is no grace period. Data that the write-ahead log after the last checkpoint refers to is
not touched, and nothing is removed before its settle is committed.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from typing import Any, Final, final

from longhall.broker.archive_hold import archived_end
from longhall.broker.events import LogTrimmed, SegmentsDropped
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import committed
from longhall.log.layout import partition_directory, segment_path
from longhall.log.segment import Segment
from longhall.log.segment_rewrite import CLEANED, cleaned_index_path, install_segment
from longhall.log.settled_cleaning import Settled
from longhall.shards.shard import PARTITIONS

DRAINED_SHARE_MIN: Final = 16  # A drained log below this fraction of a segment keeps its last segment.
LIVE_SHARE_MAX: Final = 0.5  # A segment with more outstanding offsets is not rewritten.
UNSAFE_BYTES_MAX: Final = 32 * 1024 * 1024  # Of cleanable segments that wait for a checkpoint; then one is requested.
SEGMENTS_A_TURN_MAX: Final = 16  # Rewritten for one partition in one run.

_log = logging.getLogger("longhall.clean")


@final
class _Mark:
    """The settled parts of a log at one time."""

    def __init__(self, at_ms: int, start: int) -> None:
        self.at_ms = at_ms
        self.start = start  # The log may start here.
        self.dropped: list[int] = []  # Base offsets of segments without live messages.
        self.settled: dict[int, list[int]] = {}  # Segments with few live messages: the edges of the settled ranges.
        self.live: dict[int, int] = {}  # And the number of live messages in each.


@final
class SettledCleaner:
    """The marks of all partitions of one hall; a mark older than the grace period is removed."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._marks: dict[int, _Mark] = {}
        self._tidied: set[int] = set()
        self._left: dict[tuple[int, int], int] = {}  # Live messages of a segment when it was rewritten.

    async def clean(self, partition: Partition) -> None:
        """Remove what was marked for the grace period, and mark what is settled now."""
        number = partition.log.partition
        queues = queues_that_free(partition)
        if not queues:
            self._marks.pop(number, None)
            return
        hall = self._hall
        mark = self._marks.pop(number, None)
        grace_ms = 0 if hall.storage_full else hall.options.settled_grace_ms
        now_ms = hall.time.now_ms()
        if mark is None:
            mark = self._marked(partition, queues, now_ms)
        if mark is not None and now_ms - mark.at_ms >= grace_ms:
            await self._free(partition, mark)
            mark = self._marked(partition, queues, now_ms) if not partition.deleted else None
        if mark is not None:
            self._marks[number] = mark

    # Marking

    def _marked(self, partition: Partition, queues: list[RunningQueue], now_ms: int) -> _Mark | None:
        """A mark of what is settled now; None if nothing is."""
        log = partition.log
        cursors = [queue.queue.cursor(partition.lane) for queue in queues]
        scan = min(cursor.scan for cursor in cursors)
        floor = min(cursor.floor() for cursor in cursors)
        kept = min(floor, archived_end(self._hall, partition))
        mark = _Mark(now_ms, log.closed_before(kept))
        if kept >= log.next_offset and log.bytes_kept() * DRAINED_SHARE_MIN >= log.segment_bytes:
            mark.start = log.next_offset
        limit = min(scan, partition.last_stable_offset, archived_end(self._hall, partition))
        segments = [one for one in log.segments[:-1] if one.base_offset >= mark.start and one.next_offset <= limit]
        unsafe = sum(one.size_bytes for one in segments if one.next_offset > log.safe_offset)
        self._hall.checkpoint_wanted |= unsafe >= UNSAFE_BYTES_MAX
        segments = [one for one in segments if one.next_offset <= log.safe_offset]
        if segments:
            live = sorted({offset for cursor in cursors for offset in cursor.live_between(floor, scan)})
            aborted = [] if partition.producers is None else partition.producers.aborted_ranges()
            for segment in segments:
                self._mark_segment(mark, log.partition, segment, live, aborted)
        return mark if mark.start > log.start_offset or mark.dropped or mark.settled else None

    def _mark_segment(
        self, mark: _Mark, number: int, segment: Segment, live: list[int], aborted: list[tuple[int, int, int]]
    ) -> None:
        wanted = _between(live, segment.base_offset, segment.next_offset)
        count = len(wanted)
        has_aborted = any(start < segment.next_offset and end >= segment.base_offset for _, start, end in aborted)
        if count == 0 and not has_aborted:
            mark.dropped.append(segment.base_offset)
            return
        left = self._left.get((number, segment.base_offset), segment.next_offset - segment.base_offset)
        # A rewritten segment is rewritten again when half of its live messages are settled.
        if count <= left * LIVE_SHARE_MAX and len(mark.settled) < SEGMENTS_A_TURN_MAX and left:
            edges = [segment.base_offset]
            for offset in wanted:
                if edges[-1] == offset:
                    edges[-1] = offset + 1
                else:
                    edges += (offset, offset + 1)
            edges.append(segment.next_offset)
            mark.settled[segment.base_offset] = edges if edges[-2] < edges[-1] else edges[:-2]
            mark.live[segment.base_offset] = count

    # Freeing

    async def _free(self, partition: Partition, mark: _Mark) -> None:
        hall = self._hall
        log = partition.log
        if not hall.flush_tail(partition):
            return
        await committed(hall, partition.shard)  # The marked settles are committed now.
        _confirm(hall, partition, mark)
        if mark.start > log.start_offset:
            event = LogTrimmed(partition=log.partition, start_offset=mark.start)
            hall.append_event(partition.shard, PARTITIONS, event)
            hall.trim(partition, mark.start)
        if mark.dropped:
            gone = SegmentsDropped(partition=log.partition, base_offsets=mark.dropped)
            hall.append_event(partition.shard, PARTITIONS, gone)
            hall.drop_segments(partition, mark.dropped)
        for base_offset in mark.dropped:
            self._left.pop((log.partition, base_offset), None)
        await committed(hall, partition.shard)
        if mark.settled:
            await self._rewrite(partition, mark)
        _log.info(
            "settled messages were removed",
            extra={"topic": partition.topic, "partition": partition.number, "offset": log.start_offset},
        )

    async def _rewrite(self, partition: Partition, mark: _Mark) -> None:
        hall = self._hall
        log = partition.log
        await tidy(hall, partition, self._tidied)
        _confirm(hall, partition, mark)
        segments = [one for one in log.segments[:-1] if one.base_offset in mark.settled]
        if not segments:
            return
        arguments: dict[str, object] = {
            "directory": partition_directory(log.partition),
            "segments": [
                {"base_offset": one.base_offset, "size_bytes": one.size_bytes, "settled": mark.settled[one.base_offset]}
                for one in segments
            ],
        }
        result: Any = await hall.world.janitor.run("free_settled", arguments)
        for base_offset in result["damaged"]:
            partition.report_damage(base_offset)
        for one in segments:
            self._left[log.partition, one.base_offset] = mark.live[one.base_offset]
        for changed in result["segments"]:
            _confirm(hall, partition, mark)  # A queue may have been reconfigured and rewound meanwhile.
            await install(hall, partition, changed, changed["base_offset"] in mark.settled)
            await asyncio.sleep(0)


def _confirm(hall: Hall, partition: Partition, mark: _Mark) -> None:
    """Remove from the mark what is not settled or no longer there."""
    log = partition.log
    queues = [] if partition.deleted else queues_that_free(partition)
    if not queues:
        mark.start, mark.dropped, mark.settled = 0, [], {}
        return
    cursors = [queue.queue.cursor(partition.lane) for queue in queues]
    scan = min(cursor.scan for cursor in cursors)
    floor = min(cursor.floor() for cursor in cursors)
    live = sorted({offset for cursor in cursors for offset in cursor.live_between(floor, scan)})
    archived = archived_end(hall, partition)
    mark.start = mark.start if mark.start <= min(floor, archived) else 0
    limit = min(scan, archived)
    ends = {segment.base_offset: segment.next_offset for segment in log.segments[:-1] if segment.next_offset <= limit}
    mark.dropped = [base for base in mark.dropped if base in ends and not _between(live, base, ends[base])]
    for base, edges in list(mark.settled.items()):
        dead = Settled(edges)
        if base not in ends or any(dead.is_dead(offset) for offset in _between(live, base, ends[base])):
            del mark.settled[base]


def _between(offsets: list[int], first: int, behind: int) -> list[int]:
    return offsets[bisect_left(offsets, first) : bisect_left(offsets, behind)]


def queues_that_free(partition: Partition) -> list[RunningQueue]:
    """The queues on a log that may be cleaned: one of them owns it, and none keeps settled messages; else none."""
    queues: list[RunningQueue] = []
    owned = False
    if partition.options.compacts or not partition.options.deletes:
        return []
    for listener in partition.listeners:
        if isinstance(listener, RunningQueue):
            number = partition.lane
            if listener.is_away or listener.settings.settled != "free" or number not in listener.lanes:
                return []
            if number not in listener.queue.state.lanes:
                return []  # The queue has no cursor on this log yet.
            owned = owned or listener.entry.owns_topic
            queues.append(listener)
    return queues if owned else []


async def tidy(hall: Hall, partition: Partition, tidied: set[int]) -> None:
    """Once after a start: remove unfinished rewrites of a crash, and measure the segments."""
    number = partition.log.partition
    if number not in tidied:
        await hall.world.janitor.run("discard_rewritten", {"directory": partition_directory(number)})
        tidied.add(number)
        partition.log.measure_closed()


async def install(hall: Hall, partition: Partition, changed: dict[str, int], wanted: bool) -> None:
    """Replace a segment with the rewritten one, between two turns of the loop.

    The rewritten segment is discarded if it is not wanted, or the old one is gone.
    """
    log = partition.log
    base_offset = changed["base_offset"]
    path = segment_path(log.partition, base_offset)
    if wanted and not partition.deleted and any(one.base_offset == base_offset for one in log.closed_segments):
        install_segment(hall.world.disk, path)
        log.replaced(base_offset, changed["new_size_bytes"], changed["max_timestamp_ms"])
    else:
        await hall.world.janitor.run("remove", {"paths": [path + CLEANED, cleaned_index_path(path)]})
