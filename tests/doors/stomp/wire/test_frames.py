"""STOMP frames: what is encoded is decoded, in pieces of any size, and what is malformed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.stomp.wire.frames import (
    FRAME_BYTES_MAX,
    HEADERS_MAX,
    V1_0,
    V1_1,
    V1_2,
    FrameDecoder,
    MalformedFrame,
    StompFrame,
    encode_frame,
    escape,
    unescape,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
_PLAIN = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=":"), min_size=1, max_size=20)
_HEADERS = st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=6)


def _decoder(version: str) -> FrameDecoder:
    decoder = FrameDecoder(FRAME_BYTES_MAX)
    decoder.version = version
    return decoder


def _all(decoder: FrameDecoder) -> list[StompFrame]:
    found = []
    while (frame := decoder.next()) is not None:
        found.append(frame)
    return found


@given(st.lists(st.tuples(_HEADERS, st.binary(max_size=60)), max_size=4), st.integers(1, 40))
def test_frames_of_1_2_come_back_in_pieces_of_any_size(frames: list[tuple[dict[str, str], bytes]], size: int) -> None:
    data = b""
    for headers, body in frames:
        headers = {"content-length": str(len(body)), **{name: headers[name] for name in headers}}
        headers["content-length"] = str(len(body))
        data += encode_frame("SEND", list(headers.items()), body, V1_2)
    decoder = _decoder(V1_2)
    found = []
    for at in range(0, len(data), size):
        decoder.feed(data[at : at + size])
        found += _all(decoder)
    assert [(frame.command, frame.body) for frame in found] == [("SEND", body) for _, body in frames]
    for frame, (headers, _) in zip(found, frames, strict=True):
        assert {name: frame.headers[name] for name in headers if name != "content-length"} == {
            name: value for name, value in headers.items() if name != "content-length"
        }
    assert decoder.held_bytes <= 1  # The line feed behind the last NUL.


@given(_TEXT, st.sampled_from([V1_1, V1_2]))
def test_escapes_come_back(text: str, version: str) -> None:
    assert unescape(escape(text, version), version) == text


@given(st.dictionaries(_PLAIN, _PLAIN, max_size=4), st.binary(max_size=30))
def test_frames_of_1_0_come_back(headers: dict[str, str], body: bytes) -> None:
    headers = {**headers, "content-length": str(len(body))}
    decoder = _decoder(V1_0)
    decoder.feed(encode_frame("MESSAGE", list(headers.items()), body, V1_0))
    frame = decoder.next()
    assert frame is not None
    assert (frame.headers, frame.body) == (headers, body)


@given(st.dictionaries(_TEXT.filter(lambda name: name.replace(":", "_").strip()), _TEXT, max_size=6))
def test_no_header_of_1_0_breaks_the_frame(headers: dict[str, str]) -> None:
    decoder = _decoder(V1_0)
    decoder.feed(encode_frame("MESSAGE", list(headers.items()), b"body", V1_0) + b"NEXT\n\n\0")
    assert [frame.command for frame in _all(decoder)] == ["MESSAGE", "NEXT"]


def test_lines_heart_beats_and_repeated_headers() -> None:
    decoder = _decoder(V1_2)
    decoder.feed(b"\n\r\n\nSEND\r\na:1\r\na:2\r\n\r\nbody\0\r\n\nACK\nid: x \n\n\0\n")
    first, second = _all(decoder)
    assert (first.command, first.headers, first.body) == ("SEND", {"a": "1"}, b"body")
    assert (second.command, second.headers) == ("ACK", {"id": " x "})


def test_each_version_has_its_own_escapes() -> None:
    head = b"SEND\na\\c:\\n\\\\\\c\n\n\0"
    for version, wanted in ((V1_0, {"a\\c": "\\n\\\\\\c"}), (V1_1, {"a:": "\n\\:"}), (V1_2, {"a:": "\n\\:"})):
        decoder = _decoder(version)
        decoder.feed(head)
        frame = decoder.next()
        assert frame is not None
        assert frame.headers == wanted
    decoder = _decoder(V1_2)
    decoder.feed(b"CONNECT\npasscode:a\\b\n\n\0")  # Never escaped.
    frame = decoder.next()
    assert frame is not None
    assert frame.headers == {"passcode": "a\\b"}


def test_1_0_ignores_spaces() -> None:
    decoder = _decoder(V1_0)
    decoder.feed(b"SEND \ndestination : /queue/a\n\nx\0")
    frame = decoder.next()
    assert frame is not None
    assert (frame.command, frame.headers) == ("SEND", {"destination": "/queue/a"})


@pytest.mark.parametrize(
    ("version", "data", "why"),
    [
        (V1_2, b"SEND\nno colon\n\n\0", "no colon"),
        (V1_2, b"SEND\n:value\n\n\0", "no name"),
        (V1_2, b"SEND\na:\\t\n\n\0", "no escape"),
        (V1_1, b"SEND\na:\\r\n\n\0", "no escape of STOMP 1.1"),
        (V1_2, b"SEND\na:\xff\n\n\0", "UTF-8"),
        (V1_2, b"SEND\ncontent-length:x\n\n\0", "content-length"),
        (V1_2, b"SEND\ncontent-length:-1\n\n\0", "content-length"),
        (V1_2, b"SEND\ncontent-length:3\n\nabcd\0", "no NUL"),
        (V1_2, b"SEND\ncontent-length:99999999\n\n", "more than"),
        (V1_2, b"SEND\n" + b"a:b\n" * (HEADERS_MAX + 1) + b"\n\0", "headers"),
        (V1_2, b"SEND\na:" + b"b" * 70_000, "headers of a frame have more"),
    ],
)
def test_malformed_frames_are_refused(version: str, data: bytes, why: str) -> None:
    decoder = _decoder(version)
    decoder.feed(data + b"\n\n\0" if data == b"\0" else data)
    with pytest.raises(MalformedFrame, match=why):
        _all(decoder)


def test_a_frame_has_a_bound_before_and_after_the_login() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"SEND\n\n" + bytes(b"x" * 70_000))
    with pytest.raises(MalformedFrame, match="more than 65536 bytes"):
        decoder.next()
    decoder = FrameDecoder(FRAME_BYTES_MAX)
    decoder.feed(b"SEND\n\n" + b"x" * FRAME_BYTES_MAX)
    with pytest.raises(MalformedFrame, match="more than 4194304 bytes"):
        decoder.next()


def test_a_body_in_small_pieces_is_joined_once_and_counted_as_it_arrives() -> None:
    decoder = FrameDecoder(1 << 20)
    body = bytes(500_000)
    for head, end in ((b"SEND\ncontent-length:500000\n\n", b"\0"), (b"SEND\n\n", b"\0NEXT\n\n\0")):
        sent = head + (body if b"content-length" in head else b"x" * len(body))
        for at in range(0, len(sent), 1000):
            decoder.feed(sent[at : at + 1000])
            assert decoder.next() is None
            assert decoder.held_bytes == min(at + 1000, len(sent))
        decoder.feed(end)
        frame = decoder.next()
        assert frame is not None
        assert len(frame.body) == len(body)
    following = decoder.next()
    assert following is not None
    assert following.command == "NEXT"
    assert decoder.held_bytes == 0


def test_nulls_between_frames_are_left_out() -> None:
    decoder = _decoder(V1_1)
    decoder.feed(b"\n\0SEND\na:1\n\nx\0\n\0\0\nSEND\n\n\0")
    assert [(frame.command, frame.body) for frame in _all(decoder)] == [("SEND", b"x"), ("SEND", b"")]
