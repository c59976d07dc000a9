"""Paths and values of the coordination tree. Values are JSON, so that people can read them with any tool.

Unknown fields are preserved where a value of another node is written back (`ShardState.more`), and ignored elsewhere.
Versions and generations are not stored: they are those of the tree's node.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from longhall.coordination.ports import (
    CoordinationError,
    FeatureLevel,
    Ids,
    Manager,
    MemberDescription,
    NodeLife,
    Progress,
    ReplicationGroup,
    ShardState,
)
from longhall.coordination.tree import Node

MEMBERS: Final = "/members"
SHARDS: Final = "/shards"
DRAINS: Final = "/drains"
IDS: Final = "/ids"
MANAGER: Final = "/manager"
TERMS: Final = "/terms"  # Its version is the number of the last term.
EPOCH: Final = "/epoch"  # The last epoch given.
LEVEL: Final = "/feature-level"
CLUSTER: Final = "/cluster-id"
WINGS: Final = "/wings"
PROGRESS: Final = "/progress"
LIVES: Final = "/lives"  # The last start of each node, which outlives its session.

_KNOWN: Final = frozenset(ShardState.__struct_fields__) - {"version", "more"}

T = TypeVar("T")


def counter_path(kind: Ids) -> str:
    """The path of the counter of a kind of ids."""
    return f"{IDS}/{kind.value}"


def _encode_without(description: msgspec.Struct, field: str) -> bytes:
    """A description without the field that the tree itself has."""
    fields = msgspec.to_builtins(description)
    del fields[field]
    return msgspec.json.encode(fields)


def encode_member(member: MemberDescription) -> bytes:
    return _encode_without(member, "generation")


def decode_member(path: str, node: Node) -> MemberDescription:
    return msgspec.structs.replace(_decode(path, node, MemberDescription), generation=node.created)


def encode_progress(progress: Progress) -> bytes:
    return msgspec.json.encode(progress)


def decode_progress(path: str, node: Node | None) -> Progress:
    return Progress() if node is None else _decode(path, node, Progress)


def encode_life(life: NodeLife) -> bytes:
    return msgspec.json.encode(life)


def decode_life(path: str, node: Node) -> NodeLife:
    return _decode(path, node, NodeLife)


def encode_wing(wing: ReplicationGroup) -> bytes:
    return _encode_without(wing, "version")


def decode_wing(path: str, node: Node) -> ReplicationGroup:
    return msgspec.structs.replace(_decode(path, node, ReplicationGroup), version=node.version)


def encode_shard(state: ShardState) -> bytes:
    fields = {name: getattr(state, name) for name in ShardState.__struct_fields__ if name in _KNOWN}
    return msgspec.json.encode({**state.more, **fields})


def decode_shard(path: str, node: Node) -> ShardState:
    fields = _decode(path, node, dict[str, Any])
    more = {name: value for name, value in fields.items() if name not in _KNOWN}
    known = {name: value for name, value in fields.items() if name in _KNOWN}
    try:
        return msgspec.convert({**known, "version": node.version, "more": more}, ShardState)
    except msgspec.ValidationError as failure:
        raise _foreign(path, failure) from failure


def encode_manager(manager: Manager) -> bytes:
    return msgspec.json.encode(manager)


def decode_manager(path: str, node: Node) -> Manager:
    return _decode(path, node, Manager)


def encode_number(number: int) -> bytes:
    return msgspec.json.encode(number)


def decode_number(path: str, node: Node) -> int:
    return _decode(path, node, int)


def decode_level(path: str, node: Node | None) -> FeatureLevel:
    if node is None:
        return FeatureLevel()
    return FeatureLevel(level=decode_number(path, node), version=node.version)


def decode_numbers(path: str, names: list[str]) -> frozenset[int]:
    """The numbers of nodes that these names are."""
    try:
        return frozenset(int(name) for name in names)
    except ValueError as failure:
        raise _foreign(path, failure) from failure


def _decode(path: str, node: Node, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(node.data, type=kind)
    except msgspec.DecodeError as failure:
        raise _foreign(path, failure) from failure


def _foreign(path: str, failure: Exception) -> CoordinationError:
    return CoordinationError(f"the value at {path} was not written by Longhall: {failure}")
