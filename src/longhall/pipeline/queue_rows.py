"""The messages, leases and dead letters of a queue, from the HTTP API to rows of three tables.

Pure: JSON in, Arrow out. Times are timestamps in UTC, null where there is none. `value` is the body byte for byte and
`body` the same as text, null where it is not UTF-8, so that SQL can search and parse it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

_KINDS: Final[dict[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<string>": pa.list_(pa.field("element", pa.string())),
}
_PLACE: Final = {"message_id": "string", "partition": "int", "offset": "bigint"}
_CONTENT: Final = {
    "sent": "timestamp",
    "attempts": "int",
    "first_received": "timestamp",
    "key": "binary",
    "group": "string",
    "priority": "int",
    "attributes": "map<string,string>",
    "value": "binary",
    "body": "string",
}
TABLES: Final[dict[str, dict[str, str]]] = {
    "messages": {**_PLACE, "state": "string", "until": "timestamp", **_CONTENT},
    "leases": {
        **_PLACE,
        "until": "timestamp",
        "attempts": "int",
        "first_received": "timestamp",
        "sent": "timestamp",
        "group": "string",
    },
    "dead_letters": {
        **_PLACE,
        "reason": "string",
        "source": "string",
        "died": "timestamp",
        "leased": "boolean",
        "deaths": "array<string>",
        **_CONTENT,
    },
}
Row = dict[str, object]


def spark_schema(table: str) -> str:
    """A table's columns as Spark parses them."""
    return ", ".join(f"`{name}` {kind}" for name, kind in TABLES[table].items())


def arrow_batch(table: str, told: Iterable[Mapping[str, Any]]) -> Any:
    """One page of the API as a record batch."""
    schema = pa.schema([pa.field(name, _KINDS[kind]) for name, kind in TABLES[table].items()])
    return pa.RecordBatch.from_pylist([ROWS[table](each) for each in told], schema=schema)


def message_row(seen: Mapping[str, Any]) -> Row:
    """A row of `GET /queues/*/messages`."""
    message = seen["message"]
    return {
        "message_id": message["message_id"],
        "partition": seen["lane"],
        "offset": seen["offset"] if seen["offset"] >= 0 else None,
        "state": seen["state"],
        "until": _moment(seen.get("until_ms", 0)),
        **_content(message),
    }


def lease_row(lease: Mapping[str, Any]) -> Row:
    """A row of `GET /queues/*/leases`."""
    return {
        "message_id": lease["message_id"],
        "partition": lease["lane"],
        "offset": lease["offset"],
        "until": _moment(lease["until_ms"]),
        "attempts": lease.get("attempts", 0),
        "first_received": _moment(lease.get("first_received_ms", 0)),
        "sent": _moment(lease.get("sent_ms", 0)),
        "group": lease.get("group") or None,
    }


def letter_row(letter: Mapping[str, Any]) -> Row:
    """A row of `GET /queues/*/letters`."""
    return {
        "message_id": letter["message_id"],
        "partition": letter["lane"],
        "offset": letter["offset"],
        "reason": letter.get("reason") or None,
        "source": letter.get("source") or None,
        "died": _moment(letter.get("died_ms", 0)),
        "leased": letter.get("leased", False),
        "deaths": letter.get("deaths", []),
        **_content(letter),
    }


ROWS: Final[dict[str, Callable[[Mapping[str, Any]], Row]]] = {
    "messages": message_row,
    "leases": lease_row,
    "dead_letters": letter_row,
}


def _content(message: Mapping[str, Any]) -> Row:
    value = _bytes(message.get("body", ""))
    key = message.get("key")
    return {
        "sent": _moment(message.get("sent_ms", 0)),
        "attempts": message.get("attempts", 0),
        "first_received": _moment(message.get("first_received_ms", 0)),
        "key": None if key is None else _bytes(key),
        "group": message.get("group") or None,
        "priority": message.get("priority", 0),
        "attributes": [(name, _words(each)) for name, each in message.get("attributes", {}).items()],
        "value": value,
        "body": message["body"] if isinstance(message.get("body"), str) else None,
    }


def _moment(at_ms: int) -> int | None:
    return at_ms * 1000 if at_ms > 0 else None


def _bytes(told: str | Mapping[str, str]) -> bytes:
    """Text where it is UTF-8, else base64: see docs/http.md."""
    return told.encode() if isinstance(told, str) else base64.b64decode(told["base64"])


def _words(attribute: str | Mapping[str, str]) -> str | None:
    if isinstance(attribute, str):
        return attribute
    return attribute.get("value", attribute.get("base64"))
