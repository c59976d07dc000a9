"""Sift: fetched batches without the messages that a reader does not want, as the server sees them.

A batch that loses messages is written anew with its offsets, its producer and its epoch, as the cleaner would; readers
know gaps from compaction. One that loses all of them goes, unless it is the last of an answer: then its bare header
stays, because it says how far the reader has come. Markers of transactions stay.

It is done in slices, so that other requests come between, and it bounds how much is read at once.
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

RACK_PREFIX: Final = "longhall.filter="  # A consumer names its filter as the place where it stands (`client.rack`).
SIFTED_BYTES_MAX: Final = 256 * 1024  # One fetch with a filter looks through no more than this, or one batch.
FILTERS_MAX: Final = 64  # Compiled ones that are remembered.
_SLICE: Final = 256


@final
class FetchFilters:
    """Filters of readers, compiled once."""

    def __init__(self) -> None:
        self._known: dict[str, Filter] = {}

    def of(self, rack: str) -> Filter | None:
        """The filter that a consumer named as its rack; None if it named none. Raises INVALID_REQUEST."""
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
    """Leave in each of these what fits."""
    for one in wanted:
        if one.partition is not None and one.buffers:
            kept = await _sifted(b"".join(one.buffers), one.partition.log.partition, filter)
            one.buffers = list(kept)
            one.size_bytes = sum(len(batch) for batch in kept)


async def _sifted(data: bytes, number: int, filter: Filter) -> list[bytes]:
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
        records = await _fitting(batch, number, filter)
        if records is None or len(records) == header.record_count:
            kept.append(batch)
        elif records:
            kept.append(_rebuilt(header, records))
        else:
            hollow = header
    if hollow is not None:
        kept.append(_rebuilt(hollow, []))
    return kept


async def _fitting(batch: bytes, number: int, filter: Filter) -> list[Record] | None:
    """The records that fit; None if nobody can read the batch: then the reader shall see that for itself."""
    try:
        records = read_records(batch, 0)
    except LonghallError:
        return None
    fitting: list[Record] = []
    for start in range(0, len(records), _SLICE):
        fitting += [one for one in records[start : start + _SLICE] if filter.matches(decode_record(one, number))]
        await asyncio.sleep(0)
    return fitting


def _rebuilt(header: BatchHeader, records: list[Record]) -> bytes:
    horizon_ms = header.base_timestamp_ms if header.has_delete_horizon else -1
    return rebuild_batch(header, records, header.compression if records else 0, horizon_ms)
