"""The log of one partition: segments in files, and a tail of newer batches in memory.

A batch gets its segment and its position there when it is appended. Small batches wait in the tail, because the
write-ahead log holds them durably; `flush` writes many of them to their segment later. Large batches are written to
their segment at once, and the write-ahead log only refers to them. In both cases the same batches appended in the same
order get the same positions, so recovery may write them again without knowing what had been written before.

This module does not know what is committed: the caller gives the offset up to which readers may read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.files import OpenFiles
from longhall.log.frames import STARTS_SEGMENT
from longhall.log.index import Index, decode_index
from longhall.log.index_files import discard_index, load_index, save_index
from longhall.log.layout import index_path, partition_directory, segment_path
from longhall.log.segment import INDEX_INTERVAL_BYTES, Segment, SegmentNumbers, base_of, from_numbers
from longhall.log.segment_reads import Cold, Read, Supplied, cut_batches, read_bytes
from longhall.log.tail import Tail, add_tail, parts_of, read_tail
from longhall.records.batch import BatchHeader
from longhall.world.ports import Buffer, File

READ_BYTES_MAX: Final = 4 * 1024 * 1024  # One read of one partition returns no more, unless a single batch is larger.
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
CHAIN_FACTOR: Final = 1_000_003  # Odd, so that the order of batches matters.
CHAIN_MASK: Final = (1 << 32) - 1

OnWritten = Callable[[int], None]

PartitionNumbers = tuple[int, int, list[SegmentNumbers], list[tuple[int, int]], list[tuple[int, int]], int, bool]


@final
class PartitionLog:
    """The segments and the tail of one partition. The last segment is active, unless `close_active` has closed it."""

    def __init__(self, files: OpenFiles, partition: int, segment_bytes: int, segment_ms: int) -> None:
        self.partition = partition
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.start_offset = 0
        self.next_offset = 0
        self.segments: list[Segment] = []
        self.epochs = Epochs()
        self.damaged: list[tuple[int, int]] = []  # Ranges of acknowledged offsets that are lost.
        self.tail_bytes = 0
        self.unsynced: set[int] = set()  # Base offsets of segments written since `take_unsynced`.
        # Segments below are closed in the last snapshot, and no later entry refers to them: the cleaner rewrites them.
        self.safe_offset = 0
        self.cleaned_offset = 0  # The cleaner has processed everything below.
        self.is_closed = False  # True if the last segment takes no more batches.
        self.marked_offset = -1  # The next offset at the last digest mark in the hall's log; -1 before the first one.
        self.chain = 0  # A checksum over the checksums of the batches since the mark.
        self._version = 0  # Of the closed files: it rises with each that is replaced or repaired.
        self._files = files
        self._directory = partition_directory(partition)
        self._tail: Tail = []
        self._behind: TailWrite | None = None  # The part of the tail that is being written to the disk.
        self._unindexed: list[Segment] = []  # Closed segments whose index is not saved yet.

    # Appending

    def append(self, header: BatchHeader, stored: bytes, now_ms: int) -> int:
        """Append a batch to the tail; `header` has its offsets and epoch as stored. Returns the flags for its entry.
        After an OSError (an index cannot be read or replaced) nothing has changed.
        """
        segment, flags = self._target(header, now_ms)
        self._place(header, segment)
        self._tail.append((header.base_offset, stored, segment))
        self.tail_bytes += header.size_bytes
        return flags

    def takes_direct(self, header: BatchHeader, now_ms: int) -> bool:
        """True if `append_direct` need not wait until the name of the segment file is durable."""
        if not self._files.are_names_durable(self._directory):
            return False
        segment, flags = self._target(header, now_ms)
        return flags == 0 and segment.written_bytes > 0

    def append_direct(self, header: BatchHeader, prefix: bytes, rest: Buffer, now_ms: int) -> tuple[int, int, File]:
        """Write a batch to its segment at once. Returns flags, position and the file to sync. Changes nothing on
        OSError.
        """
        self.flush()
        segment, flags = self._target(header, now_ms)
        file = self._files.make(self._directory, segment_path(self.partition, segment.base_offset))
        self._files.sync_names(self._directory)
        position = segment.size_bytes
        file.write_at(position, (prefix, rest))
        self.unsynced.add(segment.base_offset)
        self._place(header, segment)
        segment.written_bytes = segment.size_bytes
        self._note_recent(segment, segment.written_bytes - segment.noted_bytes)
        return flags, position, file

    def replay_reference(self, header: BatchHeader, position: int, flags: int, now_ms: int) -> None:
        """Restore a batch that `append_direct` wrote before a crash; the caller has verified its checksum."""
        self.flush()
        segment = self._replay_target(header, flags, now_ms)
        if position > segment.size_bytes:  # Batches before it are lost with a damaged range of the write-ahead log.
            segment.size_bytes = position
            segment.written_bytes = position
        self.unsynced.add(segment.base_offset)
        self._place(header, segment)
        segment.written_bytes = segment.size_bytes

    def replay_batch(self, header: BatchHeader, stored: bytes, flags: int, now_ms: int) -> None:
        """Append a batch from the write-ahead log to the tail again."""
        segment = self._replay_target(header, flags, now_ms)
        self._place(header, segment)
        self._tail.append((header.base_offset, stored, segment))
        self.tail_bytes += header.size_bytes

    def flush(self) -> int:
        """Write the tail to its segments and return its bytes. On OSError the unwritten part stays in the tail."""
        if self._behind is not None:
            self._behind.on_written = None  # The caller of `flush` counts the bytes that left the tail itself.
            self._files.disk.finish_writes()
        written = 0
        while self._tail:
            segment = self._tail[0][2]
            parts = parts_of(self._tail, segment)
            file = self._files.make(self._directory, segment_path(self.partition, segment.base_offset))
            size = file.write_at(segment.written_bytes, parts)
            self._written(segment, len(parts), size)
            written += size
        if self._unindexed:
            self._save_closed_indexes()
        return written

    def flush_behind(self, on_written: OnWritten) -> bool:
        """Begin to write the tail to its segments in the writer process. The tail stays readable; `on_written` gets the
        number of bytes that left it. Returns True also if a write is in progress already, False if the writer has no
        room. On OSError (the file cannot be created) nothing has changed.
        """
        if self._behind is not None:
            return True
        segment = self._tail[0][2]
        parts = parts_of(self._tail, segment)
        file = self._files.make(self._directory, segment_path(self.partition, segment.base_offset))
        behind = TailWrite(self, segment, len(parts), sum([len(part) for part in parts]), on_written)
        if not self._files.disk.write_behind(file, segment.written_bytes, parts, behind.done):
            return False
        self._behind = behind
        return True

    def arrived(self, behind: TailWrite, error: OSError | None) -> bool:
        """Take the result of a write that `flush_behind` began. False if nothing was written."""
        if self._behind is not behind:
            return False  # The tail was written or dropped meanwhile.
        self._behind = None
        if error is not None:
            return False
        if behind.segment.noted_bytes == behind.segment.written_bytes:
            behind.segment.noted_bytes += behind.size_bytes  # These bytes never were in the page cache.
        self._written(behind.segment, behind.count, behind.size_bytes)
        if self._unindexed and not self._tail:
            try:
                self._save_closed_indexes()
            except OSError:
                pass  # The indexes stay unsaved; the next flush reports the reason.
        return True

    @property
    def is_behind(self) -> bool:
        """True if a part of the tail is being written."""
        return self._behind is not None

    def _written(self, segment: Segment, count: int, size_bytes: int) -> None:
        segment.written_bytes += size_bytes
        self.unsynced.add(segment.base_offset)
        del self._tail[:count]
        self.tail_bytes -= size_bytes

    def written_is_recent(self, bases: set[int], step_bytes: int) -> bool:
        """Note that these segments are synced: pages that are no longer recent may be dropped from the page cache.

        Dropping pages takes time, so one call drops about `step_bytes`. False if there are more.
        """
        for segment in reversed(self.segments):
            if segment.base_offset in bases:
                if segment.written_bytes - segment.noted_bytes > step_bytes:
                    self._note_recent(segment, step_bytes)
                    return False
                self._note_recent(segment, segment.written_bytes - segment.noted_bytes)
            elif segment.noted_bytes:
                break
        return True

    def _note_recent(self, segment: Segment, size_bytes: int) -> None:
        path = segment_path(self.partition, segment.base_offset)
        self._files.wrote(path, segment.noted_bytes, size_bytes)
        segment.noted_bytes += size_bytes

    def _target(self, header: BatchHeader, now_ms: int) -> tuple[Segment, int]:
        """The segment for the next batch, created if necessary, and the flags that say so."""
        if self.segments and not self.is_closed:
            active = self.segments[-1]
            full = active.size_bytes + header.size_bytes > self.segment_bytes and active.size_bytes > 0
            old = now_ms - active.created_ms > self.segment_ms and active.size_bytes > 0
            far = header.next_offset - active.base_offset > RELATIVE_OFFSET_MAX
            if not (full or old or far):
                self._ensure_index(active)
                return active, 0
        return Segment(header.base_offset, now_ms), STARTS_SEGMENT

    def _replay_target(self, header: BatchHeader, flags: int, now_ms: int) -> Segment:
        if header.base_offset > self.next_offset:
            self.damaged.append((self.next_offset, header.base_offset))
        if flags & STARTS_SEGMENT or not self.segments:
            return Segment(header.base_offset, now_ms)
        self._ensure_index(self.segments[-1])
        return self.segments[-1]

    def _place(self, header: BatchHeader, segment: Segment) -> None:
        if not self.segments or segment is not self.segments[-1]:
            # Operations that can fail come first: after an OSError nothing has changed.
            discard_index(self._files, self.partition, segment)
            if self.segments and not self.is_closed:
                self._ensure_index(self.segments[-1])
                self._unindexed.append(self.segments[-1])
            segment.use_index(Index(), 0)
            self.segments.append(segment)
            self.is_closed = False
        self.epochs.note(header.leader_epoch, header.base_offset)
        segment.note(header.base_offset, header.next_offset, header.size_bytes, header.max_timestamp_ms)
        self.next_offset = header.next_offset
        self.chain = (self.chain * CHAIN_FACTOR + header.crc) & CHAIN_MASK

    def close_active(self) -> None:
        """Close the active segment; the next batch starts another one. After an OSError nothing has changed."""
        if self.segments and not self.is_closed:
            self._ensure_index(self.segments[-1])
            self._unindexed.append(self.segments[-1])
            self.is_closed = True

    @property
    def closed_segments(self) -> list[Segment]:
        """The segments that take no more batches."""
        return self.segments[:] if self.is_closed else self.segments[:-1]

    @property
    def closed_end(self) -> int:
        """The end of the closed segments."""
        return self.next_offset if self.is_closed or not self.segments else self.segments[-1].base_offset

    def skip_to(self, offset: int) -> None:
        """Leave out the offsets up to this one, which were removed from the log that this one is a copy of."""
        self.next_offset = max(self.next_offset, offset)

    def mark(self) -> None:
        """Start a new checksum of batches: all replicas are at the same entry."""
        self.marked_offset = self.next_offset
        self.chain = 0

    # Reading

    @property
    def tail_offset(self) -> int:
        """The first offset that is only in memory."""
        return self._tail[0][0] if self._tail else self.next_offset

    def read(self, offset: int, bytes_max: int, limit_offset: int, supplied: Supplied | None = None) -> Read:
        """Whole batches from the one with `offset` on, below `limit_offset`; at least one, however large.

        If the bytes are not in memory, the result has `cold`: read that outside of the loop and call again with the
        bytes read.
        """
        if offset < self.start_offset or offset > self.next_offset:
            return Read(Code.OFFSET_OUT_OF_RANGE)
        for first, behind in self.damaged:
            if first <= offset < behind:
                return Read(Code.STORAGE_DAMAGED)
            if offset < first < limit_offset:
                limit_offset = first
        if offset >= limit_offset:
            return Read(None)
        bytes_max = min(bytes_max, READ_BYTES_MAX)
        if offset >= self.tail_offset:
            return read_tail(self._tail, offset, bytes_max, limit_offset)
        try:
            result = self._read_segments(offset, bytes_max, limit_offset, self._current(supplied))
        except OSError:  # The file is missing or the disk cannot read it: only this read fails.
            return Read(Code.STORAGE_DAMAGED)
        if result.cold is not None:
            result.cold.version = self._version
        elif result.size_bytes and result.expected == self.tail_offset:
            add_tail(result, self._tail, bytes_max, limit_offset)
        return result

    def _current(self, supplied: Supplied | None) -> Supplied | None:
        """The supplied bytes, unless a file was replaced since they were read."""
        return supplied if supplied is not None and supplied.version == self._version else None

    def behind_damage(self, offset: int) -> int:
        """The next offset to try after one that cannot be read."""
        for first, behind in self.damaged:
            if first <= offset < behind:
                return behind
        return offset + 1

    def _read_segments(self, offset: int, bytes_max: int, limit_offset: int, supplied: Supplied | None) -> Read:
        at = self._segment_at(offset)
        while at < len(self.segments):
            segment = self.segments[at]
            result = self._read_segment(segment, offset, bytes_max, limit_offset, supplied)
            if result.code is not None or result.cold is not None or result.size_bytes:
                return result
            at += 1  # The cleaner left nothing at or after `offset` in this segment.
            if at < len(self.segments) and self.segments[at].written_bytes == 0:
                return read_tail(self._tail, offset, bytes_max, limit_offset)
        return Read(None)

    def _read_segment(
        self, segment: Segment, offset: int, bytes_max: int, limit_offset: int, supplied: Supplied | None
    ) -> Read:
        index = segment.index
        if index is None:
            found = self._load_index_nowait(segment, supplied)
            if isinstance(found, Cold):
                return Read(None, found)
            index = found
        relative = max(offset - segment.base_offset, 0)
        position = index.position_for_offset(relative)
        expected = segment.base_offset + index.start_for_offset(relative)
        size = min(bytes_max + INDEX_INTERVAL_BYTES, segment.written_bytes - position)
        path = segment_path(self.partition, segment.base_offset)
        first = position
        while True:
            if size <= 0:
                return Read(None)
            chunk = read_bytes(self._files, path, position, size, supplied)
            if isinstance(chunk, Cold):
                # With the chunks before it: where the file system cannot say what is in memory, they are cold as well.
                return Read(None, Cold(path, first, position + size - first))
            more = size < segment.written_bytes - position
            result = cut_batches(chunk, offset, bytes_max, limit_offset, more, expected, segment.next_offset)
            if len(chunk) < size and not result.size_bytes:
                return Read(Code.STORAGE_DAMAGED)  # The file ends before its last batch does.
            if result.wanted_bytes == 0:
                return result
            # The batch begins in this chunk and is larger than it, or begins after it.
            position += result.wanted_at
            expected = result.expected
            size = min(max(result.wanted_bytes, bytes_max), segment.written_bytes - position)
            if result.wanted_bytes > size:
                return Read(Code.STORAGE_DAMAGED)

    def _segment_at(self, offset: int) -> int:
        """The segment with `offset`, or the next one if the offset lies in a gap."""
        return max(bisect_right(self.segments, offset, key=base_of) - 1, 0)

    def segment_for_timestamp(self, timestamp_ms: int) -> Segment | None:
        """The first segment that may have a record at or after this time; flush before the call."""
        for segment in self.segments:
            if segment.max_timestamp_ms >= timestamp_ms and segment.next_offset > self.start_offset:
                return segment
        return None

    def offset_to_scan_for(self, segment: Segment, timestamp_ms: int, supplied: Supplied | None) -> int | Cold:
        """An offset in `segment` from which a scan finds the first record at or after this time."""
        index = segment.index
        if index is None:
            found = self._load_index_nowait(segment, self._current(supplied))
            if isinstance(found, Cold):
                found.version = self._version
                return found
            index = found
        relative = index.offset_for_timestamp(timestamp_ms)
        return max(segment.base_offset + relative, self.start_offset)

    # Indexes

    def _ensure_index(self, segment: Segment) -> None:
        if segment.index is None:
            self._lengthen(segment)
            index, covered = load_index(self._files, self.partition, segment)
            segment.use_index(index, covered)

    def _load_index_nowait(self, segment: Segment, supplied: Supplied | None) -> Index | Cold:
        """The index of a segment that was not used since the start, or the read or rebuild that provides it."""
        path = index_path(self.partition, segment.base_offset)
        data: bytes | Cold
        if supplied is not None and supplied.rebuilt and supplied.path == path and supplied.data:
            data = supplied.data
        elif not self._files.disk.exists(path):
            self._lengthen(segment)
            return Cold(path, 0, 0, segment)
        else:
            data = read_bytes(self._files, path, 0, self._files.get(path).size(), supplied)
            self._files.forget(path)
        if isinstance(data, Cold):
            return data
        try:
            index, summary = decode_index(data)
        except LonghallError:
            self._lengthen(segment)
            return Cold(path, 0, 0, segment)
        active = segment is self.segments[-1] and not self.is_closed
        if summary.size_bytes > segment.size_bytes and active:
            index.cut(segment.size_bytes)  # Saved after the snapshot that the segment was restored from.
        elif summary.size_bytes != segment.size_bytes:
            file = self._files.get(segment_path(self.partition, segment.base_offset))
            if active or summary.size_bytes != file.size():
                return Cold(path, 0, 0, segment)
            # The cleaner replaced this file after the last checkpoint.
            segment.size_bytes = segment.written_bytes = summary.size_bytes
        segment.use_index(index, segment.size_bytes)
        return index

    def _save_closed_indexes(self) -> None:
        while self._unindexed:  # One by one: if the disk becomes full, the ones saved so far are done.
            segment = self._unindexed[0]
            save_index(self._files, self.partition, segment)
            self._cut_unacknowledged(segment)
            self.unsynced.add(segment.base_offset)
            segment.index = None  # Read again for the next read of old data.
            del self._unindexed[0]

    def _cut_unacknowledged(self, segment: Segment) -> None:
        """Truncate a closed file to its last batch: a crash may have left unacknowledged bytes after it."""
        file = self._files.get(segment_path(self.partition, segment.base_offset))
        if file.size() > segment.written_bytes:
            file.truncate(segment.written_bytes)

    def save_active_index(self, unsaved_bytes_max: int) -> None:
        """Write the index of the active segment, so that the next start scans at most `unsaved_bytes_max`."""
        segment = self.segments[-1] if self.segments and not self.is_closed else None
        if segment is not None and segment.index is not None:
            # Only the index can locate batches after a lost one.
            if self.damaged or segment.size_bytes - segment.index_saved_bytes > unsaved_bytes_max:
                save_index(self._files, self.partition, segment)
                segment.index_saved_bytes = segment.size_bytes

    # Space

    def advance_start(self, offset: int) -> list[Segment]:
        """Drop everything below `offset`. Returns the segments that are now empty: their files can be removed."""
        if offset <= self.start_offset:
            return []
        self.start_offset = offset
        self.next_offset = max(self.next_offset, offset)  # Some of the trimmed offsets may have been lost before.
        self.epochs.cut_before(offset)
        self.damaged = [(first, behind) for first, behind in self.damaged if behind > offset]
        dead: list[Segment] = []
        while self.segments and self.segments[0].next_offset <= offset:
            dead.append(self.segments.pop(0))
        self.is_closed = self.is_closed and bool(self.segments)
        if dead and self._tail:  # Batches that were only in memory are dropped as well.
            self._behind = None
            self._tail = [entry for entry in self._tail if entry[2] not in dead]
            self.tail_bytes = sum([len(entry[1]) for entry in self._tail])
        self._unindexed = [segment for segment in self._unindexed if segment in self.segments]
        self.unsynced.difference_update([segment.base_offset for segment in dead])
        return dead

    def drop_segments(self, base_offsets: list[int]) -> list[Segment]:
        """Drop these closed segments, at any place in the log; returns those that existed."""
        dead = [segment for segment in self.segments[:-1] if segment.base_offset in base_offsets]
        self.segments = [segment for segment in self.segments if segment not in dead]
        self._unindexed = [segment for segment in self._unindexed if segment not in dead]
        self.unsynced.difference_update([segment.base_offset for segment in dead])
        return dead

    def has_gaps(self) -> bool:
        """True if segments in the middle were dropped."""
        before = self.start_offset
        for segment in self.segments:
            if segment.base_offset > before:
                return True
            before = segment.next_offset
        return False

    def bytes_kept(self) -> int:
        """The size of all segments, tail included."""
        return sum([segment.size_bytes for segment in self.segments])

    def start_for_retention(self, now_ms: int, retention_ms: int, retention_bytes: int, limit_offset: int) -> int:
        """The new start of the log by retention: whole closed segments expire by age or by the size of the log."""
        start = self.start_offset
        size = self.bytes_kept()
        for segment in self.segments:
            too_old = 0 <= retention_ms < now_ms - segment.max_timestamp_ms and segment.max_timestamp_ms >= 0
            too_large = 0 <= retention_bytes <= size - segment.size_bytes and segment is not self.segments[-1]
            if not (too_old or too_large) or segment.next_offset > limit_offset:
                break
            start = max(start, segment.next_offset)
            size -= segment.size_bytes
        return start

    def closed_before(self, offset: int) -> int:
        """The end of the last closed segment with nothing at or after `offset`; the start if there is none."""
        end = self.start_offset
        for segment in self.segments[:-1]:
            if segment.next_offset > offset:
                break
            end = max(end, segment.next_offset)
        return end

    def replaced(self, base_offset: int, size_bytes: int, max_timestamp_ms: int) -> None:
        """Note that the cleaner replaced the file of this closed segment; the new index is beside it."""
        path = segment_path(self.partition, base_offset)
        self._files.forget(path)
        self._version += 1
        for segment in self.closed_segments:
            if segment.base_offset == base_offset:
                segment.size_bytes = segment.written_bytes = size_bytes
                segment.max_timestamp_ms = max_timestamp_ms
                segment.index = None
                if segment in self._unindexed:  # Closed just now: the index file is newer than the index in memory.
                    self._unindexed.remove(segment)

    def is_indexed(self, segment: Segment) -> bool:
        """True if the index file of this segment is saved and final."""
        return (self.is_closed or segment is not self.segments[-1]) and segment not in self._unindexed

    def measured(self, segment: Segment, size_bytes: int) -> None:
        """Set the size of a closed segment that the cleaner replaced after the last checkpoint before a crash. It is
        smaller then, or a little larger, because a delete horizon can lengthen records.
        """
        if size_bytes != segment.written_bytes and segment.next_offset <= self.safe_offset:
            segment.size_bytes = segment.written_bytes = size_bytes

    def _lengthen(self, segment: Segment) -> None:
        """Take the size of a closed segment from its file if that is longer: a checkpoint cuts what nobody wrote."""
        if segment.next_offset <= self.safe_offset:
            size_bytes = self._files.get(segment_path(self.partition, segment.base_offset)).size()
            if size_bytes > segment.written_bytes:
                self.measured(segment, size_bytes)

    def mended(self, base_offset: int) -> None:
        """Note that this segment was repaired in place. If it is closed, its index file was rebuilt."""
        self._version += 1
        for segment in self.closed_segments:
            if segment.base_offset == base_offset and segment not in self._unindexed:
                segment.index = None

    def measure_closed(self) -> None:
        """Read the sizes of closed segments that the cleaner replaced after the last checkpoint before a crash."""
        for segment in self.closed_segments:
            if segment.next_offset <= self.safe_offset:
                self.measured(segment, self._files.get(segment_path(self.partition, segment.base_offset)).size())

    # Snapshots

    def snapshot(self) -> PartitionNumbers:
        """Everything that `restore` needs once the tail is flushed and synced."""
        segments = [segment.numbers() for segment in self.segments]
        damaged = list(self.damaged)
        epochs = self.epochs.snapshot()
        return (self.start_offset, self.next_offset, segments, epochs, damaged, self.cleaned_offset, self.is_closed)

    def restore(self, numbers: Any) -> None:
        """Restore the result of `snapshot`, decoded from MessagePack with lists for tuples. Touches no file."""
        self.start_offset = int(numbers[0])
        self.next_offset = int(numbers[1])
        self.segments = [from_numbers(segment) for segment in numbers[2]]
        self.epochs.restore([(int(epoch), int(start)) for epoch, start in numbers[3]])
        self.damaged = [(int(first), int(behind)) for first, behind in numbers[4]]
        self.cleaned_offset = int(numbers[5])
        self.is_closed = len(numbers) > 6 and bool(numbers[6])  # Written since feature level 9.
        self.safe_offset = self.closed_end
        self.marked_offset = -1

    def take_unsynced(self) -> set[int]:
        """The segments to sync now; the caller puts them back if the sync fails."""
        taken = self.unsynced
        self.unsynced = set()
        return taken

    def close(self) -> None:
        """Close the files of this partition before its removal."""
        self._behind = None
        for segment in self.segments:
            self._files.forget(segment_path(self.partition, segment.base_offset))


@final
class TailWrite:
    """One write of a tail in progress."""

    def __init__(self, log: PartitionLog, segment: Segment, count: int, size_bytes: int, on_written: OnWritten) -> None:
        self.segment = segment
        self.count = count
        self.size_bytes = size_bytes
        self.on_written: OnWritten | None = on_written
        self._log = log

    def done(self, error: OSError | None) -> None:
        """Handle the end of the write."""
        if self._log.arrived(self, error) and self.on_written is not None:
            self.on_written(self.size_bytes)
