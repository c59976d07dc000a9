"""Fetch, by hand: requests that come with every poll, and responses that carry record data without a copy.

A response is a list of buffers that are written one after another. The first one begins with the size of all of them;
record data is in the list as the objects that the log returned.

    request    [replica int32 (-14)] max wait int32, min bytes int32, max bytes int32, isolation int8,
               [session id int32, session epoch int32 (7+)], topics: (name | id (13+), parts: (index int32,
               [leader epoch int32 (9+)], offset int64, [last fetched epoch int32 (12+)], [log start int64 (5+)],
               max bytes int32)), [forgotten: (name | id, indexes) (7+)], [rack (11+)]
    response   throttle int32, [error int16, session id int32 (7+)], topics: (name | id, parts: (index int32,
               error int16, high watermark int64, last stable int64, [log start int64 (5+)],
               aborted: (producer int64, first int64), [preferred replica int32 (11+)], records,
               [tagged: leader (12+)])), [tagged: brokers (16+)]
"""

from __future__ import annotations

from struct import Struct
from typing import Final, final

from longhall.doors.kafka.wire.leader_hints import LeaderHint, write_endpoints, write_leader
from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.topic_parts import TopicPart, by_topic, read_topic, write_topic
from longhall.doors.kafka.wire.writer import write_count

FLEXIBLE_FROM: Final = 12
LEADER_HINTS_FROM: Final = 16  # From here on with the addresses of the leaders.
_LEADER_TAG: Final = 1

Buffer = bytes | bytearray | memoryview

_INT32: Final = Struct(">i")
_SESSION: Final = Struct(">hi")
_PART_4: Final = Struct(">ihqq")
_PART_5: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")


@final
class FetchPart(TopicPart):
    """One partition to read from."""

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes


@final
class ForgottenPart(TopicPart):
    """A partition that leaves the session."""

    def __init__(self, topic: str, topic_id: bytes, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition


@final
class FetchRequest:
    """Everything of one request, topics flattened into parts."""

    def __init__(self) -> None:
        self.replica_id: int = -1
        self.max_wait_ms: int = 0
        self.min_bytes: int = 0
        self.max_bytes: int = 0x7FFFFFFF
        self.isolation_level: int = 0
        self.session_id: int = 0
        self.session_epoch: int = -1
        self.parts: list[FetchPart] = []
        self.forgotten: list[ForgottenPart] = []
        self.rack_id: str = ""


@final
class FetchedPart(TopicPart):
    """The answer for one partition. `records` are whole batches in log order, in as many buffers as they come in."""

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        aborted: list[tuple[int, int]] | None,
        records: list[Buffer],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted  # (producer id, first offset); None for readers of uncommitted records.
        self.records = records
        self.leader: LeaderHint | None = None  # Only beside an error.


def parse_fetch(frame: bytes, at: int, version: int) -> FetchRequest:
    """Read the body that begins at `at`. Raises WireError, whatever the bytes are."""
    reader = Reader(frame, at, len(frame))
    flexible = version >= FLEXIBLE_FROM
    request = FetchRequest()
    if version <= 14:
        request.replica_id = reader.int32()
    request.max_wait_ms = reader.int32()
    request.min_bytes = reader.int32()
    if version >= 3:
        request.max_bytes = reader.int32()
    if version >= 4:
        request.isolation_level = reader.int8()
    if version >= 7:
        request.session_id = reader.int32()
        request.session_epoch = reader.int32()
    for _ in range(reader.count(flexible, 3)):
        _parse_topic(reader, version, flexible, request.parts)
    if version >= 7:
        for _ in range(reader.count(flexible, 3)):
            _parse_forgotten(reader, version, flexible, request.forgotten)
    if version >= 11:
        request.rack_id = reader.text(reader.string_size(flexible))
    if flexible:
        reader.skip_tagged()
    return request


def _parse_topic(reader: Reader, version: int, flexible: bool, parts: list[FetchPart]) -> None:
    topic, topic_id = read_topic(reader, version, flexible)
    for _ in range(reader.count(flexible, 16)):
        partition = reader.int32()
        current_leader_epoch = reader.int32() if version >= 9 else -1
        fetch_offset = reader.int64()
        last_fetched_epoch = reader.int32() if version >= 12 else -1
        log_start_offset = reader.int64() if version >= 5 else -1
        max_bytes = reader.int32()
        parts.append(
            FetchPart(
                topic,
                topic_id,
                partition,
                current_leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                log_start_offset,
                max_bytes,
            )
        )
        if flexible:
            reader.skip_tagged()
    if flexible:
        reader.skip_tagged()


def _parse_forgotten(reader: Reader, version: int, flexible: bool, forgotten: list[ForgottenPart]) -> None:
    topic, topic_id = read_topic(reader, version, flexible)
    for _ in range(reader.count(flexible, 4)):
        forgotten.append(ForgottenPart(topic, topic_id, reader.int32()))
    if flexible:
        reader.skip_tagged()


def encode_fetch_response(
    correlation_id: int, version: int, throttle_ms: int, error_code: int, session_id: int, parts: list[FetchedPart]
) -> list[Buffer]:
    """The complete frame as a scatter list. Neighbouring parts of one topic share its entry."""
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if flexible:
        out.append(0)
    if version >= 1:
        out += _INT32.pack(throttle_ms)
    if version >= 7:
        out += _SESSION.pack(error_code, session_id)
    buffers: list[Buffer] = []
    total = 0  # Of what is in `buffers`.
    groups = by_topic(parts)
    write_count(out, len(groups), flexible)
    for group in groups:
        write_topic(out, group[0], len(group), version, flexible)
        for part in group:
            size = 0
            for piece in part.records:
                size += len(piece)
            _write_part(out, part, size, version, flexible)
            if size:
                total += len(out) + size
                buffers.append(bytes(out))
                buffers.extend(part.records)
                out = bytearray()
            if flexible:
                write_leader(out, _LEADER_TAG, part.leader)
        if flexible:
            out.append(0)
    if version >= LEADER_HINTS_FROM:
        write_endpoints(out, [part.leader for part in parts if part.leader is not None])
    elif flexible:
        out.append(0)
    total += len(out)
    if out:
        buffers.append(bytes(out))
    buffers[0] = _INT32.pack(total - 4) + buffers[0][4:]
    return buffers


def _write_part(out: bytearray, part: FetchedPart, records_size: int, version: int, flexible: bool) -> None:
    if version >= 5:
        out += _PART_5.pack(
            part.partition, part.error_code, part.high_watermark, part.last_stable_offset, part.log_start_offset
        )
    else:
        out += _PART_4.pack(part.partition, part.error_code, part.high_watermark, part.last_stable_offset)
    if part.aborted is None:
        write_count(out, -1, flexible)
    else:
        write_count(out, len(part.aborted), flexible)
        for producer_id, first_offset in part.aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += b"\xff\xff\xff\xff"  # No other replica is preferred.
    write_count(out, records_size, flexible)
