"""Produce, by hand: the codec of this request limits how many records a second a node accepts.

Record batches are not copied: a part has the position of its records in the frame. The response is made from the same
parts, after the handler has filled in their results, so that one object a batch is allocated.

    request    [transactional id (3+)], acks int16, timeout int32, topics: (name | id (13+),
               parts: (index int32, records))
    response   topics: (name | id, parts: (index int32, error int16, offset int64, [append time int64 (2+)],
               [log start int64 (5+)], [record errors: (index int32, message), error message (8+)],
               [tagged: leader (10+)])), [throttle int32 (1+)], [tagged: brokers (10+)]
"""

from __future__ import annotations

from struct import Struct
from typing import Final, final

from longhall.doors.kafka.wire.leader_hints import LeaderHint, write_endpoints, write_leader
from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.topic_parts import TOPIC_IDS_FROM, TopicPart, by_topic, read_topic, write_topic
from longhall.doors.kafka.wire.writer import write_count, write_text, write_varint

FLEXIBLE_FROM: Final = 9
RECORD_ERRORS_FROM: Final = 8
LEADER_HINTS_FROM: Final = 10
_LEADER_TAG: Final = 0

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">iii")  # size, correlation, topics
_HEAD_FLEXIBLE: Final = Struct(">iibb")  # size, correlation, no tagged fields, topics + 1
_PART_0: Final = Struct(">ihq")  # index, error, offset
_PART_2: Final = Struct(">ihqq")  # ... and append time
_PART_5: Final = Struct(">ihqqq")  # ... and log start
_ONE_5: Final = Struct(">iihqqqi")  # one part, as above, throttle
_ONE_FLEXIBLE: Final = Struct(
    ">bihqqqbbbbib"
)  # one part + 1, as above, no message, no tagged fields twice, throttle, none


@final
class ProducePart(TopicPart):
    """One batch to append: its position in the frame, and later its result."""

    def __init__(self, topic: str, topic_id: bytes, partition: int, records_at: int, records_size: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.records_at = records_at
        self.records_size = records_size  # -1 when there are none at all.
        self.error_code: int = 0
        self.base_offset: int = -1
        self.log_append_time_ms: int = -1
        self.log_start_offset: int = -1
        self.error_message: str | None = None
        self.record_errors: list[tuple[int, str]] | None = None  # Positions in the batch, with the reason of each.
        self.leader: LeaderHint | None = None


@final
class ProduceRequest:
    """Everything of one request. `acks` is 0 (no answer), 1 or -1 (all)."""

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int, parts: list[ProducePart]) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.parts = parts


def parse_produce(frame: bytes, at: int, version: int) -> ProduceRequest:
    """Read the body that begins at `at`. Raises WireError, whatever the bytes are."""
    reader = Reader(frame, at, len(frame))
    flexible = version >= FLEXIBLE_FROM
    transactional_id: str | None = None
    if version >= 3:
        size = reader.string_size(flexible)
        if size >= 0:
            transactional_id = reader.text(size)
    acks = reader.int16()
    timeout_ms = reader.int32()
    parts: list[ProducePart] = []
    for _ in range(reader.count(flexible, 3)):
        _parse_topic(reader, version, flexible, parts)
    if flexible:
        reader.skip_tagged()
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)


def _parse_topic(reader: Reader, version: int, flexible: bool, parts: list[ProducePart]) -> None:
    topic, topic_id = read_topic(reader, version, flexible)
    for _ in range(reader.count(flexible, 6)):
        partition = reader.int32()
        size = reader.size(flexible)
        if size < 0:
            parts.append(ProducePart(topic, topic_id, partition, reader.at, -1))
        else:
            parts.append(ProducePart(topic, topic_id, partition, reader.skip(size), size))
        if flexible:
            reader.skip_tagged()
    if flexible:
        reader.skip_tagged()


def encode_produce_response(correlation_id: int, version: int, parts: list[ProducePart], throttle_ms: int = 0) -> bytes:
    """The complete frame. Neighbouring parts of one topic share its entry."""
    if len(parts) == 1 and version >= 5 and parts[0].error_code == 0 and parts[0].error_message is None:
        return _encode_one(correlation_id, version, parts[0], throttle_ms)
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if flexible:
        out.append(0)
    groups = by_topic(parts)
    write_count(out, len(groups), flexible)
    for group in groups:
        write_topic(out, group[0], len(group), version, flexible)
        for part in group:
            _write_part(out, part, version, flexible)
        if flexible:
            out.append(0)
    if version >= 1:
        out += _INT32.pack(throttle_ms)
    if version >= LEADER_HINTS_FROM:
        write_endpoints(out, [part.leader for part in parts if part.leader is not None])
    elif flexible:
        out.append(0)
    out[0:4] = _INT32.pack(len(out) - 4)
    return bytes(out)


def _encode_one(correlation_id: int, version: int, part: ProducePart, throttle_ms: int) -> bytes:
    """One part without an error, from version 5 on: nearly every response is one of these."""
    name = part.topic.encode()
    if version < FLEXIBLE_FROM:
        tail = _ONE_5.pack(
            1,
            part.partition,
            part.error_code,
            part.base_offset,
            part.log_append_time_ms,
            part.log_start_offset,
            throttle_ms,
        )
        if version == 8:
            tail = tail[:-4] + b"\0\0\0\0\xff\xff" + tail[-4:]
        head = _HEAD.pack(10 + len(name) + len(tail), correlation_id, 1)
        return head + _INT16.pack(len(name)) + name + tail
    tail = _ONE_FLEXIBLE.pack(
        2, part.partition, part.error_code, part.base_offset, part.log_append_time_ms, part.log_start_offset,
        1, 0, 0, 0, throttle_ms, 0,
    )  # fmt: skip
    if version >= TOPIC_IDS_FROM:
        name = part.topic_id
    else:
        name = _compact_size(len(name)) + name
    return _HEAD_FLEXIBLE.pack(6 + len(name) + len(tail), correlation_id, 0, 2) + name + tail


def _write_part(out: bytearray, part: ProducePart, version: int, flexible: bool) -> None:
    if version >= 5:
        out += _PART_5.pack(
            part.partition, part.error_code, part.base_offset, part.log_append_time_ms, part.log_start_offset
        )
    elif version >= 2:
        out += _PART_2.pack(part.partition, part.error_code, part.base_offset, part.log_append_time_ms)
    else:
        out += _PART_0.pack(part.partition, part.error_code, part.base_offset)
    if version >= RECORD_ERRORS_FROM:
        _write_record_errors(out, part.record_errors or [], flexible)
        write_text(out, part.error_message, flexible)
    if version >= LEADER_HINTS_FROM:
        write_leader(out, _LEADER_TAG, part.leader)
    elif flexible:
        out.append(0)


def _write_record_errors(out: bytearray, errors: list[tuple[int, str]], flexible: bool) -> None:
    write_count(out, len(errors), flexible)
    for index, message in errors:
        out += _INT32.pack(index)
        write_text(out, message, flexible)
        if flexible:
            out.append(0)


def _compact_size(size: int) -> bytes:
    out = bytearray()
    write_varint(out, size + 1)
    return bytes(out)
