"""The fetch filter: removes messages that do not match a consumer's filter from fetched batches.

A batch that loses messages is rebuilt with its offsets, producer and epoch, as compaction does; readers know gaps from
compaction. A batch without matches is dropped, unless it is the last of a reply: then its empty header stays, so that
the reader advances. Transaction markers stay.

The work is done in slices, so that other requests are served in between, and the bytes of one fetch are bounded.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.fetch import PartitionFetch
from longhall.errors import LonghallError
from longhall.log.segment_rewrite import rebuild_batch
from longhall.queues.envelope import decode_record
from longhall.queues.filters import Filter
from longhall.queues.selector import compile_filter
from longhall.records.batch import BatchHeader, parse_header, read_records
from longhall.records.record import Record

RACK_PREFIX: Final = "longhall.filter="  # A consumer passes its filter in `client.rack`.
FILTERED_BYTES_MAX: Final = 256 * 1024  # A fetch with a filter examines at most this much, or one batch.
FILTERS_MAX: Final = 64  # Cached compiled filters.
_SLICE: Final = 256


@final
class FetchFilters:
    """A cache of compiled filters, least recently used first."""

    def __init__(self) -> None:
        self._known: dict[str, Filter] = {}

    def of(self, rack: str) -> Filter | None:
        """The filter in a consumer's rack; None without one. Raises INVALID_REQUEST."""
        if not rack.startswith(RACK_PREFIX):
            return None
        filter = self._known.pop(rack, None)
        if filter is None:
            filter = compile_filter(rack.removeprefix(RACK_PREFIX))
            if len(self._known) >= FILTERS_MAX:
                self._known.pop(next(iter(self._known)))
        self._known[rack] = filter
        return filter


async def filter_batches(wanted: list[PartitionFetch], filter: Filter) -> None:
    """Remove the messages that do not match from each result."""
    for one in wanted:
        if one.partition is not None and one.buffers:
            kept = await _filtered(b"".join(one.buffers), one.partition.lane, filter)
            one.buffers = list(kept)
            one.size_bytes = sum(len(batch) for batch in kept)


async def _filtered(data: bytes, number: int, filter: Filter) -> list[bytes]:
    kept: list[bytes] = []
    hollow: BatchHeader | None = None
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        batch = data[at : at + header.size_bytes]
        at += header.size_bytes
        hollow = None
        if header.is_control or header.record_count == 0:
            kept.append(batch)
            continue
        records = await _matching(batch, number, filter)
        if records is None or len(records) == header.record_count:
            kept.append(batch)
        elif records:
            kept.append(_rebuilt(header, records))
        else:
            hollow = header
    if hollow is not None:
        kept.append(_rebuilt(hollow, []))
    return kept


async def _matching(batch: bytes, number: int, filter: Filter) -> list[Record] | None:
    """The matching records; None for an unreadable batch, which is passed to the reader."""
    try:
        records = read_records(batch, 0)
    except LonghallError:
        return None
    matching: list[Record] = []
    for start in range(0, len(records), _SLICE):
        matching += [one for one in records[start : start + _SLICE] if filter.matches(decode_record(one, number))]
        await asyncio.sleep(0)
    return matching


def _rebuilt(header: BatchHeader, records: list[Record]) -> bytes:
    horizon_ms = header.base_timestamp_ms if header.has_delete_horizon else -1
    return rebuild_batch(header, records, header.compression if records else 0, horizon_ms)
