"""Methods and contents round-trip, and no bytes do more than raise MalformedTable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.amqp.handlers.table import HANDLERS
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import (
    BODY,
    END,
    FRAME_HEAD,
    FRAME_OVERHEAD,
    HEADER,
    METHOD,
    content_frames,
    decode_content_header,
    method_frame,
)
from longhall.doors.amqp.wire.methods import METHODS, decode_arguments, encode_arguments
from longhall.exchanges.field_table import MalformedTable, encode_table

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "o": st.integers(0, 255),
    "h": st.integers(0, (1 << 16) - 1),
    "l": st.integers(0, (1 << 32) - 1),
    "L": st.integers(0, (1 << 64) - 1),
    "s": st.text(max_size=60),
    "S": st.binary(max_size=60),
    "t": st.booleans(),
    "T": st.dictionaries(st.text(max_size=5), st.integers(-5, 5) | st.text(max_size=5), max_size=3).map(encode_table),
}


@given(st.sampled_from(sorted(METHODS)), st.data())
def test_every_method_round_trips(method: int, data: st.DataObject) -> None:
    form = METHODS[method].form
    arguments = [data.draw(_VALUES[letter]) for letter in form]
    raw = encode_arguments(form, arguments)
    assert decode_arguments(form, raw, 0, len(raw)) == arguments
    frame = method_frame(7, method, *arguments)
    assert FRAME_HEAD.unpack_from(frame) == (METHOD, 7, len(frame) - FRAME_OVERHEAD)
    assert frame.endswith(END)
    with pytest.raises(MalformedTable):
        decode_arguments(form, raw + b"x", 0, len(raw) + 1)


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=60))
def test_any_bytes_are_arguments_or_malformed(method: int, raw: bytes) -> None:
    try:
        decode_arguments(METHODS[method].form, raw, 0, len(raw))
    except MalformedTable:
        pass
    try:
        decode_content_header(raw)
    except MalformedTable:
        pass


@given(st.binary(max_size=300), st.integers(FRAME_OVERHEAD + 1, 100) | st.just(0))
def test_a_content_is_cut_into_frames(body: bytes, frame_max: int) -> None:
    data = content_frames(3, b"method", b"\0\0", body, frame_max)
    at = 0
    kinds: list[int] = []
    parts: list[bytes] = []
    while at < len(data):
        kind, channel, size = FRAME_HEAD.unpack_from(data, at)
        assert channel == 3
        assert data[at + 7 + size : at + 8 + size] == END
        kinds.append(kind)
        parts.append(data[at + 7 : at + 7 + size])
        at += 8 + size
    assert kinds[:2] == [METHOD, HEADER]
    assert set(kinds[2:]) <= {BODY}
    assert decode_content_header(parts[1]) == (60, len(body), b"\0\0")
    assert b"".join(parts[2:]) == body
    assert not frame_max or all(len(part) <= frame_max - FRAME_OVERHEAD for part in parts[2:])


def test_every_method_of_a_client_has_a_handler() -> None:
    """Those of channels, without their answers and without what only servers send."""
    sent_by_servers = {"basic.return", "basic.deliver", "basic.get_ok", "basic.get_empty"}
    expected = {
        number
        for number, method in METHODS.items()
        if number >> 16 not in (10,) and not method.name.endswith("_ok") and method.name not in sent_by_servers
    } - {methods.CHANNEL_OPEN}
    answers = {methods.CHANNEL_FLOW_OK, methods.CHANNEL_CLOSE_OK, methods.BASIC_CANCEL_OK}
    assert set(HANDLERS) == expected | answers
