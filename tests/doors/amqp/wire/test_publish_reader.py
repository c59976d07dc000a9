"""Contents that are read at once are those that the way frame by frame reads; everything else is left to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.doors.amqp.wire.frames import content_frames, decode_content_header, method_frame
from longhall.doors.amqp.wire.methods import (
    BASIC_ACK,
    BASIC_NACK,
    BASIC_PUBLISH,
    METHODS,
    decode_arguments,
    encode_arguments,
)
from longhall.doors.amqp.wire.publish_reader import ACK_FRAME_BYTES, PublishReader, read_ack
from longhall.exchanges.field_table import MalformedTable
from longhall.exchanges.properties import encode_stored

FRAME_MAX = 4096
BODY_MAX = 2000

_names = st.text(max_size=40)
_properties = st.sampled_from([b"\0\0", b"\x10\0\x02", b"\x80\0\x04text"])


def _frames(channel: int, exchange: str, key: str, flags: tuple[bool, bool], properties: bytes, body: bytes) -> bytes:
    arguments = encode_arguments(METHODS[BASIC_PUBLISH].form, [0, exchange, key, *flags])
    return content_frames(channel, BASIC_PUBLISH.to_bytes(4, "big") + arguments, properties, body, FRAME_MAX)


def _slowly(data: bytes, at: int) -> tuple[list[object], bytes, bytes, int] | None:
    """Arguments, properties, body and end of the content at `at`, frame by frame; None if it is not such a content."""
    payloads = []
    channels = set()
    for kind in (1, 2, 3):
        if at + 8 > len(data) or data[at] != kind:
            return None
        size = int.from_bytes(data[at + 3 : at + 7], "big")
        stop = at + 7 + size
        if size > FRAME_MAX or stop >= len(data) or data[stop] != 206:
            return None
        channels.add(data[at + 1 : at + 3])
        payloads.append(data[at + 7 : stop])
        at = stop + 1
    method, header, body = payloads
    if len(channels) > 1 or method[:4] != BASIC_PUBLISH.to_bytes(4, "big"):
        return None
    try:
        arguments = decode_arguments(METHODS[BASIC_PUBLISH].form, method, 4, len(method))
        class_id, size, properties = decode_content_header(header)
    except MalformedTable:
        return None
    if class_id != 60 or size != len(body) or not 0 < size <= BODY_MAX:
        return None
    return arguments, properties, body, at


def _assert_agrees(reader: PublishReader, data: bytes, at: int) -> int:
    expected = _slowly(data, at)
    stop = reader.read(data, at, FRAME_MAX)
    if expected is None:
        assert stop == 0
        return 0
    arguments, properties, body, end = expected
    address = reader.address
    assert address is not None
    assert stop == end
    assert [address.exchange, address.keys, address.is_mandatory, address.is_immediate] == [
        arguments[1],
        [arguments[2]],
        arguments[3],
        arguments[4],
    ]
    assert address.stored + reader.properties == encode_stored(address.exchange, address.keys[0], properties)
    assert reader.body == body
    return stop


@given(
    st.lists(
        st.tuples(
            st.integers(1, 300), _names, _names, st.tuples(st.booleans(), st.booleans()), _properties, st.binary()
        ),
        max_size=4,
    ),
    st.integers(0, 400),
)
def test_contents_are_read_one_after_the_other(
    contents: list[tuple[int, str, str, tuple[bool, bool], bytes, bytes]], missing: int
) -> None:
    data = b"".join(_frames(*content) for content in contents)
    data = data[: max(0, len(data) - missing)]
    reader = PublishReader(BODY_MAX)
    at = 0
    while (stop := _assert_agrees(reader, data, at)) != 0:
        at = stop


@given(st.integers(0, 80), st.integers(0, 255), _properties, st.binary(min_size=1, max_size=20))
def test_a_changed_byte_changes_what_is_read_in_both_ways(at: int, byte: int, properties: bytes, body: bytes) -> None:
    data = bytearray(_frames(7, "exchange", "key", (True, False), properties, body))
    data[at % len(data)] = byte
    _assert_agrees(PublishReader(BODY_MAX), bytes(data), 0)


def test_a_body_that_is_too_large_is_left_to_the_other_way() -> None:
    data = _frames(1, "", "queue", (False, False), b"\0\0", bytes(BODY_MAX + 1))
    assert PublishReader(BODY_MAX).read(data, 0, FRAME_MAX) == 0
    assert PublishReader(BODY_MAX + 1).read(data, 0, FRAME_MAX) == len(data)


@given(st.integers(0, (1 << 64) - 1), st.booleans())
def test_an_acknowledgement_is_its_tag(tag: int, multiple: bool) -> None:
    frame = method_frame(3, BASIC_ACK, tag, multiple)
    assert len(frame) == ACK_FRAME_BYTES
    expected = 0 if tag >= 1 << 63 else -1 - tag if multiple else tag
    assert read_ack(b"before" + frame, 6) == expected
    assert read_ack(frame[:-1], 0) == 0
    assert read_ack(frame[:-1] + b"\0", 0) == 0
    assert read_ack(method_frame(3, BASIC_NACK, tag, multiple, False), 0) == 0
