"""Produce by hand against Produce by table."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.doors.kafka.wire.apis import decode_response, encode_request
from longhall.doors.kafka.wire.headers import decode_request_header
from longhall.doors.kafka.wire.leader_hints import LeaderHint
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.produce import ProducePart, encode_produce_response, parse_produce
from longhall.doors.kafka.wire.schema import encode
from tests.doors.kafka.wire.samples import sample
from tests.examples import examples

VERSIONS = range(14)
versions = st.sampled_from(VERSIONS)


@settings(max_examples=examples(200), deadline=None)
@given(versions, st.randoms(use_true_random=False))
def test_requests_are_read_as_the_table_reads_them(version: int, random: Random) -> None:
    message: data.ProduceRequest = sample(data.ProduceRequest, version, random)
    frame = encode_request(7, "client", version, message)[4:]
    header = decode_request_header(frame)
    assert (header.api_key, header.version, header.correlation_id, header.client_id) == (0, version, 7, "client")

    request = parse_produce(frame, header.at, version)
    assert request.transactional_id == message.transactional_id
    assert (request.acks, request.timeout_ms) == (message.acks, message.timeout_ms)
    seen = [(part.topic, part.topic_id or bytes(16), part.partition, _records(frame, part)) for part in request.parts]
    assert seen == [
        (topic.name, topic.topic_id, part.index, part.records)
        for topic in message.topic_data
        for part in topic.partition_data
    ]


def _records(frame: bytes, part: ProducePart) -> bytes | None:
    return None if part.records_size < 0 else frame[part.records_at : part.records_at + part.records_size]


leader_hints = st.builds(
    LeaderHint,
    st.integers(0, 3),
    st.integers(0, 2**31 - 1),
    st.sampled_from(("127.0.0.1", "a.example")),
    st.integers(0, 2**16 - 1),
    st.sampled_from((None, "east")),
)


@st.composite
def answered_parts(draw: st.DrawFn) -> list[ProducePart]:
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        topic = draw(st.sampled_from(("a", "täglich", "x" * 200)))
        part = ProducePart(topic, topic.encode()[:1] * 16, draw(st.integers(0, 99)), 0, 0)
        part.error_code = draw(st.integers(-1, 120))
        part.base_offset = draw(st.integers(-1, 2**63 - 1))
        part.log_append_time_ms = draw(st.integers(-1, 2**50))
        part.log_start_offset = draw(st.integers(-1, 2**63 - 1))
        part.error_message = draw(st.sampled_from((None, None, "", "no", "nö" * 100)))
        if part.error_code:
            part.record_errors = draw(
                st.none() | st.lists(st.tuples(st.integers(0, 9), st.text(max_size=9)), max_size=3)
            )
            part.leader = draw(st.none() | leader_hints)
        parts.append(part)
    return parts


@settings(max_examples=examples(300), deadline=None)
@given(versions, answered_parts(), st.integers(0, 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_answers_are_written_as_the_table_writes_them(
    version: int, parts: list[ProducePart], throttle_ms: int, correlation_id: int
) -> None:
    frame = encode_produce_response(correlation_id, version, parts, throttle_ms)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    back, message = decode_response(0, version, frame[4:])
    assert back == correlation_id
    assert isinstance(message, data.ProduceResponse)
    assert frame.endswith(encode(message, version))
    assert message.throttle_time_ms == (throttle_ms if version >= 1 else 0)
    answers = [(topic.name, topic.topic_id, part) for topic in message.responses for part in topic.partition_responses]
    assert len(answers) == len(parts)
    for (name, topic_id, answer), part in zip(answers, parts, strict=True):
        assert (name, topic_id) == ((part.topic, bytes(16)) if version < 13 else ("", part.topic_id))
        assert (answer.index, answer.error_code, answer.base_offset) == (
            part.partition,
            part.error_code,
            part.base_offset,
        )
        assert answer.log_append_time_ms == (part.log_append_time_ms if version >= 2 else -1)
        assert answer.log_start_offset == (part.log_start_offset if version >= 5 else -1)
        assert answer.error_message == (part.error_message if version >= 8 else None)
        errors = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
        assert errors == ((part.record_errors or []) if version >= 8 else [])
        hint = part.leader if version >= 10 else None
        leader = answer.current_leader
        assert (leader.leader_id, leader.leader_epoch) == ((hint.node_id, hint.epoch) if hint is not None else (-1, -1))
    hints = {part.leader.node_id: part.leader for part in parts if part.leader is not None and version >= 10}
    assert [(broker.node_id, broker.host, broker.port, broker.rack) for broker in message.node_endpoints] == [
        (hint.node_id, hint.host, hint.port, hint.rack) for hint in hints.values()
    ]


@settings(max_examples=examples(200), deadline=None)
@given(versions, st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(version: int, buffer: bytes) -> None:
    try:
        request = parse_produce(buffer, 0, version)
    except WireError:
        return
    for part in request.parts:
        assert part.records_size < 0 or part.records_at + part.records_size <= len(buffer)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_refused(version: int) -> None:
    message: data.ProduceRequest = sample(data.ProduceRequest, version, Random(3))
    body = encode(message, version)
    for size in range(len(body)):
        with pytest.raises(WireError):
            parse_produce(body[:size], 0, version)


def test_a_long_error_message_is_cut_between_characters() -> None:
    part = ProducePart("t", b"", 0, 0, 0)
    part.error_message = "é" * 30_000
    _, message = decode_response(0, 9, encode_produce_response(1, 9, [part])[4:])
    assert isinstance(message, data.ProduceResponse)
    assert message.responses[0].partition_responses[0].error_message == "é" * 16_383
