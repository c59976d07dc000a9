"""Answers read in place are what the table of the wire reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.schema import encode
from longhall.pipeline.fetch_response import read_fetch_response

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    st.integers(12, 18),
    st.integers(-1, 120),
    INT64,
    INT64,
    st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
    st.none() | st.binary(max_size=300),
)
def test_an_answer_read_in_place(
    version: int,
    error_code: int,
    last_stable: int,
    log_start: int,
    aborted: list[tuple[int, int]] | None,
    records: bytes | None,
) -> None:
    gone = None
    if aborted is not None:
        gone = [data.FetchResponseAbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted]
    part = data.FetchResponsePartition(
        partition_index=3,
        error_code=error_code,
        high_watermark=7,
        last_stable_offset=last_stable,
        log_start_offset=log_start,
        aborted_transactions=gone,
        records=records,
    )
    topic = data.FetchResponseTopic(topic="t", topic_id=bytes(range(16)), partitions=[part])
    frame = b"\0\0" + encode(data.FetchResponse(responses=[topic]), version)
    answer = read_fetch_response(frame, 2, version)
    assert (answer.error_code, answer.last_stable_offset, answer.log_start_offset) == (
        error_code,
        last_stable,
        log_start,
    )
    assert answer.aborted == (aborted or [])
    assert frame[answer.begin : answer.end] == (records or b"")


def test_an_answer_that_is_an_error_as_a_whole() -> None:
    frame = encode(data.FetchResponse(error_code=87, responses=[]), 13)
    assert read_fetch_response(frame, 0, 13).error_code == 87
    with pytest.raises(WireError):
        read_fetch_response(frame[:3], 0, 13)
