"""A published content as a message for the service: its routing keys, its rules, and what other doors see of it.

    property or header           message
    headers of a plain type      attribute of the same name: text, Number or Binary
    content-type, -encoding, message-id, type, app-id, user-id, timestamp    attribute of that name
    correlation-id, reply-to     correlation id; reply queue of the same virtual host
    priority, expiration         priority, time to live
    header x-delay               delay, at any exchange; it is delivered negated
    headers CC, BCC              further routing keys; BCC is removed

The properties themselves are stored as they came, beside these.
"""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.sending.publication import Publication
from longhall.doors.amqp.errors import PRECONDITION_FAILED, AmqpError, precondition
from longhall.exchanges.field_table import (
    EMPTY_TABLE,
    MalformedTable,
    decode_value,
    encode_value,
    join_table,
    split_table,
)
from longhall.exchanges.names import hall_name
from longhall.exchanges.properties import (
    Properties,
    decode_properties,
    encode_properties,
    encode_stored,
)
from longhall.queues.envelope import BINARY, PREFIX, STRING
from longhall.queues.messages import Attribute, Outgoing

NUMBER: Final = "Number"
EXPIRATION_MS_MAX: Final = 10 * 365 * 24 * 3_600_000
DELAY_MS_MAX: Final = (1 << 32) - 1
SHOWN: Final = (
    ("content-type", "content_type"),
    ("content-encoding", "content_encoding"),
    ("message-id", "message_id"),
    ("type", "type"),
    ("app-id", "app_id"),
    ("user-id", "user_id"),
)


def publication_of(host: str, exchange: str, key: str, raw: bytes, body: bytes, user: str) -> Publication:
    """The message of a content. Raises AmqpError for properties that cannot be, else MalformedTable."""
    if raw == b"\0\0":
        return Publication(exchange, [key], Outgoing(body=body, amqp=encode_stored(exchange, key, raw)))
    properties = decode_properties(raw)
    if properties.user_id is not None and properties.user_id != user:
        raise AmqpError(
            PRECONDITION_FAILED,
            f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'",
        )
    keys = [key]
    attributes: dict[str, Attribute] = {}
    delay_ms = -1
    if properties.headers is not None and properties.headers != EMPTY_TABLE:
        fields = split_table(properties.headers)[0]
        values = {name: decode_value(value) for name, value in fields}
        keys += _more_keys(values)
        delay_ms = _delay_of(values)
        changed = [(name, value) for name, value in fields if name != "BCC"]
        if delay_ms > 0:
            changed = [(name, encode_value(-delay_ms) if name == "x-delay" else value) for name, value in changed]
        if changed != fields:
            properties.headers = join_table(changed)
            raw = encode_properties(properties)
        _show_headers(attributes, values)
    _show_properties(attributes, properties)
    message = Outgoing(
        body=body,
        attributes=attributes,
        delay_ms=delay_ms,
        time_to_live_ms=_lifetime_of(properties.expiration),
        priority=properties.priority or 0,
        reply_to=hall_name(host, properties.reply_to) if properties.reply_to else "",
        correlation_id=properties.correlation_id or "",
        amqp=encode_stored(exchange, key, raw),
    )
    return Publication(exchange, keys, message)


def _more_keys(values: dict[str, Any]) -> list[str]:
    keys: list[str] = []
    for name in ("CC", "BCC"):
        if name not in values:
            continue
        found = values[name]
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise precondition(f"invalid message: header '{name}' must be an array of strings")
        keys += found
    return keys


def _delay_of(values: dict[str, Any]) -> int:
    delay = values.get("x-delay")
    if isinstance(delay, bool) or not isinstance(delay, int):
        return -1
    return delay if 0 < delay <= DELAY_MS_MAX else -1


def _lifetime_of(expiration: str | None) -> int:
    if expiration is None:
        return -1
    if not expiration.isascii() or not expiration.isdigit() or int(expiration) > EXPIRATION_MS_MAX:
        raise precondition(f"invalid expiration '{expiration}': it must be milliseconds, at most {EXPIRATION_MS_MAX}")
    return int(expiration)


def _show_headers(attributes: dict[str, Attribute], values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not name or name == "BCC" or name.startswith(PREFIX):
            continue
        if isinstance(value, str):
            attributes[name] = (STRING, value.encode())
        elif isinstance(value, bool):
            attributes[name] = (STRING, b"true" if value else b"false")
        elif isinstance(value, int | float):
            attributes[name] = (NUMBER, str(value).encode())
        elif isinstance(value, bytes):
            attributes[name] = (BINARY, value)


def _show_properties(attributes: dict[str, Attribute], properties: Properties) -> None:
    for name, field in SHOWN:
        text = getattr(properties, field)
        if text:
            attributes.setdefault(name, (STRING, text.encode()))
    if properties.timestamp is not None:
        attributes.setdefault("timestamp", (NUMBER, str(properties.timestamp).encode()))


def properties_from(
    attributes: dict[str, Attribute], correlation_id: str, reply_to: str, priority: int, message_id: str, sent_ms: int
) -> bytes:
    """The property list of a message that came through another door."""
    properties = Properties()
    properties.delivery_mode = 2
    properties.message_id = message_id
    properties.timestamp = max(sent_ms, 0) // 1000
    properties.correlation_id = _short(correlation_id)
    properties.reply_to = _short(reply_to)
    properties.priority = priority or None
    fields: list[tuple[str, bytes]] = []
    shown = dict(SHOWN)
    for name, (kind, value) in attributes.items():
        text = _text(value)
        if name in shown and text is not None and len(value) < 256:
            setattr(properties, shown[name], text)
            continue
        if len(name.encode()) < 256:
            fields.append((name, _field(kind, value, text)))
    if fields:
        properties.headers = join_table(fields)
    return encode_properties(properties)


def _field(kind: str, value: bytes, text: str | None) -> bytes:
    if kind.startswith(NUMBER) and text is not None:
        try:
            return encode_value(int(text))
        except (ValueError, MalformedTable):
            pass
        try:
            return encode_value(float(text))
        except ValueError:
            pass
    return encode_value(value if kind.startswith(BINARY) or text is None else text)


def _short(text: str) -> str | None:
    return text if text and len(text.encode()) < 256 else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
