"""WebSocket frames (RFC 6455), the server's side: bytes to data and control frames, and back.

     0               1               2 ...
    +-+-----+-------+-+-------------+------------------------------+---------------+----------+
    |F| RSV |opcode |M| length (7)  | length (16 if 126, 64 if 127) | mask (32, if M) | payload |
    +-+-----+-------+-+-------------+------------------------------+---------------+----------+

    opcode     0 continuation, 1 text, 2 binary: the payload goes on as it arrives, message bounds do not matter here
               8 close, 9 ping, 10 pong: at most 125 bytes, never fragmented, allowed between fragments

Every frame of a client is masked, no extension is spoken, text is UTF-8 over the whole message, lengths have their
shortest form, and a message has a bound. What breaks a rule is a WebSocketError with the close code of the rule.

The codec is our own: the door needs neither extensions nor a client, and takes payloads before their message is whole.
"""

from __future__ import annotations

import codecs
import hashlib
from base64 import b64decode, b64encode
from typing import Final, final

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
INVALID_DATA: Final = 1007
TOO_BIG: Final = 1009
_NO_STATUS: Final = 1005
_CONTROL_BYTES_MAX: Final = 125
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketError(Exception):
    """A client broke the protocol; `code` is that of the close frame."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@final
class WebSocketDecoder:
    """The frames of one client. After a WebSocketError it must not be used any more."""

    def __init__(self, message_bytes_max: int) -> None:
        self.kind = 0  # TEXT or BINARY: that of the newest message; 0 before the first.
        self._message_bytes_max = message_bytes_max
        self._message_bytes = 0
        self._is_inside = False  # A message has begun and not ended.
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._data = b""
        self._left = 0  # Bytes of the data frame that has begun which have not arrived,
        self._mask = b""  # the mask of the next of them,
        self._is_last_frame = False  # and whether its message ends with it.

    @property
    def held_bytes(self) -> int:
        """The received bytes that are not passed on: a head, or a control frame, that is not whole."""
        return len(self._data)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The opcodes and payloads that have arrived: control frames when they are whole, data frames piece by piece,
        each with the opcode of its message.
        """
        self._data = self._data + data if self._data else data
        found: list[tuple[int, bytes]] = []
        at = 0
        while True:
            taken = self._take(at) if not self._left else self._take_more(at)
            if taken is None:
                break
            opcode, payload, at = taken
            found.append((opcode, payload))
        self._data = self._data[at:]
        return found

    def _take(self, at: int) -> tuple[int, bytes, int] | None:
        """The frame at this position, or its beginning, and where that ends; None if it has not arrived."""
        data = self._data
        end = len(data)
        if end - at < 2:
            return None
        first, second = data[at], data[at + 1]
        opcode = first & 0x0F
        is_last = first & 0x80 != 0
        self._check(first, opcode, is_last, second)
        length = second & 0x7F
        start = at + 2
        if length >= 126:
            size = 2 if length == 126 else 8
            if end - start < size:
                return None
            length = int.from_bytes(data[start : start + size], "big")
            start += size
            if length < 126 or (size == 8 and length < 1 << 16):
                raise WebSocketError(PROTOCOL_ERROR, "a length is not in its shortest form")
        if opcode < CLOSE and self._message_bytes + length > self._message_bytes_max:
            raise WebSocketError(TOO_BIG, f"a message has more than {self._message_bytes_max} bytes")
        stop = start + 4 + length
        if end < (stop if opcode >= CLOSE else start + 4 + (length > 0)):
            return None
        mask, start = data[start : start + 4], start + 4
        if opcode >= CLOSE:
            return opcode, unmasked(data[start:stop], mask), stop
        if opcode != CONTINUATION:
            self.kind = opcode
            self._message_bytes = 0
        self._mask, self._left, self._is_last_frame = mask, length, is_last
        self._is_inside = True
        return self._take_more(start) if length else (*self._part(b""), start)

    def _take_more(self, at: int) -> tuple[int, bytes, int] | None:
        """More of the payload of the data frame that has begun."""
        piece = self._data[at : at + self._left]
        if not piece:
            return None
        payload = unmasked(piece, self._mask)
        turn = len(piece) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        self._left -= len(piece)
        return (*self._part(payload), at + len(piece))

    def _check(self, first: int, opcode: int, is_last: bool, second: int) -> None:
        if first & 0x70:
            raise WebSocketError(PROTOCOL_ERROR, "a reserved bit is set, and no extension is spoken")
        if not second & 0x80:
            raise WebSocketError(PROTOCOL_ERROR, "a frame of a client is not masked")
        if opcode >= CLOSE:
            if opcode not in (CLOSE, PING, PONG):
                raise WebSocketError(PROTOCOL_ERROR, f"unknown opcode {opcode}")
            if not is_last or second & 0x7F > _CONTROL_BYTES_MAX:
                raise WebSocketError(PROTOCOL_ERROR, "a control frame is fragmented or too long")
        elif opcode > BINARY:
            raise WebSocketError(PROTOCOL_ERROR, f"unknown opcode {opcode}")
        elif self._is_inside != (opcode == CONTINUATION):
            raise WebSocketError(PROTOCOL_ERROR, "a continuation without a message, or a message inside another")

    def _part(self, payload: bytes) -> tuple[int, bytes]:
        """Take a part of a message; returns it with the opcode of the message."""
        is_end = self._is_last_frame and not self._left
        self._message_bytes += len(payload)
        self._is_inside = not is_end
        if self.kind == TEXT:
            try:
                self._text.decode(payload, is_end)
            except UnicodeDecodeError:
                raise WebSocketError(INVALID_DATA, "a text message is not UTF-8") from None
        if is_end:
            self._message_bytes = 0
        return self.kind, payload


def unmasked(payload: bytes, mask: bytes) -> bytes:
    """The payload without its mask, or with it: the operation is its own inverse."""
    size = len(payload)
    if not size or mask == b"\0\0\0\0":
        return payload
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def encode_frame(opcode: int, payload: bytes, mask: bytes = b"") -> bytes:
    """A whole message or control frame. A client gives a mask of four bytes."""
    bit = 0x80 if mask else 0
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, bit | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8, "big")
    return head + mask + (unmasked(payload, mask) if mask else payload)


def encode_close(code: int, reason: str = "") -> bytes:
    """A close frame."""
    text = reason.encode()[: _CONTROL_BYTES_MAX - 2].decode(errors="ignore").encode()
    return encode_frame(CLOSE, code.to_bytes(2, "big") + text)


def close_code(payload: bytes) -> int:
    """The code of a close frame; 1005 if it has none. Raises WebSocketError for a code that no peer may send."""
    if not payload:
        return _NO_STATUS
    if len(payload) == 1:
        raise WebSocketError(PROTOCOL_ERROR, "a close frame has half a code")
    code = int.from_bytes(payload[:2], "big")
    if not (3000 <= code <= 4999 or (1000 <= code <= 1014 and code not in (1004, 1005, 1006))):
        raise WebSocketError(PROTOCOL_ERROR, f"{code} is no code of a close frame")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise WebSocketError(INVALID_DATA, "the reason of a close frame is not UTF-8") from None
    return code


def accept_of(key: bytes) -> bytes | None:
    """The answer to the key of a client's handshake; None if that is no key."""
    try:
        if len(b64decode(key, validate=True)) != 16:
            return None
    except ValueError:
        return None
    return b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
