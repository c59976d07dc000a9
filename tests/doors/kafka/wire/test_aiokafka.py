"""The same messages through aiokafka's codecs, which have the old encodings of most APIs by hand."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.schema import Message, decode, encode, structure_of
from longhall.doors.kafka.wire.structure import Structure
from tests.doors.kafka.wire.samples import sample

_MODULES = ("admin", "commit", "coordination", "fetch", "group", "metadata", "offset", "produce", "transaction")
# Theirs has 64 bits for the leader epoch here, where the protocol has 32; it never sends these versions.
_MISTAKEN = {("ListOffsetsRequest", 4), ("ListOffsetsRequest", 5)}
# Theirs says that these are flexible, and encodes them as version 1.
_MISTAKEN |= {("DescribeAclsRequest", 2), ("DescribeAclsResponse", 2)}


def _pairs() -> Iterator[tuple[type[Message], int, Any]]:
    """Our class, the version, and their class; they name them like JoinGroupResponse_v5."""
    for module in _MODULES:
        for name, theirs in vars(importlib.import_module(f"aiokafka.protocol.{module}")).items():
            stem, _, version = name.rpartition("_v")
            if not version.isdigit() or not hasattr(theirs, "API_KEY"):
                continue
            api = API.get(theirs.API_KEY)
            if api is None or not api.has(int(version)):
                continue
            cls = api.request if stem.endswith("Request") else api.response
            if (cls.__name__, int(version)) not in _MISTAKEN:
                yield cls, int(version), theirs


PAIRS = sorted(_pairs(), key=lambda pair: (pair[0].__name__, pair[1]))


def leaves_of_ours(value: Any, plan: Structure | None) -> list[Any]:
    """All scalars in wire order."""
    if isinstance(value, list):
        inner = getattr(plan, "element", None)
        return [len(value)] + [leaf for each in value for leaf in leaves_of_ours(each, inner)]
    if isinstance(value, Message):
        assert isinstance(plan, Structure)
        return [leaf for field in plan.fields for leaf in leaves_of_ours(getattr(value, field.name), field.codec)]  # type: ignore[arg-type]
    return [value]


def leaves_of_theirs(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [len(value)] + [leaf for each in value for leaf in leaves_of_theirs(each)]
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in leaves_of_theirs(each)]
    if isinstance(value, dict):
        assert not value  # No tagged fields were written.
        return []
    return [value]


def test_there_is_something_to_compare() -> None:
    assert len(PAIRS) > 100


@pytest.mark.parametrize(("cls", "version", "theirs"), PAIRS)
def test_both_read_the_same_values(cls: type[Message], version: int, theirs: Any) -> None:
    for seed in range(12):
        message = sample(cls, version, Random(seed))
        for name, spec in cls.TABLE.items():
            if spec.tag is not None:
                setattr(message, name, getattr(cls(), name))
        ours = encode(message, version)
        read = theirs.decode(ours)
        expected = leaves_of_ours(message, structure_of(cls, version))
        assert leaves_of_theirs(tuple(getattr(read, name) for name in read.SCHEMA.names)) == expected
        assert decode(cls, version, read.encode())[0] == message
