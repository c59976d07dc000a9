"""Fetch by hand against Fetch by table."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.doors.kafka.wire.apis import decode_response, encode_request
from longhall.doors.kafka.wire.fetch import Buffer, FetchedPart, encode_fetch_response, parse_fetch
from longhall.doors.kafka.wire.headers import decode_request_header
from longhall.doors.kafka.wire.leader_hints import LeaderHint
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.schema import encode
from tests.doors.kafka.wire.samples import sample
from tests.examples import examples

VERSIONS = range(4, 19)
versions = st.sampled_from(VERSIONS)
int64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=examples(200), deadline=None)
@given(versions, st.randoms(use_true_random=False))
def test_requests_are_read_as_the_table_reads_them(version: int, random: Random) -> None:
    message: data.FetchRequest = sample(data.FetchRequest, version, random)
    frame = encode_request(7, None, version, message)[4:]
    request = parse_fetch(frame, decode_request_header(frame).at, version)
    assert request.replica_id == message.replica_id
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
    )
    assert (request.isolation_level, request.session_id, request.session_epoch, request.rack_id) == (
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        message.rack_id,
    )
    assert [_fields(part) for part in request.parts] == [
        (topic.topic, topic.topic_id, part.partition, part.current_leader_epoch, part.fetch_offset,
         part.last_fetched_epoch, part.log_start_offset, part.partition_max_bytes)
        for topic in message.topics for part in topic.partitions
    ]  # fmt: skip
    assert [(part.topic, part.topic_id or bytes(16), part.partition) for part in request.forgotten] == [
        (topic.topic, topic.topic_id, index) for topic in message.forgotten_topics_data for index in topic.partitions
    ]


def _fields(part: object) -> tuple[object, ...]:
    names = ("topic", "topic_id", "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch",
             "log_start_offset", "partition_max_bytes")  # fmt: skip
    values = [getattr(part, name) for name in names]
    values[1] = values[1] or bytes(16)
    return tuple(values)


@st.composite
def fetched_parts(draw: st.DrawFn) -> list[FetchedPart]:
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        topic = draw(st.sampled_from(("a", "täglich", "x" * 200)))
        pieces = draw(st.lists(st.binary(max_size=200), max_size=3))
        records: list[Buffer] = [memoryview(b) if draw(st.booleans()) else b for b in pieces]
        aborted = draw(st.none() | st.lists(st.tuples(int64, int64), max_size=3))
        part = FetchedPart(
            topic, topic.encode()[:1] * 16, draw(st.integers(0, 99)), draw(st.integers(-1, 120)), draw(int64),
            draw(int64), draw(int64), aborted, records,
        )  # fmt: skip
        part.leader = draw(st.none() | st.builds(LeaderHint, st.integers(0, 3), st.integers(0, 9), st.just("a"),
                                                 st.integers(0, 9), st.sampled_from((None, "east"))))  # fmt: skip
        parts.append(part)
    return parts


@settings(max_examples=examples(300), deadline=None)
@given(versions, fetched_parts(), st.integers(0, 100), st.integers(0, 2**31 - 1))
def test_answers_are_written_as_the_table_writes_them(
    version: int, parts: list[FetchedPart], error_code: int, session_id: int
) -> None:
    buffers = encode_fetch_response(99, version, 5, error_code, session_id, parts)
    for part in parts:
        for piece in part.records:
            if any(part.records):
                assert any(piece is buffer for buffer in buffers), "record data is not copied"
    frame = b"".join(buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, message = decode_response(1, version, frame[4:])
    assert correlation_id == 99
    assert isinstance(message, data.FetchResponse)
    assert frame.endswith(encode(message, version))
    assert message.throttle_time_ms == 5
    assert (message.error_code, message.session_id) == ((error_code, session_id) if version >= 7 else (0, 0))
    answers = [(topic, part) for topic in message.responses for part in topic.partitions]
    assert len(answers) == len(parts)
    for (topic, answer), part in zip(answers, parts, strict=True):
        assert (topic.topic, topic.topic_id) == ((part.topic, bytes(16)) if version < 13 else ("", part.topic_id))
        assert (answer.partition_index, answer.error_code) == (part.partition, part.error_code)
        assert (answer.high_watermark, answer.last_stable_offset) == (part.high_watermark, part.last_stable_offset)
        assert answer.log_start_offset == (part.log_start_offset if version >= 5 else -1)
        assert answer.preferred_read_replica == -1
        assert answer.records == b"".join(part.records)
        hint, leader = (part.leader if version >= 12 else None), answer.current_leader
        assert (leader.leader_id, leader.leader_epoch) == ((hint.node_id, hint.epoch) if hint is not None else (-1, -1))
        aborted = answer.aborted_transactions
        assert part.aborted == (None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted])
    hints = {part.leader.node_id: part.leader for part in parts if part.leader is not None and version >= 16}
    assert [(broker.node_id, broker.host, broker.port, broker.rack) for broker in message.node_endpoints] == [
        (hint.node_id, hint.host, hint.port, hint.rack) for hint in hints.values()
    ]


@settings(max_examples=examples(200), deadline=None)
@given(versions, st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(version: int, buffer: bytes) -> None:
    try:
        parse_fetch(buffer, 0, version)
    except WireError:
        pass


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_refused(version: int) -> None:
    message: data.FetchRequest = sample(data.FetchRequest, version, Random(3))
    body = encode(message, version)
    for size in range(len(body)):
        with pytest.raises(WireError):
            parse_fetch(body[:size], 0, version)
