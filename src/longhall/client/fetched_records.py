"""Decoding of fetched batches into records, without those of aborted transactions.

With the batches a reader of committed records gets the aborted transactions among them: the producer and the first
offset. From there to the producer's marker its transactional batches are skipped. Markers are never records.
"""

from __future__ import annotations

from typing import NamedTuple

from longhall.client.records import Fetched
from longhall.errors import Code, LonghallError
from longhall.records.batch import HEADER_BYTES, Record, check_batch, parse_header, read_records
from longhall.records.control import parse_marker


class FetchedRecords(NamedTuple):
    """Records from `offset` on, and the next offset to read."""

    records: list[Record]
    next_offset: int


def decode_fetched(fetched: Fetched, offset: int) -> FetchedRecords:
    """Raises LonghallError (CORRUPT_MESSAGE) for a batch whose checksum is wrong."""
    buffer = fetched.records
    aborted = sorted(fetched.aborted, key=lambda each: each[1])
    skipping: set[int] = set()
    records: list[Record] = []
    at = 0
    while len(buffer) - at >= HEADER_BYTES and len(buffer) - at >= parse_header(buffer, at).size_bytes:
        header = check_batch(buffer, at, len(buffer))
        while aborted and aborted[0][1] <= header.last_offset:
            skipping.add(aborted.pop(0)[0])
        if header.is_control:
            marker = parse_marker(buffer, at, header)
            if marker is not None and not marker.commit:
                skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            records += [record for record in read_records(buffer, at) if record.offset >= offset]
        offset = max(offset, header.next_offset)
        at += header.size_bytes
    if at == 0 and buffer:
        raise LonghallError(Code.CORRUPT_MESSAGE, f"{fetched.topic}-{fetched.partition}: not one whole batch was sent.")
    return FetchedRecords(records, offset)
