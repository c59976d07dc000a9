"""Which characters the service takes: the quick check against the definition."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.sqs.text import decode, encode, needs_no_check
from longhall.doors.sqs.wire.xml import is_legal


@given(
    st.text(st.characters(codec=None) | st.sampled_from("\x00\x08\x0b\x0c\x1f\x7f\ud800\udfff\ufffe\uffff\U0001ffff"))
)
def test_text_is_taken_if_each_of_its_characters_is(text: str) -> None:
    encoded = encode(text)
    assert (encoded is not None) == all(is_legal(character) for character in text)
    if encoded is not None:
        assert decode(encoded) == text


@given(st.binary())
def test_bytes_are_text_if_they_say_so(data: bytes) -> None:
    text = decode(data)
    if text is not None:
        assert encode(text) == data


@pytest.mark.parametrize("code", [0x9, 0xA, 0xD, 0x20, 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x10FFFF])
def test_the_edges_are_inside(code: int) -> None:
    assert encode(chr(code)) is not None


@pytest.mark.parametrize("code", [0x0, 0x8, 0xB, 0xC, 0xE, 0x1F, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF])
def test_what_lies_beyond_is_not(code: int) -> None:
    assert encode(chr(code)) is None


@given(
    st.text(st.characters(codec=None) | st.sampled_from("\x00\x08\x0b\x0c\x1f\x7f\ud800\udfff\ufffe\uffff")),
    st.booleans(),
)
def test_a_request_that_needs_no_check_has_only_allowed_text(text: str, escaped: bool) -> None:
    request = json.dumps({"MessageBody": text}, ensure_ascii=escaped).encode(errors="surrogatepass")
    if needs_no_check(request):
        assert all(is_legal(character) for character in text)
    assert needs_no_check(json.dumps({"MessageBody": "plain text"}).encode())


@given(st.sampled_from([chr(code) for code in range(0x20)]))
def test_a_raw_control_character_is_refused_by_the_decoder(character: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b'"' + character.encode() + b'"')
