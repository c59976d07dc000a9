"""The properties of an AMQP message, and the stored form in which exchange, routing key and properties travel.

    stored    short string (exchange), short string (routing key), property list
    list      16 bits of flags (15 = content-type ... 2 = cluster-id), then the values that are present, in this order

    flag  15 content-type       12 delivery-mode (octet)   9 reply-to      6 timestamp (64)   3 app-id
          14 content-encoding   11 priority (octet)        8 expiration    5 type             2 cluster-id
          13 headers (table)    10 correlation-id          7 message-id    4 user-id

The bytes of a publisher are stored and delivered as they came. They are decoded only where a field is needed.
"""

from __future__ import annotations

from typing import Final, final

from longhall.exchanges.field_table import (
    MalformedTable,
    decode_short,
    decode_table,
    encode_short,
    split_table,
)

CONTENT_TYPE: Final = 1 << 15
CONTENT_ENCODING: Final = 1 << 14
HEADERS: Final = 1 << 13
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
CORRELATION_ID: Final = 1 << 10
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TIMESTAMP: Final = 1 << 6
TYPE: Final = 1 << 5
USER_ID: Final = 1 << 4
APP_ID: Final = 1 << 3
CLUSTER_ID: Final = 1 << 2

NO_PROPERTIES: Final = b"\0\0"
PERSISTENT: Final = 2

# The text properties in the order of their flags; the others are between them.
_TEXTS: Final = (
    (CONTENT_TYPE, "content_type"),
    (CONTENT_ENCODING, "content_encoding"),
    (CORRELATION_ID, "correlation_id"),
    (REPLY_TO, "reply_to"),
    (EXPIRATION, "expiration"),
    (MESSAGE_ID, "message_id"),
    (TYPE, "type"),
    (USER_ID, "user_id"),
    (APP_ID, "app_id"),
    (CLUSTER_ID, "cluster_id"),
)
_WHOLE_FLAGS: Final = 0xFFFC


@final
class Properties:
    """The properties of one message. None means that a property is absent; `headers` is the table's bytes."""

    __slots__ = (
        "app_id",
        "cluster_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "headers",
        "message_id",
        "priority",
        "reply_to",
        "timestamp",
        "type",
        "user_id",
    )

    def __init__(self) -> None:
        self.content_type: str | None = None
        self.content_encoding: str | None = None
        self.headers: bytes | None = None
        self.delivery_mode: int | None = None
        self.priority: int | None = None
        self.correlation_id: str | None = None
        self.reply_to: str | None = None
        self.expiration: str | None = None
        self.message_id: str | None = None
        self.timestamp: int | None = None
        self.type: str | None = None
        self.user_id: str | None = None
        self.app_id: str | None = None
        self.cluster_id: str | None = None


def decode_properties(data: bytes, at: int = 0) -> Properties:
    """The properties of a list that ends with `data`. Raises MalformedTable."""
    end = len(data)
    if at + 2 > end:
        raise MalformedTable("the flags of the properties are cut off")
    flags = (data[at] << 8) | data[at + 1]
    at += 2
    if flags & 1:
        raise MalformedTable("there are no properties behind the first 14")
    found = Properties()
    if not flags and at == end:
        return found
    if flags & CONTENT_TYPE:
        found.content_type, at = decode_short(data, at, end)
    if flags & CONTENT_ENCODING:
        found.content_encoding, at = decode_short(data, at, end)
    if flags & HEADERS:
        stop = split_table(data, at)[1]
        found.headers = data[at:stop]
        at = stop
    if flags & DELIVERY_MODE:
        found.delivery_mode, at = _decode_octet(data, at, end)
    if flags & PRIORITY:
        found.priority, at = _decode_octet(data, at, end)
    if flags & CORRELATION_ID:
        found.correlation_id, at = decode_short(data, at, end)
    if flags & REPLY_TO:
        found.reply_to, at = decode_short(data, at, end)
    if flags & EXPIRATION:
        found.expiration, at = decode_short(data, at, end)
    if flags & MESSAGE_ID:
        found.message_id, at = decode_short(data, at, end)
    if flags & TIMESTAMP:
        if at + 8 > end:
            raise MalformedTable("a property is cut off")
        found.timestamp = int.from_bytes(data[at : at + 8], "big")
        at += 8
    if flags & TYPE:
        found.type, at = decode_short(data, at, end)
    if flags & USER_ID:
        found.user_id, at = decode_short(data, at, end)
    if flags & APP_ID:
        found.app_id, at = decode_short(data, at, end)
    if flags & CLUSTER_ID:
        found.cluster_id, at = decode_short(data, at, end)
    if at != end:
        raise MalformedTable("there are bytes behind the properties")
    return found


def _decode_octet(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise MalformedTable("a property is cut off")
    return data[at], at + 1


def encode_properties(properties: Properties) -> bytes:
    """The property list."""
    flags = 0
    parts: list[bytes] = [b""]
    for flag, name in _TEXTS[:2]:
        flags |= _add_text(parts, flag, getattr(properties, name))
    if properties.headers is not None:
        flags |= HEADERS
        parts.append(properties.headers)
    for flag, octet in ((DELIVERY_MODE, properties.delivery_mode), (PRIORITY, properties.priority)):
        if octet is not None:
            flags |= flag
            parts.append(bytes((octet & 0xFF,)))
    for flag, name in _TEXTS[2:6]:
        flags |= _add_text(parts, flag, getattr(properties, name))
    if properties.timestamp is not None:
        flags |= TIMESTAMP
        parts.append(properties.timestamp.to_bytes(8, "big"))
    for flag, name in _TEXTS[6:]:
        flags |= _add_text(parts, flag, getattr(properties, name))
    parts[0] = flags.to_bytes(2, "big")
    return b"".join(parts)


def _add_text(parts: list[bytes], flag: int, text: str | None) -> int:
    if text is None:
        return 0
    parts.append(encode_short(text))
    return flag


def headers_of(properties: Properties) -> dict[str, object]:
    """The decoded headers."""
    return decode_table(properties.headers)[0] if properties.headers is not None else {}


# The stored form


def encode_stored(exchange: str, routing_key: str, properties: bytes) -> bytes:
    """Exchange, routing key and property list of a message, for its record."""
    return encode_short(exchange) + encode_short(routing_key) + properties


def decode_stored(stored: bytes) -> tuple[str, str, bytes]:
    """The same, read back. Raises MalformedTable."""
    exchange, at = decode_short(stored, 0, len(stored))
    routing_key, at = decode_short(stored, at, len(stored))
    return exchange, routing_key, stored[at:]
