"""Frames: the units in which AMQP 0-9-1 sends methods and contents.

octet   type: 1 method, 2 content header, 3 content body, 8 heartbeat
short   channel
long    size of the payload
...     payload
octet   206, the end of the frame

content header    short (class), short (0), long long (body size), property list
content           a method frame, a header frame, and body frames of at most frame_max - 8 bytes each
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from longhall.doors.amqp.wire.methods import BASIC_CLASS, METHODS, encode_arguments
from longhall.exchanges.field_table import MalformedTable

PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 206
END: Final = b"\xce"
FRAME_OVERHEAD: Final = 8
HEARTBEAT_FRAME: Final = b"\x08\0\0\0\0\0\0\xce"

FRAME_HEAD: Final = Struct(">BHI")
_CONTENT_HEAD: Final = Struct(">HHQ")
# The end of the frame before, then the beginning of a content header and of a body.
_HEADER_HEAD: Final = Struct(">BBHIHHQ")
_BODY_HEAD: Final = Struct(">BBHI")


def method_frame(channel: int, method: int, *arguments: Any) -> bytes:
    """The frame of a method."""
    payload = method.to_bytes(4, "big") + encode_arguments(METHODS[method].form, list(arguments))
    return FRAME_HEAD.pack(METHOD, channel, len(payload)) + payload + END


def content_frames(channel: int, payload: bytes, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """The frames of a method whose payload is given, with its content."""
    parts: list[bytes] = []
    append_content(parts, channel, payload, properties, body, frame_max)
    return b"".join(parts)


def append_content(
    parts: list[bytes], channel: int, payload: bytes, properties: bytes, body: bytes, frame_max: int
) -> None:
    """Append these frames to others, as parts to be joined."""
    size = len(body)
    parts.append(FRAME_HEAD.pack(METHOD, channel, len(payload)))
    parts.append(payload)
    parts.append(_HEADER_HEAD.pack(FRAME_END, HEADER, channel, 12 + len(properties), BASIC_CLASS, 0, size))
    parts.append(properties)
    most = frame_max - FRAME_OVERHEAD if frame_max else size
    if 0 < size <= most:
        parts.append(_BODY_HEAD.pack(FRAME_END, BODY, channel, size))
        parts.append(body)
    else:
        for at in range(0, size, most or 1):
            piece = body[at : at + most]
            parts.append(_BODY_HEAD.pack(FRAME_END, BODY, channel, len(piece)))
            parts.append(piece)
    parts.append(END)


def decode_content_header(payload: bytes) -> tuple[int, int, bytes]:
    """Class, body size and property list of a content header. Raises MalformedTable."""
    if len(payload) < 14:
        raise MalformedTable("a content header is cut off")
    class_id, _, size = _CONTENT_HEAD.unpack_from(payload, 0)
    return class_id, size, payload[12:]
