"""Requests of the Query protocol: a form, with lists and maps as numbered names.

    Action=SendMessage&MessageBody=hi&MessageAttribute.1.Name=a&MessageAttribute.1.Value.StringValue=b&...

A list or a map of one element may come without the number: Attribute.Name=DelaySeconds&Attribute.Value=5.
The dots in the names make the form a tree, which is decoded by the request's type, so both protocols give the same
structures. Every size is bounded by the bytes of the form and by FIELDS_MAX; depth by DEPTH_MAX.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, MALFORMED_QUERY, SqsError
from longhall.doors.sqs.wire.json import refusal
from longhall.doors.sqs.wire.names import KEY_NAMES, flat_name
from longhall.doors.sqs.wire.requests import Request

FIELDS_MAX: Final = 2048  # Ten entries with ten attributes of three fields each need 360.
DEPTH_MAX: Final = 8
INDEX_DIGITS_MAX: Final = 5

_ATTRIBUTES: Final = frozenset({"MessageAttribute", "MessageSystemAttribute"})

Tree = dict[str, "Tree | str"]


def parse_form(form: bytes) -> list[tuple[str, str]]:
    """The pairs of a form or of a query string, in their order. Raises SqsError."""
    if not form:
        return []
    try:
        text = form.decode("utf-8")
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise SqsError(MALFORMED_QUERY, "The query string is malformed or has too many fields.") from None


def decode_request(action: str, pairs: list[tuple[str, str]]) -> Request:
    """Read the request of a known action. Raises SqsError."""
    kind = _KINDS[action]
    try:
        plain = _read_struct(kind, _grow(pairs), action)
        return msgspec.convert(plain, ACTIONS[action].request, strict=False)
    except msgspec.ValidationError as error:
        raise refusal(action, error) from None


def _malformed(name: str) -> SqsError:
    return SqsError(MALFORMED_QUERY, f"The parameter {name[:200]} is malformed.")


def _grow(pairs: list[tuple[str, str]]) -> Tree:
    """A tree by the dots in the names."""
    root: Tree = {}
    for name, value in pairs:
        parts = name.split(".", DEPTH_MAX)
        if len(parts) > DEPTH_MAX:
            raise _malformed(name)
        node = root
        for part in parts[:-1]:
            below = node.setdefault(part, {})
            if not isinstance(below, dict):
                raise _malformed(name)
            node = below
        if isinstance(node.get(parts[-1]), dict):
            raise _malformed(name)
        node[parts[-1]] = value
    return root


def _read(kind: inspect.Type, member: str, node: Tree | str, action: str) -> object:
    """A value as plain objects, from which the request's type is made."""
    if isinstance(kind, inspect.StructType):
        if isinstance(node, str):
            raise _malformed(member)
        return _read_struct(kind, node, action)
    if not isinstance(node, str):
        raise _malformed(member)
    return node


def _read_struct(kind: inspect.StructType, node: Tree, action: str) -> dict[str, object]:
    out: dict[str, object] = {}
    for member in kind.fields:
        name = member.encode_name
        wanted = _without_none(member.type)
        if isinstance(wanted, inspect.ListType):
            if (below := node.get(flat := flat_name(name, action))) is not None:
                out[name] = [_read(wanted.item_type, flat, item, action) for item in _items(flat, below)]
        elif isinstance(wanted, inspect.DictType):
            if (below := node.get(flat := flat_name(name, action))) is not None:
                out[name] = _read_map(wanted, flat, below, action)
        elif (below := node.get(name)) is not None:
            out[name] = _read(wanted, name, below, action)
    return out


def _items(name: str, node: Tree | str) -> list[Tree | str]:
    """The elements of a list by their numbers. A list of one may come without a number."""
    if isinstance(node, str):
        return [node]
    if not all(index.isascii() and index.isdigit() and len(index) <= INDEX_DIGITS_MAX for index in node):
        raise _malformed(name)
    return [node[index] for index in sorted(node, key=int)]


def _read_map(kind: inspect.DictType, name: str, node: Tree | str, action: str) -> dict[str, object]:
    out: dict[str, object] = {}
    key_name = KEY_NAMES.get(name, "Name")
    if isinstance(node, dict) and isinstance(node.get(key_name), str):
        node = {"1": node}  # A map of one may come without a number.
    for item in _items(name, node):
        if isinstance(item, dict) and key_name not in item and name in _ATTRIBUTES:
            raise SqsError(INVALID_PARAMETER, "The request must contain non-empty message attribute name.")
        if isinstance(item, str) or not isinstance(key := item.get(key_name), str) or key in out:
            raise _malformed(f"{name}.N.{key_name}")
        out[key] = _read(kind.value_type, name, item.get("Value", {}), action)
    return out


def _without_none(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def _struct_type(request: type[Request]) -> inspect.StructType:
    kind = inspect.type_info(request)
    assert isinstance(kind, inspect.StructType)
    return kind


_KINDS: Final = {name: _struct_type(action.request) for name, action in ACTIONS.items()}
