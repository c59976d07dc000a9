"""Bytes in JSON: text where they are text, `{"base64": ...}` where they are not, and attributes with their types.

    a body or key      "text"                        {"base64": "AAE="}
    an attribute       "text"       5                {"type": "Number", "value": "5"}    {"base64": "AAE="}

The form of a reply is accepted in a request.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.errors import Code, LonghallError
from longhall.queues.messages import Attribute

STRING: Final = "String"
NUMBER: Final = "Number"
BINARY: Final = "Binary"
ATTRIBUTES_MAX: Final = 100

_KINDS: Final = (STRING, NUMBER, BINARY)


class Encoded(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are not text."""

    base64: bytes


class Typed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An attribute with a type, or with bytes."""

    type: Annotated[str, Meta(max_length=256)] = ""
    value: str | None = None
    base64: bytes | None = None


Text = str | Encoded
Given = str | int | float | Typed


def shown(data: bytes) -> Text:
    """Bytes as a JSON value."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Encoded(data)


def understood(text: Text) -> bytes:
    """Bytes from a JSON value."""
    return text.encode() if isinstance(text, str) else text.base64


def shown_attributes(attributes: dict[str, Attribute]) -> dict[str, str | Typed]:
    """Attributes as JSON values."""
    return {name: _shown_attribute(kind, data) for name, (kind, data) in attributes.items()}


def _shown_attribute(kind: str, data: bytes) -> str | Typed:
    if kind.partition(".")[0] == BINARY:
        return Typed(base64=data) if kind == BINARY else Typed(type=kind, base64=data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Typed(type=kind, base64=data)
    return text if kind == STRING else Typed(type=kind, value=text)


def understood_attributes(given: dict[str, Given]) -> dict[str, Attribute]:
    """Attributes from JSON values. Raises INVALID_REQUEST for an invalid one."""
    if len(given) > ATTRIBUTES_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"a message may have {ATTRIBUTES_MAX} attributes")
    return {name: _understood_attribute(name, value) for name, value in given.items()}


def _understood_attribute(name: str, value: Given) -> Attribute:
    if not 1 <= len(name) <= 256:
        raise LonghallError(Code.INVALID_REQUEST, "the name of an attribute has 1 to 256 characters")
    if isinstance(value, str):
        return STRING, value.encode()
    if isinstance(value, (int, float)):
        return NUMBER, str(value).encode()
    if (value.value is None) == (value.base64 is None):
        raise LonghallError(Code.INVALID_REQUEST, f"attribute {name}: give either a value or base64")
    kind = value.type or (BINARY if value.base64 is not None else STRING)
    if kind.partition(".")[0] not in _KINDS:
        raise LonghallError(Code.INVALID_REQUEST, f"attribute {name}: a type begins with {', '.join(_KINDS)}")
    return kind, value.base64 if value.base64 is not None else (value.value or "").encode()
