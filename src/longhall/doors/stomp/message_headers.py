"""Headers of SEND as AMQP properties, and deliveries as the headers of MESSAGE.

    header of SEND and MESSAGE                        property
    content-type, content-encoding, correlation-id,   of the same name
    expiration, type, user-id, app-id
    amqp-message-id                                   message-id
    reply-to                                          reply-to; /queue/n and /reply-queue/n are n there
    priority, timestamp                               of the same name, as integers
    persistent:true                                   delivery-mode 2; else 1
    x-delay                                           header, as an integer
    all others                                        header, as text

A MESSAGE has `destination`, `subscription`, `message-id` and `content-length` of its own, `ack` in STOMP 1.2 unless the
subscription acknowledges automatically, and `redelivered`, which is `true` for one that was delivered before.
"""

from __future__ import annotations

import json
from typing import Final

from longhall.broker.queues.sending.publication import Publication
from longhall.doors.amqp.deliveries import address_and_properties
from longhall.doors.amqp.publications import publication_of
from longhall.doors.stomp.destinations import StompDestination, destination_of, reply_destination, reply_name
from longhall.doors.stomp.errors import StompError, invalid_header
from longhall.doors.stomp.wire.frames import CONTENT_LENGTH, NUMBER_DIGITS_MAX, StompFrame
from longhall.exchanges.field_table import (
    SHORT_BYTES_MAX,
    MalformedTable,
    decode_short,
    decode_value,
    encode_value,
    join_table,
    split_table,
)
from longhall.exchanges.properties import PERSISTENT, Properties, decode_properties, encode_properties
from longhall.queues.messages import Delivery

_TEXTS: Final = (
    ("content-type", "content_type"),
    ("content-encoding", "content_encoding"),
    ("correlation-id", "correlation_id"),
    ("expiration", "expiration"),
    ("amqp-message-id", "message_id"),
    ("type", "type"),
    ("user-id", "user_id"),
    ("app-id", "app_id"),
)
_OWN: Final = frozenset(
    (
        *(name for name, _ in _TEXTS),
        "reply-to",
        "priority",
        "timestamp",
        "persistent",
        "destination",
        "receipt",
        "transaction",
        CONTENT_LENGTH,
    )
)
# What a MESSAGE says of itself: a header of the publisher with such a name is not repeated.
_RESERVED: Final = _OWN | {"message-id", "subscription", "ack", "redelivered"}
PRIORITY_MAX: Final = 255
TRANSIENT: Final = 1


def publication(frame: StompFrame, destination: StompDestination, host: str, user: str) -> Publication:
    """The message of a SEND. Raises StompError, or AmqpError for properties that cannot be."""
    headers = frame.headers
    found = Properties()
    for name, field in _TEXTS:
        text = headers.get(name)
        if text is not None:
            setattr(found, field, _short(name, text))
    if "reply-to" in headers:
        found.reply_to = _short("reply-to", reply_name(headers["reply-to"]))
    if "priority" in headers:
        found.priority = number(frame, "priority", PRIORITY_MAX)
    if "timestamp" in headers:
        found.timestamp = number(frame, "timestamp", (1 << 63) - 1)
    found.delivery_mode = PERSISTENT if flag(frame, "persistent") else TRANSIENT
    fields = [(_short(name, name), _field(frame, name)) for name in headers if name not in _OWN]
    if fields:
        found.headers = join_table(fields)
    return publication_of(host, destination.exchange, destination.key, encode_properties(found), frame.body, user)


def _field(frame: StompFrame, name: str) -> bytes:
    if name == "x-delay":
        return encode_value(number(frame, name, (1 << 32) - 1))
    return encode_value(frame.headers[name])


def _short(name: str, text: str) -> str:
    if len(text.encode("utf-8", "replace")) > SHORT_BYTES_MAX:
        raise invalid_header(name, text, f"it has more than {SHORT_BYTES_MAX} bytes")
    return text


def number(frame: StompFrame, name: str, most: int) -> int:
    """The value of a header that is a number from 0 to `most`."""
    text = frame.headers[name].strip()
    if not text.isascii() or not text.isdigit() or len(text) > NUMBER_DIGITS_MAX + 1 or int(text) > most:
        raise invalid_header(name, text, f"it must be a number from 0 to {most}")
    return int(text)


def flag(frame: StompFrame, name: str, default: bool = False) -> bool:
    """The value of a header that is `true` or `false`."""
    text = frame.headers.get(name, "").strip().lower()
    if not text:
        return default
    if text not in ("true", "false"):
        raise StompError("Invalid header", f"'{name}' is '{text[:100]}': it must be true or false\n")
    return text == "true"


def message_headers(delivery: Delivery, queue: str, counts: bool) -> list[tuple[str, str]]:
    """The headers of a MESSAGE that come from the message: first its destination, then properties, then headers.

    `queue` is where it is delivered from, `counts` that redeliveries are counted.
    """
    address, raw = address_and_properties(delivery, queue, counts)
    exchange, at = decode_short(address, 0, len(address))
    key = decode_short(address, at, len(address))[0]
    headers = [("destination", destination_of(exchange, key))]
    try:
        found = decode_properties(raw)
        fields = split_table(found.headers)[0] if found.headers is not None else []
    except MalformedTable:
        return headers
    for name, field in _TEXTS:
        text = getattr(found, field)
        if text is not None:
            headers.append((name, text))
    if found.reply_to is not None:
        headers.append(("reply-to", reply_destination(found.reply_to)))
    if found.priority is not None:
        headers.append(("priority", str(found.priority)))
    if found.timestamp is not None:
        headers.append(("timestamp", str(found.timestamp)))
    if found.delivery_mode == PERSISTENT:
        headers.append(("persistent", "true"))
    headers += [(name, _text(value)) for name, value in fields if name and name not in _RESERVED]
    return headers


def _text(raw: bytes) -> str:
    value = decode_value(raw)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, default=str)  # Tables and arrays, x-death among them.
