"""The response to a Fetch of one partition, decoded without copying its records out of the frame.

    throttle int32, error int16, session int32, topics (1): name or id, parts (1): index int32, error int16, high
    watermark int64, last stable int64, log start int64, aborted: (producer int64, first int64), replica int32, records

The schema in `messages.data` decodes the same into objects; a test compares both. Only versions from 12 on are decoded
here, which brokers support since Kafka 2.7.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.doors.kafka.wire.reader import Reader

VERSION_MIN: Final = 12
TOPIC_IDS_FROM: Final = 13
_ID_BYTES: Final = 16
_ABORTED_BYTES_MIN: Final = 17


class FetchedPartition(NamedTuple):
    """The content of a partition: whole batches, the last of which may be cut off, at `frame[begin:end]`."""

    frame: bytes
    error_code: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]  # Producer and first offset.
    begin: int
    end: int


def read_fetch_response(frame: bytes, at: int, version: int) -> FetchedPartition:
    """Decode what follows the response header, from `at` on. Raises WireError."""
    reader = Reader(frame, at, len(frame))
    reader.int32()  # How long to wait before asking again; a broker that means it does not read on.
    error_code = reader.int16()
    reader.int32()
    if reader.size(True) < 1 or error_code:
        return FetchedPartition(frame, error_code or -1, -1, -1, [], 0, 0)
    reader.skip(_ID_BYTES if version >= TOPIC_IDS_FROM else reader.string_size(True))
    reader.size(True)
    reader.int32()
    error_code = reader.int16()
    reader.int64()
    last_stable, log_start = reader.int64(), reader.int64()
    aborted: list[tuple[int, int]] = []
    count = max(reader.size(True), 0)
    reader.take_elements(count, _ABORTED_BYTES_MIN)
    for _ in range(count):
        aborted.append((reader.int64(), reader.int64()))
        reader.skip_tagged()
    reader.int32()
    size = max(reader.size(True), 0)
    begin = reader.skip(size)
    return FetchedPartition(frame, error_code, last_stable, log_start, aborted, begin, begin + size)
