"""The log of one partition: segments in files, and behind them a tail that is still in memory.

Every batch gets its segment and its place there when it is appended. Small batches wait in the tail, because the
write-ahead log holds them durably; `flush` writes them to their place later, many at a time. Large ones are written to
their place at once, and the write-ahead log only refers to them. Either way the same batches appended in the same order
lie at the same places, so recovery may write them again without asking what had been written before.

This module does not know what is committed: readers are bounded by an offset that the caller gives.
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
from longhall.log.indexing import discard_index, load_index, save_index
from longhall.log.layout import index_path, partition_directory, segment_path
from longhall.log.reading import Cold, Read, Supplied, cut_batches, read_bytes
from longhall.log.segment import INDEX_INTERVAL_BYTES, Segment, SegmentNumbers, from_numbers
from longhall.records.batch import BatchHeader
from longhall.world.ports import Buffer, File

READ_BYTES_MAX: Final = 4 * 1024 * 1024  # One read of one partition gives no more, unless a single batch is larger.
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
CHAIN_FACTOR: Final = 1_000_003  # Odd, so that the order of batches counts.
CHAIN_MASK: Final = (1 << 32) - 1

Told = Callable[[int], None]

PartitionNumbers = tuple[int, int, list[SegmentNumbers], list[tuple[int, int]], list[tuple[int, int]], int]


@final
class PartitionLog:
    """See the module. `start_offset <= next_offset`; the last segment is the active one."""

    def __init__(self, files: OpenFiles, partition: int, segment_bytes: int, segment_ms: int) -> None:
        self.partition = partition
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.start_offset = 0
        self.next_offset = 0
        self.segments: list[Segment] = []
        self.epochs = Epochs()
        self.damaged: list[tuple[int, int]] = []  # Ranges of offsets that were promised and are lost.
        self.tail_bytes = 0
        self.unsynced: set[int] = set()  # Base offsets of segments written since `take_unsynced`.
        self.safe_offset = 0  # Below it no entry of the write-ahead log refers to a segment: the cleaner may go there.
        self.cleaned_offset = 0  # Below it the cleaner has been.
        self.marked_offset = -1  # The next offset at the last mark in the log of the hall; -1 before the first one.
        self.chain = 0  # A checksum over those of the batches since then.
        self._files = files
        self._directory = partition_directory(partition)
        self._tail: list[tuple[int, bytes, Segment]] = []  # Base offset, batch, where it belongs.
        self._behind: Behind | None = None  # The part of the tail that is on its way to the disk.
        self._unindexed: list[Segment] = []  # Closed segments whose index is not saved yet.

    # Appending

    def append(self, header: BatchHeader, stored: bytes, now_ms: int) -> int:
        """Take a batch into the tail; `header` has its offsets and epoch as stored. Returns the flags for its entry. On
        OSError (an index that cannot be read or replaced) nothing changed.
        """
        segment, flags = self._target(header, now_ms)
        self._place(header, segment)
        self._tail.append((header.base_offset, stored, segment))
        self.tail_bytes += header.size_bytes
        return flags

    def takes_direct(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether `append_direct` would not have to wait until the name of its file is durable."""
        if not self._files.are_names_durable(self._directory):
            return False
        segment, flags = self._target(header, now_ms)
        return flags == 0 and segment.written_bytes > 0

    def append_direct(self, header: BatchHeader, prefix: bytes, rest: Buffer, now_ms: int) -> tuple[int, int, File]:
        """Write a batch to its place at once. Returns flags, place and the file to sync; on OSError nothing changed."""
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
        """Take over a batch that `append_direct` wrote before a crash; the caller has looked at its checksum."""
        self.flush()
        segment = self._replay_target(header, flags, now_ms)
        if position > segment.size_bytes:  # Something between is lost with a damaged stretch of the write-ahead log.
            segment.size_bytes = position
            segment.written_bytes = position
        self.unsynced.add(segment.base_offset)
        self._place(header, segment)
        segment.written_bytes = segment.size_bytes

    def replay_batch(self, header: BatchHeader, stored: bytes, flags: int, now_ms: int) -> None:
        """Take a batch from the write-ahead log into the tail again."""
        segment = self._replay_target(header, flags, now_ms)
        self._place(header, segment)
        self._tail.append((header.base_offset, stored, segment))
        self.tail_bytes += header.size_bytes

    def flush(self) -> int:
        """Write the tail to its places and return its bytes. On OSError what could not be written stays in the tail."""
        if self._behind is not None:
            self._behind.told = None  # Whoever flushes counts by himself what has left the tail.
            self._files.disk.finish_writes()
        written = 0
        while self._tail:
            segment = self._tail[0][2]
            parts = self._parts_of(segment)
            file = self._files.make(self._directory, segment_path(self.partition, segment.base_offset))
            size = file.write_at(segment.written_bytes, parts)
            self._written(segment, len(parts), size)
            written += size
        if self._unindexed:
            self._save_closed_indexes()
        return written

    def flush_behind(self, told: Told) -> bool:
        """Begin to write the tail to its places beside the loop; it stays readable, and `told` hears of the bytes that
        have left it. True also when some are under way already; False if there is no room for it now. On OSError (the
        file cannot be made) nothing changed.
        """
        if self._behind is not None:
            return True
        segment = self._tail[0][2]
        parts = self._parts_of(segment)
        file = self._files.make(self._directory, segment_path(self.partition, segment.base_offset))
        behind = Behind(self, segment, len(parts), sum([len(part) for part in parts]), told)
        if not self._files.disk.write_behind(file, segment.written_bytes, parts, behind.done):
            return False
        self._behind = behind
        return True

    def arrived(self, behind: Behind, error: OSError | None) -> bool:
        """What `flush_behind` began has ended. False if it did not come to anything."""
        if self._behind is not behind:
            return False  # The tail was written or given up meanwhile.
        self._behind = None
        if error is not None:
            return False
        if behind.segment.noted_bytes == behind.segment.written_bytes:
            behind.segment.noted_bytes += behind.size_bytes  # It never was in memory.
        self._written(behind.segment, behind.count, behind.size_bytes)
        if self._unindexed and not self._tail:
            try:
                self._save_closed_indexes()
            except OSError:
                pass  # They stay as they are, and the next flush says why.
        return True

    @property
    def is_behind(self) -> bool:
        """Whether a part of the tail is on its way."""
        return self._behind is not None

    def _parts_of(self, segment: Segment) -> list[bytes]:
        """The first batches of the tail, those of one segment."""
        parts: list[bytes] = []
        for _, stored, owner in self._tail:
            if owner is not segment:
                break
            parts.append(stored)
        return parts

    def _written(self, segment: Segment, count: int, size_bytes: int) -> None:
        segment.written_bytes += size_bytes
        self.unsynced.add(segment.base_offset)
        del self._tail[:count]
        self.tail_bytes -= size_bytes

    def written_is_recent(self, bases: set[int], step_bytes: int) -> bool:
        """What was written to these segments is on the disk: memory may forget it when it is not recent any more.

        Forgetting takes its time, so one call does about as much as a step. False if there is more.
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
        """The segment that the next batch belongs to, made if need be, and the flags that say so."""
        if self.segments:
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
            # What may fail comes first: on OSError nothing has changed.
            discard_index(self._files, self.partition, segment)
            if self.segments:
                self._ensure_index(self.segments[-1])
                self._unindexed.append(self.segments[-1])
            segment.use_index(Index(), 0)
            self.segments.append(segment)
        self.epochs.note(header.leader_epoch, header.base_offset)
        segment.note(header.base_offset, header.next_offset, header.size_bytes, header.max_timestamp_ms)
        self.next_offset = header.next_offset
        self.chain = (self.chain * CHAIN_FACTOR + header.crc) & CHAIN_MASK

    def mark(self) -> None:
        """All replicas are at the same entry: checksums of batches begin anew."""
        self.marked_offset = self.next_offset
        self.chain = 0

    # Reading

    @property
    def tail_offset(self) -> int:
        """The first offset that is only in memory."""
        return self._tail[0][0] if self._tail else self.next_offset

    def read(self, offset: int, bytes_max: int, limit_offset: int, supplied: Supplied | None = None) -> Read:
        """Whole batches from the one that holds `offset` on, below `limit_offset`; at least one, however large.

        When the bytes are not in memory the answer is `cold`: read that without holding up the loop and ask again with
        what was read.
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
            return self._read_tail(offset, bytes_max, limit_offset)
        try:
            return self._read_segments(offset, bytes_max, limit_offset, supplied)
        except OSError:  # The file is gone, or the disk cannot read it: no reason to fail anything but this read.
            return Read(Code.STORAGE_DAMAGED)

    def behind_damage(self, offset: int) -> int:
        """The next offset worth trying behind one that cannot be read."""
        for first, behind in self.damaged:
            if first <= offset < behind:
                return behind
        return offset + 1

    def _read_tail(self, offset: int, bytes_max: int, limit_offset: int) -> Read:
        result = Read(None)
        at = max(bisect_right(self._tail, offset, key=_tail_base) - 1, 0)
        buffers: list[Buffer] = []
        size = 0
        for index in range(at, len(self._tail)):
            base_offset, stored, _ = self._tail[index]
            if base_offset >= limit_offset or (buffers and size + len(stored) > bytes_max):
                break
            buffers.append(stored)
            size += len(stored)
        result.take(buffers, size)
        return result

    def _read_segments(self, offset: int, bytes_max: int, limit_offset: int, supplied: Supplied | None) -> Read:
        at = self._segment_at(offset)
        while at < len(self.segments):
            segment = self.segments[at]
            result = self._read_segment(segment, offset, bytes_max, limit_offset, supplied)
            if result.code is not None or result.cold is not None or result.size_bytes:
                return result
            at += 1  # The cleaner left nothing at or behind `offset` in this one.
            if at < len(self.segments) and self.segments[at].written_bytes == 0:
                return self._read_tail(offset, bytes_max, limit_offset) if self._tail else Read(None)
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
        while True:
            if size <= 0:
                return Read(None)
            chunk = read_bytes(self._files, path, position, size, supplied)
            if isinstance(chunk, Cold):
                return Read(None, chunk)
            more = size < segment.written_bytes - position
            result = cut_batches(chunk, offset, bytes_max, limit_offset, more, expected, segment.next_offset)
            if len(chunk) < size and not result.size_bytes:
                return Read(Code.STORAGE_DAMAGED)  # The file ends before its last batch does.
            if result.wanted_bytes == 0:
                return result
            # The batch begins in this chunk but is larger than it, or lies behind it.
            position += result.wanted_at
            expected = result.expected
            size = min(max(result.wanted_bytes, bytes_max), segment.written_bytes - position)
            if result.wanted_bytes > size:
                return Read(Code.STORAGE_DAMAGED)

    def _segment_at(self, offset: int) -> int:
        """The segment that holds `offset`, or the next one if it fell into a gap."""
        return max(bisect_right(self.segments, offset, key=_segment_base) - 1, 0)

    def segment_for_timestamp(self, timestamp_ms: int) -> Segment | None:
        """The first segment that may have a record at or after this time; flush before asking."""
        for segment in self.segments:
            if segment.max_timestamp_ms >= timestamp_ms and segment.next_offset > self.start_offset:
                return segment
        return None

    def offset_to_scan_for(self, segment: Segment, timestamp_ms: int, supplied: Supplied | None) -> int | Cold:
        """An offset in `segment` from which a scan finds the first record at or after this time."""
        index = segment.index
        if index is None:
            found = self._load_index_nowait(segment, supplied)
            if isinstance(found, Cold):
                return found
            index = found
        relative = index.offset_for_timestamp(timestamp_ms)
        return max(segment.base_offset + relative, self.start_offset)

    # Indexes

    def _ensure_index(self, segment: Segment) -> None:
        if segment.index is None:
            index, covered = load_index(self._files, self.partition, segment)
            segment.use_index(index, covered)

    def _load_index_nowait(self, segment: Segment, supplied: Supplied | None) -> Index | Cold:
        """The index of a segment that was not used since the start, or what to do to have it."""
        path = index_path(self.partition, segment.base_offset)
        data: bytes | Cold
        if supplied is not None and supplied.rebuilt and supplied.path == path and supplied.data:
            data = supplied.data
        elif not self._files.disk.exists(path):
            return Cold(path, 0, 0, segment)
        else:
            data = read_bytes(self._files, path, 0, self._files.get(path).size(), supplied)
            self._files.forget(path)
        if isinstance(data, Cold):
            return data
        try:
            index, summary = decode_index(data)
        except LonghallError:
            return Cold(path, 0, 0, segment)
        active = segment is self.segments[-1]
        if summary.size_bytes > segment.size_bytes and active:
            index.cut(segment.size_bytes)  # Saved after the snapshot that the segment was restored from.
        elif summary.size_bytes != segment.size_bytes:
            file = self._files.get(segment_path(self.partition, segment.base_offset))
            if active or summary.size_bytes != file.size():
                return Cold(path, 0, 0, segment)
            # The cleaner put a smaller file in the place of this one after the last checkpoint.
            segment.size_bytes = segment.written_bytes = summary.size_bytes
        segment.use_index(index, segment.size_bytes)
        return index

    def _save_closed_indexes(self) -> None:
        while self._unindexed:  # One by one: where the disk is full, those that were saved are done with.
            segment = self._unindexed[0]
            save_index(self._files, self.partition, segment)
            self._cut_leavings(segment)
            self.unsynced.add(segment.base_offset)
            segment.index = None  # Read again when somebody asks for old data.
            del self._unindexed[0]

    def _cut_leavings(self, segment: Segment) -> None:
        """Behind its last batch a closed file has nothing: a crash may have left there what nobody was promised."""
        file = self._files.get(segment_path(self.partition, segment.base_offset))
        if file.size() > segment.written_bytes:
            file.truncate(segment.written_bytes)

    def save_active_index(self, unsaved_bytes_max: int) -> None:
        """Write the index of the active segment as it is, so that the next start need not scan more than this."""
        segment = self.segments[-1] if self.segments else None
        if segment is not None and segment.index is not None:
            # Where something is lost, only the index knows how to step over it.
            if self.damaged or segment.size_bytes - segment.index_saved_bytes > unsaved_bytes_max:
                save_index(self._files, self.partition, segment)
                segment.index_saved_bytes = segment.size_bytes

    # Space

    def advance_start(self, offset: int) -> list[Segment]:
        """Nothing below `offset` is kept any more. Returns the segments that hold nothing else: their files can go."""
        if offset <= self.start_offset:
            return []
        self.start_offset = offset
        self.next_offset = max(self.next_offset, offset)  # What was trimmed may have been lost before.
        self.epochs.cut_before(offset)
        self.damaged = [(first, behind) for first, behind in self.damaged if behind > offset]
        dead: list[Segment] = []
        while self.segments and self.segments[0].next_offset <= offset:
            dead.append(self.segments.pop(0))
        if dead and self._tail:  # What was only in memory is gone as well.
            self._behind = None
            self._tail = [entry for entry in self._tail if entry[2] not in dead]
            self.tail_bytes = sum([len(entry[1]) for entry in self._tail])
        self._unindexed = [segment for segment in self._unindexed if segment in self.segments]
        self.unsynced.difference_update([segment.base_offset for segment in dead])
        return dead

    def drop_segments(self, base_offsets: list[int]) -> list[Segment]:
        """These closed segments are not wanted any more, wherever they stand; returns those that were there."""
        dead = [segment for segment in self.segments[:-1] if segment.base_offset in base_offsets]
        self.segments = [segment for segment in self.segments if segment not in dead]
        self._unindexed = [segment for segment in self._unindexed if segment not in dead]
        self.unsynced.difference_update([segment.base_offset for segment in dead])
        return dead

    def has_gaps(self) -> bool:
        """Whether segments have left the middle."""
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
        """Where the log should begin: whole closed segments go when they are too old or the log is too large."""
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
        """The end of the last closed segment that holds nothing at or behind `offset`; the start if there is none."""
        end = self.start_offset
        for segment in self.segments[:-1]:
            if segment.next_offset > offset:
                break
            end = max(end, segment.next_offset)
        return end

    def replaced(self, base_offset: int, size_bytes: int, max_timestamp_ms: int) -> None:
        """The cleaner put another file in the place of this closed segment; its index lies beside it."""
        path = segment_path(self.partition, base_offset)
        self._files.forget(path)
        for segment in self.segments[:-1]:
            if segment.base_offset == base_offset:
                segment.size_bytes = segment.written_bytes = size_bytes
                segment.max_timestamp_ms = max_timestamp_ms
                segment.index = None
                if segment in self._unindexed:  # Closed just now: what is beside it is newer than what we have.
                    self._unindexed.remove(segment)

    def is_indexed(self, segment: Segment) -> bool:
        """Whether an index of this segment is saved beside it and does not change any more."""
        return segment is not self.segments[-1] and segment not in self._unindexed

    def measured(self, segment: Segment, size_bytes: int) -> None:
        """The cleaner made this closed segment smaller after the last checkpoint before a crash."""
        if size_bytes < segment.written_bytes and segment.next_offset <= self.safe_offset:
            segment.size_bytes = segment.written_bytes = size_bytes

    def mended(self, base_offset: int) -> None:
        """Bytes of this segment were put right in place, and if it is closed, its index was made anew beside it."""
        for segment in self.segments[:-1]:
            if segment.base_offset == base_offset and segment not in self._unindexed:
                segment.index = None

    def measure_closed(self) -> None:
        """Learn the sizes of closed segments that the cleaner replaced after the last checkpoint before a crash."""
        for segment in self.segments[:-1]:
            if segment.next_offset <= self.safe_offset:
                path = segment_path(self.partition, segment.base_offset)
                size = self._files.get(path).size()
                if size < segment.size_bytes:
                    segment.size_bytes = segment.written_bytes = size

    # Snapshots

    def snapshot(self) -> PartitionNumbers:
        """Everything that `restore` needs once the tail is flushed and synced."""
        segments = [segment.numbers() for segment in self.segments]
        damaged = list(self.damaged)
        return (self.start_offset, self.next_offset, segments, self.epochs.snapshot(), damaged, self.cleaned_offset)

    def restore(self, numbers: Any) -> None:
        """Take over what `snapshot` gave, as MessagePack gives it back: with lists for tuples. No file is touched."""
        self.start_offset = int(numbers[0])
        self.next_offset = int(numbers[1])
        self.segments = [from_numbers(segment) for segment in numbers[2]]
        self.epochs.restore([(int(epoch), int(start)) for epoch, start in numbers[3]])
        self.damaged = [(int(first), int(behind)) for first, behind in numbers[4]]
        self.cleaned_offset = int(numbers[5])
        self.safe_offset = self.next_offset
        self.marked_offset = -1

    def take_unsynced(self) -> set[int]:
        """The segments that the caller syncs now; it puts them back if it cannot."""
        taken = self.unsynced
        self.unsynced = set()
        return taken

    def close(self) -> None:
        """Close the files of this partition: it is about to be removed."""
        self._behind = None
        for segment in self.segments:
            self._files.forget(segment_path(self.partition, segment.base_offset))


@final
class Behind:
    """One write of a tail that is under way."""

    def __init__(self, log: PartitionLog, segment: Segment, count: int, size_bytes: int, told: Told) -> None:
        self.segment = segment
        self.count = count
        self.size_bytes = size_bytes
        self.told: Told | None = told
        self._log = log

    def done(self, error: OSError | None) -> None:
        """It has ended."""
        if self._log.arrived(self, error) and self.told is not None:
            self.told(self.size_bytes)


def _tail_base(entry: tuple[int, bytes, Segment]) -> int:
    return entry[0]


def _segment_base(segment: Segment) -> int:
    return segment.base_offset
