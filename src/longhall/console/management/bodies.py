"""Bodies of requests, read as RabbitMQ reads them: texts for booleans and numbers, and unknown fields ignored.

rabbitmqadmin sends every value of its command line as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from longhall.console.api.asked import Asked
from longhall.doors.amqp.errors import NOT_FOUND, AmqpError
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import MalformedTable, encode_table
from longhall.exchanges.properties import Properties


def body_of(asked: Asked) -> dict[str, Any]:
    """The JSON object of a request; one without a body is empty."""
    if not asked.body.strip():
        return {}
    try:
        value = json.loads(asked.body)
    except (ValueError, RecursionError) as error:
        raise _refused(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused("the body is no JSON object")
    return value


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A boolean, or its text."""
    value = body.get(name, default)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _refused(f"'{name}' is no boolean")
    return value


def number(body: dict[str, Any], name: str, default: int) -> int:
    """An integer, or its text."""
    value = body.get(name, default)
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(f"'{name}' is no integer")
    return value


def text(body: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text; without a default it must be there. A null is as if it was not there."""
    value = body.get(name)
    if value is None:
        value = default
    if value is None:
        raise _refused(f"'{name}' is missing")
    if not isinstance(value, str):
        raise _refused(f"'{name}' is no string")
    return value


def table(body: dict[str, Any], name: str) -> bytes:
    """A field table from an object of JSON."""
    value = body.get(name, {})
    if value in ("", [], None):  # An empty table, as some clients write it.
        value = {}
    if not isinstance(value, dict):
        raise _refused(f"'{name}' is no object")
    try:
        return encode_table(value)
    except (MalformedTable, RecursionError) as error:
        raise _refused(f"'{name}': {error}") from None


def properties(body: dict[str, Any]) -> Properties:
    """The properties of a message."""
    given = body.get("properties", {})
    if given in ([], None, ""):
        given = {}
    if not isinstance(given, dict):
        raise _refused("'properties' is no object")
    read = Properties()
    for name, value in given.items():
        if name == "headers":
            read.headers = table(given, "headers")
        elif name in ("delivery_mode", "priority", "timestamp"):
            most = (1 << 63) - 1 if name == "timestamp" else 255
            whole = number(given, name, 0)
            if not 0 <= whole <= most:
                raise _refused(f"'{name}' must be from 0 to {most}")
            setattr(read, name, whole)
        elif name in TEXTS:
            if not isinstance(value, str) or len(value.encode()) > 255:
                raise _refused(f"'{name}' is no short string")
            setattr(read, name, value)
        else:
            raise _refused(f"there is no property '{name}'")
    return read


TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


def shown_value(value: Any) -> Any:
    """A value of a field table as JSON has it."""
    if isinstance(value, dict):
        return {key: shown_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [shown_value(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


@contextmanager
def amqp_refusals() -> Iterator[None]:
    """Refusals of the AMQP door as refusals of the service."""
    try:
        yield
    except AmqpError as error:
        code = Code.UNKNOWN_QUEUE if error.reply == NOT_FOUND else Code.INVALID_REQUEST
        raise LonghallError(code, str(error)) from None
    except MalformedTable as error:
        raise _refused(str(error)) from None


def _refused(line: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, line)
