"""Reads the methods that clients send for every message, basic.publish with its content and basic.ack, without objects
for their frames.

    basic.publish    method frame, header frame, one body frame: read if all three are whole, on the same channel, and
                     the body frame has the whole body
    basic.ack        method frame

Everything else is left to the way frame by frame, which knows every error of the protocol: a reader that returns 0 has
accepted nothing. A publisher repeats exchange and routing key, so the methods that it sent lately are remembered by
their bytes.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from longhall.doors.amqp.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEADER, METHOD
from longhall.doors.amqp.wire.methods import BASIC_PUBLISH, METHODS, decode_arguments
from longhall.exchanges.field_table import MalformedTable, encode_short

ADDRESSES_MAX: Final = 1024  # Remembered methods of a connection; of at most this many bytes each:
ADDRESS_BYTES_MAX: Final = 128

_FRAME_HEAD_BYTES: Final = 7
_CONTENT_HEAD_BYTES: Final = 12
_PUBLISH_BYTES_MIN: Final = 4 + 2 + 1 + 1 + 1  # Number, ticket, two empty strings and the flags.
_PROPERTIES_BYTES_MIN: Final = 2
_ACK_BYTES: Final = 4 + 8 + 1


@final
class PublishAddress:
    """The arguments of basic.publish, and exchange and routing key in their stored form."""

    __slots__ = ("exchange", "is_immediate", "is_mandatory", "keys", "stored")

    def __init__(self, exchange: str, key: str, is_mandatory: bool, is_immediate: bool) -> None:
        self.exchange = exchange
        self.keys = [key]
        self.is_mandatory = is_mandatory
        self.is_immediate = is_immediate
        self.stored = encode_short(exchange) + encode_short(key)


@final
class PublishReader:
    """Reads contents from the bytes of one connection. Its fields are those of the last content that was read."""

    def __init__(self, body_bytes_max: int) -> None:
        self.address: PublishAddress | None = None
        self.properties = b""
        self.body = b""
        self._body_bytes_max = body_bytes_max
        self._addresses: dict[bytes, PublishAddress] = {}

    def read(self, data: bytes, start: int, frame_bytes_max: int) -> int:
        """Read the content whose method frame is at `start`; returns where it ends, or 0 if it is not read here."""
        at: i64 = start
        end: i64 = len(data)
        most: i64 = frame_bytes_max
        method_bytes = _payload_bytes(data, at, end, METHOD)
        if method_bytes < _PUBLISH_BYTES_MIN or method_bytes > most or not is_basic(data, at, 40):
            return 0
        header_at: i64 = at + _FRAME_HEAD_BYTES + method_bytes + 1
        header_bytes = _payload_bytes(data, header_at, end, HEADER)
        if header_bytes < _CONTENT_HEAD_BYTES + _PROPERTIES_BYTES_MIN or header_bytes > most:
            return 0
        body_at: i64 = header_at + _FRAME_HEAD_BYTES + header_bytes + 1
        body_bytes = _payload_bytes(data, body_at, end, BODY)
        if body_bytes <= 0 or body_bytes > most or body_bytes > self._body_bytes_max:
            return 0
        if not _same_channel(data, at, header_at) or not _same_channel(data, at, body_at):
            return 0
        content: i64 = header_at + _FRAME_HEAD_BYTES
        if data[content] != 0 or data[content + 1] != 60 or _number(data, content + 4) != 0:
            return 0
        if _number(data, content + 8) != body_bytes:
            return 0
        address = self._address_of(data[at + _FRAME_HEAD_BYTES : header_at - 1])
        if address is None:
            return 0
        self.address = address
        self.properties = data[content + _CONTENT_HEAD_BYTES : body_at - 1]
        body_from: i64 = body_at + _FRAME_HEAD_BYTES
        self.body = data[body_from : body_from + body_bytes]
        return body_from + body_bytes + 1

    def _address_of(self, method: bytes) -> PublishAddress | None:
        """None for bytes that are no basic.publish: the other way says what is wrong with them."""
        address = self._addresses.get(method)
        if address is not None:
            return address
        try:
            arguments = decode_arguments(METHODS[BASIC_PUBLISH].form, method, 4, len(method))
        except MalformedTable:
            return None
        address = PublishAddress(arguments[1], arguments[2], arguments[3], arguments[4])
        if len(method) <= ADDRESS_BYTES_MAX:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            self._addresses[method] = address
        return address


def read_ack(data: bytes, start: int) -> int:
    """The delivery tag of the basic.ack at `start`, negated and less one with `multiple`; 0 if it is not read here."""
    at: i64 = start
    if _payload_bytes(data, at, len(data), METHOD) != _ACK_BYTES or not is_basic(data, at, 80):
        return 0
    arguments: i64 = at + _FRAME_HEAD_BYTES + 4
    if data[arguments] > 127:  # Beyond 63 bits.
        return 0
    tag: i64 = (_number(data, arguments) << 32) | _number(data, arguments + 4)
    return -1 - tag if data[arguments + 8] & 1 else tag


ACK_FRAME_BYTES: Final = FRAME_OVERHEAD + _ACK_BYTES


def is_basic(data: bytes, at: i64, method: i64) -> bool:
    """True if the method frame at `at`, which is whole, is this method of class 60."""
    return data[at + 7] == 0 and data[at + 8] == 60 and data[at + 9] == 0 and data[at + 10] == method


def _payload_bytes(data: bytes, at: i64, end: i64, kind: i64) -> i64:
    """The size of the payload of the frame at `at`; -1 if it is of another kind or not whole."""
    if at + _FRAME_HEAD_BYTES > end or data[at] != kind:
        return -1
    size: i64 = _number(data, at + 3)
    stop: i64 = at + _FRAME_HEAD_BYTES + size
    if stop >= end or data[stop] != FRAME_END:
        return -1
    return size


def _same_channel(data: bytes, one: i64, other: i64) -> bool:
    return data[one + 1] == data[other + 1] and data[one + 2] == data[other + 2]


def _number(data: bytes, at: i64) -> i64:
    """32 bits."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    fourth: i64 = data[at + 3]
    return (first << 24) | (second << 16) | (third << 8) | fourth
