"""Copies of records that an operator asks for: a dead letter that is redriven, and a message that is edited.

The copies that the broker makes by itself, for lanes and dead letters, are in `envelope`, whose table of headers holds
here as well.
"""

from __future__ import annotations

from longhall.queues.envelope import (
    ID,
    PREFIX,
    SEAL,
    SENT,
    TYPE_PREFIX,
    WHOLE,
    WHOLE_BYTES,
    append_attributes,
    is_death_header,
    moved_record,
    seal_of,
)
from longhall.queues.messages import Attribute
from longhall.records.record import Record


def redriven_record(record: Record, message_id: str, now_ms: int) -> Record:
    """A copy of a dead letter for its target queue: sent now, with a new id; only the history of deaths is kept.

    A sealed message keeps its id, because its seal is bound to it.
    """
    headers: list[tuple[str, bytes | None]] = [(ID, message_id.encode())]
    for header in record.headers:
        if header[0] == ID and seal_of(record):
            headers[0] = header
        if header[0] != ID and header[0] != SENT and not is_death_header(header[0]):
            headers.append(header)
    return Record(-1, now_ms, record.key, record.value, tuple(headers))


def edited_record(
    record: Record,
    message_id: str,
    now_ms: int,
    body: bytes | None,
    attributes: dict[str, Attribute] | None,
    seal: bytes = b"",
) -> Record:
    """A copy of the message with another body or other attributes; None leaves them unchanged. `seal` is that of the
    new body.

    Raises INVALID_REQUEST for an attribute whose name begins with `longhall.`.
    """
    moved = moved_record(record, message_id, now_ms)
    value = moved.value
    headers = list(moved.headers)
    if body is not None:
        value = body
        headers = [header for header in headers if header[0] not in (WHOLE, WHOLE_BYTES, SEAL)]
        if seal:
            headers.append((SEAL, seal))
    if attributes is not None:
        ours = [header for header in headers if header[0].startswith(PREFIX)]
        headers = [header for header in ours if not header[0].startswith(TYPE_PREFIX)]
        append_attributes(headers, attributes)
    return Record(-1, now_ms, moved.key, value, tuple(headers))
