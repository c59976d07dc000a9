"""The read cache of a queue on one log: decoded messages near the last read position.

Only committed messages of committed transactions are visible; the cursor of a share group that reads uncommitted sees
those of open and aborted transactions too. Data that is not in memory is described in `cold`; the
caller reads it and retries.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, final

from longhall.broker.partition import Partition
from longhall.errors import Code, LonghallError
from longhall.log.segment_reads import Cold, Supplied
from longhall.queues.envelope import ID, body_bytes_of, group_text, peek_fields
from longhall.queues.outcomes import NEVER_MS, UNREADABLE, Candidate
from longhall.records.batch import BatchHeader, parse_header, read_records
from longhall.records.record import Record

READ_BYTES: Final = 256 * 1024
KEPT_MAX: Final = 2  # Cached decoded ranges of the log.


class Sizing(Protocol):
    """The queue as a window sees it: whether it counts bytes, and which messages of a log it has."""

    @property
    def counts_bytes(self) -> bool: ...

    @property
    def reads_uncommitted(self) -> bool: ...

    def judges(self, partition: Partition) -> bool: ...

    def takes(self, partition: Partition, header: BatchHeader, record: Record) -> bool: ...


@final
class _Stretch:
    """Decoded messages from `first` to `behind` (exclusive); offsets without a message are candidates too."""

    def __init__(self, first: int, behind: int, candidates: list[Candidate], limit: int, oldest_ms: int) -> None:
        self.first = first
        self.behind = behind
        self.candidates = candidates
        self.limit = limit  # The last stable offset at the read.
        self.oldest_ms = oldest_ms  # The least timestamp.


@final
class Window:
    """The cached ranges of one log for one queue."""

    def __init__(self, partition: Partition, sizing: Sizing) -> None:
        self.partition = partition
        self._sizing = sizing
        self.cold: Cold | None = None
        self.supplied: Supplied | None = None
        self.warming: asyncio.Future[None] | None = None  # Done when the current read of cold data has ended.
        self._kept: list[_Stretch] = []

    def look(self, offset: int, count_max: int, kept_from_ms: int = -1) -> list[Candidate] | None:
        """At most `count_max` messages from `offset` on that are in memory; None if the first is not. Those from before
        `kept_from_ms` are outdated.
        """
        stretch = self._find(offset)
        if stretch is None:
            found = self._read(offset)
            if not isinstance(found, _Stretch):
                return found
            stretch = found
        candidates = stretch.candidates
        low = 0
        high = len(candidates)
        while low < high:
            middle = (low + high) // 2
            if candidates[middle].next_offset <= offset:
                low = middle + 1
            else:
                high = middle
        found = candidates[low : low + count_max]
        return found if stretch.oldest_ms >= kept_from_ms else [_dated(one, kept_from_ms) for one in found]

    def _find(self, offset: int) -> _Stretch | None:
        for stretch in self._kept:
            if stretch.first <= offset < stretch.behind:
                return stretch
        return None

    def _read(self, offset: int) -> _Stretch | list[Candidate] | None:
        log = self.partition.log
        partition = self.partition
        limit = partition.high_watermark if self._sizing.reads_uncommitted else partition.last_stable_offset
        offset = max(offset, log.start_offset)
        read = log.read(offset, READ_BYTES, limit, self.supplied)
        if read.cold is not None:
            self.cold = read.cold
            return None
        self.supplied = None
        if read.code is Code.STORAGE_DAMAGED:
            if self.partition.report_damage(offset, self.partition.wake):
                return [Candidate(offset, offset + 1, UNREADABLE)]
            return [Candidate(offset, log.behind_damage(offset), -1)]
        if read.code is not None or not read.size_bytes:
            return []
        candidates = self._decode(b"".join(read.buffers), offset, limit)
        if not candidates:
            return []
        stretch = _Stretch(offset, candidates[-1].next_offset, candidates, limit, _oldest_ms(candidates))
        self._kept = [stretch, *self._kept[: KEPT_MAX - 1]]
        return stretch

    def _decode(self, data: bytes, offset: int, limit: int) -> list[Candidate]:
        candidates: list[Candidate] = []
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            if candidates and candidates[-1].next_offset < header.base_offset:
                _leave_out(candidates, candidates[-1].next_offset, header.base_offset)
            if header.is_control or self._is_aborted(header):
                _leave_out(candidates, header.base_offset, header.next_offset)
            else:
                self._open(data, at, header, candidates)
            at += header.size_bytes
        return candidates

    def _open(self, data: bytes, at: int, header: BatchHeader, candidates: list[Candidate]) -> None:
        try:
            records = read_records(data, at)
        except LonghallError:
            _leave_out(candidates, header.base_offset, header.next_offset)
            return
        behind = header.base_offset
        judged = self._sizing.judges(self.partition)
        for record in records:
            if judged and not self._sizing.takes(self.partition, header, record):
                continue  # The gap is added before the next message.
            if record.offset > behind:
                _leave_out(candidates, behind, record.offset)
            group, expires_ms, due_ms = peek_fields(record)
            if expires_ms <= 0:
                expires_ms = NEVER_MS if due_ms else -1  # One test tells the scan that neither has to be looked at.
            size = body_bytes_of(record) if self._sizing.counts_bytes else 0
            candidate = Candidate(record.offset, record.offset + 1, size, group_text(group), expires_ms, record, due_ms)
            candidates.append(candidate)
            behind = record.offset + 1
        if behind < header.next_offset:
            _leave_out(candidates, behind, header.next_offset)

    def _is_aborted(self, header: BatchHeader) -> bool:
        producers = self.partition.producers
        if producers is None or not header.is_transactional or self._sizing.reads_uncommitted:
            return False
        for producer_id, first, last in producers.aborted_ranges():
            if producer_id == header.producer_id and first <= header.base_offset <= last:
                return True
        return False


def _oldest_ms(candidates: list[Candidate]) -> int:
    oldest_ms = NEVER_MS
    for candidate in candidates:
        record = candidate.payload
        if isinstance(record, Record) and 0 <= record.timestamp_ms < oldest_ms:
            oldest_ms = record.timestamp_ms
    return oldest_ms


def _dated(candidate: Candidate, kept_from_ms: int) -> Candidate:
    """The candidate, or an outdated copy of it if it is from before `kept_from_ms`.

    Only a record with a message id is: a door of queues wrote it, so its timestamp is the time of its arrival. That of
    a Kafka producer or of a replay may be of any time.
    """
    record = candidate.payload
    if not isinstance(record, Record) or not 0 <= record.timestamp_ms < kept_from_ms:
        return candidate
    if not any(name == ID for name, _ in record.headers):
        return candidate
    return Candidate(
        candidate.offset, candidate.next_offset, candidate.size_bytes, candidate.group, 0, record, is_outdated=True
    )


def _leave_out(candidates: list[Candidate], start: int, behind: int) -> None:
    """Add a range without messages; adjacent ranges are merged."""
    last = candidates[-1] if candidates else None
    if last is not None and last.size_bytes < 0 and last.next_offset == start:
        last.next_offset = behind
    else:
        candidates.append(Candidate(start, behind, -1))
