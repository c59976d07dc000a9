"""Key compaction: the last record of each key stays, earlier ones are removed.

Two passes over the closed segments of a partition. `Survey` notes the last offset of every key in the dirty part, as
far as its memory allows, and the last batch of every producer. `Compaction` then decides what the rewriter removes.

    what                                    removed
    a record with a newer one of its key    at once
    a record without a key                  at once: no later record can replace it
    records of an aborted transaction       at once
    a tombstone (a key without a value)     when its delete horizon has passed
    a marker                                the same, once a pass found no batch of its transaction
    an emptied batch                        at once, unless it is the last one of its producer

The first pass that finds a tombstone or an idle marker in a batch sets the delete horizon of the batch, in its base
time; readers have until then to see it. The last batch of a producer stays, emptied, because recovery rebuilds
sequences and epochs from headers. Batches at or above the offset up to which keys are known are not changed. This
module knows neither files nor the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, final

from longhall.errors import LonghallError
from longhall.log.keymap import KeyMap
from longhall.log.segment_rewrite import DROP, HOLLOW, KEEP, OPEN
from longhall.log.segment_scan import Damage, Found
from longhall.records.batch import BatchHeader, Record, read_records
from longhall.records.control import parse_marker

_FIRST: Final = itemgetter(0)


@final
class AbortedRanges:
    """Aborted transactions as (producer, first offset, offset of the marker)."""

    def __init__(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, marker in sorted(ranges):
            self._by_producer.setdefault(producer_id, []).append((first, marker))

    def covers(self, header: BatchHeader) -> bool:
        """True if this data batch belongs to an aborted transaction."""
        ranges = self._by_producer.get(header.producer_id)
        if ranges is None or not header.is_transactional or header.is_control:
            return False
        at = bisect_right(ranges, header.base_offset, key=_FIRST) - 1
        return at >= 0 and header.base_offset <= ranges[at][1]


@final
class Survey:
    """The result of the first pass. Keys are known from `dirty_from` up to, not including, `known_until`."""

    def __init__(self, keys: KeyMap, aborted: AbortedRanges, dirty_from: int, until_offset: int) -> None:
        self.keys = keys
        self.aborted = aborted
        self.known_until = dirty_from
        self.damaged = False
        self.last_data: dict[int, int] = {}  # Producer to the last offset of its last batch.
        self.last_marker: dict[int, int] = {}  # Producer to the offset of its last marker, which has its newest epoch.
        self._dirty_from = dirty_from
        self._until_offset = until_offset
        self._full = False

    def read(self, batches: Iterable[Found | Damage]) -> bool:
        """Read a segment; False if a part of it is damaged."""
        whole = True
        for found in batches:
            if isinstance(found, Damage):
                whole = False
                self.damaged = True
                continue
            header = found.header
            if header.last_offset >= self._until_offset:
                continue  # Read only to check it for damage.
            if header.producer_id >= 0:
                (self.last_marker if header.is_control else self.last_data)[header.producer_id] = header.last_offset
            if header.last_offset >= self._dirty_from and not self._full:
                self._full = not self._note_keys(header, found.batch)
                if not self._full:
                    self.known_until = header.next_offset
        return whole

    def _note_keys(self, header: BatchHeader, batch: bytes) -> bool:
        if header.is_control or header.record_count == 0 or self.aborted.covers(header):
            return True
        try:
            records = read_records(batch, 0)
        except LonghallError:
            return True  # The client sent it in this form; the rewriter copies it unchanged.
        put = self.keys.put
        return all(record.key is None or put(record.key, record.offset) for record in records)


@final
class Compaction:
    """The retention rule of a compacted topic. It must see every closed segment, from the first on, in order."""

    def __init__(
        self, survey: Survey, now_ms: int, delete_retention_ms: int, active_producers: frozenset[int] | None
    ) -> None:
        self._survey = survey
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._active = active_producers
        self._transacting: set[int] = set()  # Producers with a batch of their current transaction in this pass.

    def fate(self, header: BatchHeader, batch: bytes) -> int:
        """Decide by the table of the module's docstring."""
        if header.last_offset >= self._survey.known_until:
            return KEEP
        if header.is_control:
            return self._fate_of_marker(header, batch)
        if header.is_transactional:
            self._transacting.add(header.producer_id)
        if self._survey.aborted.covers(header):
            return HOLLOW if self.outlives_records(header) else DROP
        if header.record_count == 0:
            return KEEP if self.outlives_records(header) else DROP
        return OPEN

    def keeps(self, header: BatchHeader, record: Record) -> bool:
        """True if no newer record has this key and, for a tombstone, its delete horizon has not passed."""
        if header.is_control:
            return True
        if record.key is None or record.offset < self._survey.keys.last_offset(record.key):
            return False
        return record.value is not None or not self._is_over(header)

    def outlives_records(self, header: BatchHeader) -> bool:
        """True if this is the last batch or the last marker of an active producer."""
        producer_id = header.producer_id
        if producer_id < 0 or (self._active is not None and producer_id not in self._active):
            return False
        last = self._survey.last_marker if header.is_control else self._survey.last_data
        return last.get(producer_id) == header.last_offset

    def horizon_ms(self, header: BatchHeader, kept: list[Record]) -> int:
        """The delete horizon of the batch. It is set once, by the first pass that finds a reason for it."""
        if header.has_delete_horizon:
            return header.base_timestamp_ms
        if header.is_control:
            return self._horizon_ms
        for record in kept:
            if record.value is None:
                return self._horizon_ms
        return -1

    def _fate_of_marker(self, header: BatchHeader, batch: bytes) -> int:
        has_data = header.producer_id in self._transacting
        self._transacting.discard(header.producer_id)
        if header.record_count == 0:
            return KEEP if self.outlives_records(header) else DROP
        try:
            known = parse_marker(batch, 0, header) is not None
        except LonghallError:
            known = False
        # A damaged segment may contain a batch of the transaction, so its absence proves nothing.
        if not known or has_data or self._survey.damaged:
            return KEEP
        if not header.has_delete_horizon:
            return OPEN
        if not self._is_over(header):
            return KEEP
        return HOLLOW if self.outlives_records(header) else DROP

    def _is_over(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp_ms <= self._now_ms
