"""WebSocket frames: round trips in pieces, the rules of RFC 6455, and the close code of each broken rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.front.websocket import (
    BINARY,
    CLOSE,
    INVALID_DATA,
    PING,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    WebSocketDecoder,
    WebSocketError,
    accept_of,
    close_code,
    encode_close,
    encode_frame,
    unmasked,
)

MASK = b"\1\2\3\4"
_OPCODES = st.sampled_from([BINARY, PING])


def _fragment(opcode: int, payload: bytes, last: bool) -> bytes:
    frame = bytearray(encode_frame(opcode, payload, MASK))
    if not last:
        frame[0] &= 0x7F
    return bytes(frame)


@given(
    st.lists(st.tuples(_OPCODES, st.binary(max_size=125)), max_size=5),
    st.binary(min_size=4, max_size=4),
    st.integers(1, 50),
)
def test_frames_come_back_in_pieces_of_any_size(frames: list[tuple[int, bytes]], mask: bytes, size: int) -> None:
    data = b"".join(encode_frame(opcode, payload, mask) for opcode, payload in frames)
    decoder = WebSocketDecoder(1000)
    found = []
    for at in range(0, len(data), size):
        found += decoder.feed(data[at : at + size])
    pings = [payload for opcode, payload in frames if opcode == PING]
    assert [payload for opcode, payload in found if opcode == PING] == pings
    sent = b"".join(payload for opcode, payload in frames if opcode == BINARY)
    assert b"".join(payload for opcode, payload in found if opcode == BINARY) == sent
    assert decoder.held_bytes == 0


def test_a_payload_is_passed_on_as_it_arrives() -> None:
    payload = bytes(range(256)) * 4096
    data = encode_frame(BINARY, payload, MASK)
    decoder = WebSocketDecoder(1 << 20)
    passed = b""
    for at in range(0, len(data), 1001):
        passed += b"".join(piece for _, piece in decoder.feed(data[at : at + 1001]))
        assert decoder.held_bytes == 0
        assert len(passed) >= min(at + 1001, len(data)) - 14  # The longest head.
    assert passed == payload


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 200_000])
def test_every_form_of_length(size: int) -> None:
    payload = b"x" * size
    assert WebSocketDecoder(1 << 20).feed(encode_frame(BINARY, payload, MASK)) == [(BINARY, payload)]


@given(st.binary(max_size=40), st.binary(min_size=4, max_size=4))
def test_a_mask_is_its_own_inverse(payload: bytes, mask: bytes) -> None:
    assert unmasked(unmasked(payload, mask), mask) == payload


def test_a_message_in_fragments_with_a_ping_between() -> None:
    text = "häl".encode()
    data = _fragment(TEXT, text[:2], False) + encode_frame(PING, b"p", MASK) + _fragment(0, text[2:], True)
    assert WebSocketDecoder(100).feed(data) == [(TEXT, text[:2]), (PING, b"p"), (TEXT, text[2:])]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (encode_frame(TEXT, b"not masked"), PROTOCOL_ERROR),
        (bytes([0xC1, 0x80]), PROTOCOL_ERROR),  # A reserved bit.
        (bytes([0x83, 0x80]), PROTOCOL_ERROR),  # Unknown opcodes.
        (bytes([0x8B, 0x80]), PROTOCOL_ERROR),
        (bytes([0x09, 0x80]), PROTOCOL_ERROR),  # A ping in fragments.
        (bytes([0x89, 0xFE]), PROTOCOL_ERROR),  # A ping that is too long.
        (_fragment(0, b"x", True), PROTOCOL_ERROR),  # A continuation of nothing.
        (_fragment(TEXT, b"x", False) + _fragment(TEXT, b"y", True), PROTOCOL_ERROR),
        (bytes([0x82, 0xFE, 0, 5]) + MASK + b"abcde", PROTOCOL_ERROR),  # A length that could be shorter.
        (bytes([0x82, 0xFF]) + (5).to_bytes(8, "big") + MASK + b"abcde", PROTOCOL_ERROR),
        (encode_frame(TEXT, b"\xff", MASK), INVALID_DATA),
        (_fragment(TEXT, b"\xc3", True), INVALID_DATA),  # Cut off inside a character.
        (encode_frame(BINARY, bytes(101), MASK), TOO_BIG),
        (_fragment(BINARY, bytes(60), False) + _fragment(0, bytes(60), True), TOO_BIG),
        (bytes([0x82, 0xFF]) + (1 << 62).to_bytes(8, "big"), TOO_BIG),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_code(data: bytes, code: int) -> None:
    with pytest.raises(WebSocketError) as caught:
        WebSocketDecoder(100).feed(data)
    assert caught.value.code == code


def test_close_frames() -> None:
    assert close_code(b"") == 1005
    assert close_code(encode_close(1000, "bye")[2:]) == 1000
    for payload in (b"\3", (999).to_bytes(2, "big"), (1005).to_bytes(2, "big"), (2000).to_bytes(2, "big")):
        with pytest.raises(WebSocketError):
            close_code(payload)
    assert len(encode_close(1002, "ü" * 200)) <= 2 + 125
    assert WebSocketDecoder(10).feed(encode_frame(CLOSE, b"", MASK)) == [(CLOSE, b"")]


def test_the_answer_to_a_key_is_that_of_the_specification() -> None:
    assert accept_of(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert accept_of(b"short") is None
    assert accept_of(b"") is None
