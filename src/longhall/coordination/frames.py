"""Frames between a worker and the process that serves the coordination tree.

    0  u32  size of the body        4  body: msgpack, one `Request` or one `Reply`

The first frame of a connection is a request `hello` with the token that the server gave its workers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, final

import msgspec

from longhall.coordination.ports import Conflict, CoordinationError, Expired, OutcomeUnknown
from longhall.coordination.tree import Node, Operation

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
FIRED: Final = 0  # The number of a reply to no request: a watch fired.

_SIZE: Final = struct.Struct(">I")
_ERRORS: Final[dict[str, type[CoordinationError]]] = {
    "conflict": Conflict,
    "unknown": OutcomeUnknown,
    "expired": Expired,
    "": CoordinationError,
}


class Request(msgspec.Struct, frozen=True):
    """One call of a tree. Numbers count up from 1. A watch has the number of the request that set it."""

    number: int
    verb: str
    path: str = ""
    watch: bool = False
    operations: list[Operation] = []
    token: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """The reply to the request with this number; which fields are set depends on the verb."""

    number: int
    node: Node | None = None
    names: list[str] = []
    versions: list[int] = []
    session: int = 0
    watch: int = 0
    error: str | None = None
    message: str = ""


_requests: Final = msgspec.msgpack.Decoder(Request)
_replies: Final = msgspec.msgpack.Decoder(Reply)


class FrameError(Exception):
    """The received bytes are not a valid frame: the connection must be closed."""


@final
class FrameReader:
    """Splits received bytes into bodies. A size is checked before its bytes are buffered."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer)
            if size > FRAME_BYTES_MAX:
                raise FrameError(f"a frame of {size} bytes")
            if len(self._buffer) < _SIZE.size + size:
                return
            body = bytes(self._buffer[_SIZE.size : _SIZE.size + size])
            del self._buffer[: _SIZE.size + size]
            yield body


def frame(message: Request | Reply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return _SIZE.pack(len(body)) + body


def read_request(body: bytes) -> Request:
    try:
        return _requests.decode(body)
    except msgspec.DecodeError as failure:
        raise FrameError(str(failure)) from failure


def read_reply(body: bytes) -> Reply:
    try:
        return _replies.decode(body)
    except msgspec.DecodeError as failure:
        raise FrameError(str(failure)) from failure


def failed(number: int, failure: CoordinationError) -> Reply:
    kind = next(name for name, kind in _ERRORS.items() if isinstance(failure, kind))
    return Reply(number, error=kind, message=str(failure))


def error_of(reply: Reply) -> CoordinationError | None:
    return None if reply.error is None else _ERRORS.get(reply.error, CoordinationError)(reply.message)
