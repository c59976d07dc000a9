"""Copies of messages for the lanes of levels: made from the message, and turned into the message again.

A copy names partition and offset of the message in the topic. Copies of versions before this do not.
"""

from __future__ import annotations

from longhall.queues.envelope import NUMBER_DIGITS_MAX, ORIGINAL, SENT, moved_record
from longhall.records.record import Record


def level_copy(record: Record, message_id: str, now_ms: int, partition: int) -> Record:
    """The copy of a message for the log of its level, which names the message that it is a copy of."""
    copy = moved_record(record, message_id, now_ms)
    headers = (*copy.headers, (ORIGINAL, b"%d:%d" % (partition, record.offset)))
    return Record(-1, now_ms, copy.key, copy.value, headers)


def original_of(copy: Record) -> tuple[int, int] | None:
    """Partition and offset of the message of which this is a copy; None if the record does not say so."""
    for name, value in copy.headers:
        if name == ORIGINAL and value is not None:
            partition, _, offset = value.partition(b":")
            if partition.isdigit() and offset.isdigit() and len(value) <= 2 * NUMBER_DIGITS_MAX:
                return int(partition), int(offset)
    return None


def original_record(copy: Record, offset: int) -> Record:
    """The message of which this is a copy, at its offset in the topic."""
    sent_ms = copy.timestamp_ms
    headers: list[tuple[str, bytes | None]] = []
    for header in copy.headers:
        if header[0] == SENT:
            value = header[1] or b""
            sent_ms = int(value) if value.isdigit() and len(value) <= NUMBER_DIGITS_MAX else sent_ms
        elif header[0] != ORIGINAL:
            headers.append(header)
    return Record(offset, sent_ms, copy.key, copy.value, tuple(headers))
