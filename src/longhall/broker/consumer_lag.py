"""The lag of a consumer group in a partition that this process stores: messages, and the age of the first of them."""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.records.batch import parse_header

READ_BYTES: Final = 1  # One batch is enough for the age of the first unread message.

Position = tuple[str, int, int]  # Topic, partition, and the committed offset of a group.


class ConsumerLag(msgspec.Struct, frozen=True, array_like=True):
    """Messages between a committed offset and the end. `seconds` is the age of the first of them, 0 without any, and
    None if it would need a read from the disk.
    """

    messages: int
    seconds: float | None


def lag_of(hall: Hall, position: Position) -> ConsumerLag | None:
    """The lag at a committed offset; None if there is none, or the partition is not stored here."""
    topic, number, committed = position
    partition = hall.partition(topic, number)
    if partition is None or committed < 0 or partition.elsewhere:
        return None
    messages = max(partition.high_watermark - committed, 0)
    return ConsumerLag(messages, _seconds(hall, partition, committed) if messages else 0.0)


def _seconds(hall: Hall, partition: Partition, committed: int) -> float | None:
    offset = max(committed, partition.log.start_offset)
    read = partition.log.read(offset, READ_BYTES, partition.high_watermark)
    if read.cold is not None or read.code is not None or not read.buffers:
        return None
    header = parse_header(bytes(read.buffers[0][:61]), 0)
    newest_ms = header.base_timestamp_ms if header.base_offset == offset else header.max_timestamp_ms
    return max(hall.time.now_ms() - newest_ms, 0) / 1000
