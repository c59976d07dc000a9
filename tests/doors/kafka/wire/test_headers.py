"""Headers of requests and responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.kafka.wire.apis import API, decode_request, decode_response, encode_request, encode_response
from longhall.doors.kafka.wire.headers import API_VERSIONS, decode_request_header, decode_response_header, frame_request
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.messages.versions import ApiVersionsRequest, ApiVersionsResponse


@pytest.mark.parametrize("api", API.values(), ids=lambda api: api.name)
def test_headers_of_every_version_come_back(api: object) -> None:
    assert isinstance(api, tuple)
    row = API[api[0]]
    for version in range(row.version_min, row.version_max + 1):
        frame = encode_request(41, "näme", version, row.request())
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header = decode_request_header(frame[4:])
        assert (header.api_key, header.version) == (row.key, version)
        assert (header.correlation_id, header.client_id) == (41, "näme")
        assert decode_request(row.key, version, frame[4:], header.at) == row.request()
        answer = encode_response(41, row.key, version, row.response())
        assert decode_response(row.key, version, answer[4:]) == (41, row.response())


def test_a_client_without_a_name_has_none() -> None:
    assert decode_request_header(encode_request(1, None, 0, ApiVersionsRequest())[4:]).client_id is None


def test_the_answer_to_api_versions_has_the_oldest_header() -> None:
    answer = encode_response(5, API_VERSIONS, 3, ApiVersionsResponse(error_code=35))
    assert answer[4:10] == b"\0\0\0\x05\0\x23"
    assert decode_response_header(answer[4:], API_VERSIONS, 3) == (5, 4)


def test_an_unknown_api_still_has_a_readable_header() -> None:
    header = decode_request_header(frame_request(9999, 1, 3, "x", b"body")[4:])
    assert (header.api_key, header.correlation_id) == (9999, 3)
    with pytest.raises(WireError, match="no codec"):
        decode_request(9999, 1, b"", 0)
    with pytest.raises(WireError, match="no codec"):
        decode_request(API_VERSIONS, 77, b"", 0)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(frame: bytes) -> None:
    try:
        header = decode_request_header(frame)
    except WireError:
        return
    assert header.at <= len(frame)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(WireError):
        encode_request(1, "x" * 40_000, 0, ApiVersionsRequest())
