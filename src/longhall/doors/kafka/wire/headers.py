"""The headers of requests and responses.

    request    size int32 | api int16, version int16, correlation int32, client string | tagged, if flexible | body
    response   size int32 | correlation int32                                          | tagged, if flexible | body

The client's name always has the old encoding. The response to ApiVersions never has tagged fields in its header, since
the client does not know yet which versions this side has. This module knows keys and the version from which each API is
flexible; it does not know messages.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, final

from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.reader import Reader

API_VERSIONS: Final = 18
NEVER: Final = 1 << 15
FLEXIBLE_FROM: Final[dict[int, int]] = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: NEVER, 18: 3, 19: 5,
    20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4,
    33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 42: 2,
    43: 2, 44: 1, 45: 0, 46: 0, 47: NEVER, 48: 1, 49: 1, 50: 0, 51: 0, 55: 0, 60: 0, 61: 0, 65: 0, 66: 0, 68: 0, 69: 0,
    74: 0, 75: 0, 76: 0, 77: 0, 78: 0, 79: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip

_SIZE_AND_CORRELATION: Final = Struct(">ii")
_REQUEST: Final = Struct(">hhi")


@final
class RequestHeader:
    """The header of a request; `at` is the position of the body."""

    def __init__(self, api_key: int, version: int, correlation_id: int, client_id: str | None, at: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.at = at


def is_flexible(api_key: int, version: int) -> bool:
    return version >= FLEXIBLE_FROM.get(api_key, NEVER)


def decode_request_header(frame: bytes, at: int = 0) -> RequestHeader:
    """Read the header of a frame without its size. Keys and versions are not judged here."""
    reader = Reader(frame, at, len(frame))
    api_key = reader.int16()
    version = reader.int16()
    correlation_id = reader.int32()
    size = reader.int16()
    client_id = reader.text(size) if size >= 0 else None
    if is_flexible(api_key, version):
        reader.skip_tagged()
    return RequestHeader(api_key, version, correlation_id, client_id, reader.at)


def decode_response_header(frame: bytes, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id of a frame without its size, and where the body begins."""
    reader = Reader(frame, 0, len(frame))
    correlation_id = reader.int32()
    if is_flexible(api_key, version) and api_key != API_VERSIONS:
        reader.skip_tagged()
    return correlation_id, reader.at


def frame_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A complete response: size, header, body."""
    if is_flexible(api_key, version) and api_key != API_VERSIONS:
        return _SIZE_AND_CORRELATION.pack(len(body) + 5, correlation_id) + b"\0" + body
    return _SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body


def frame_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """A complete request: size, header, body."""
    out = bytearray(_REQUEST.pack(api_key, version, correlation_id))
    if client_id is None:
        out += b"\xff\xff"
    else:
        name = client_id.encode()
        if len(name) > 0x7FFF:
            raise WireError("The client's name is longer than the protocol allows.")
        out += len(name).to_bytes(2, "big") + name
    if is_flexible(api_key, version):
        out.append(0)
    return (len(out) + len(body)).to_bytes(4, "big") + bytes(out) + body
