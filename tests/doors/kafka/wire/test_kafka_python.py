"""The same messages through kafka-python's codecs, an implementation that shares nothing with ours."""

from __future__ import annotations

import importlib
import uuid
from random import Random
from typing import Any

import pytest

from longhall.doors.kafka.wire.messages.versions import ApiVersionsResponse
from longhall.doors.kafka.wire.schema import Message, decode, encode, within
from tests.doors.kafka.wire.samples import every_message, sample

_PLACES = (
    "admin.acl", "admin.client_quotas", "admin.cluster", "admin.configs", "admin.groups", "admin.topics",
    "admin.transactions", "admin.users", "consumer.fetch", "consumer.group", "consumer.metadata", "consumer.offsets",
    "metadata.api_versions", "metadata.find_coordinator", "metadata.metadata", "producer.produce",
    "producer.transaction", "sasl",
)  # fmt: skip


def _theirs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place in _PLACES:
        module = importlib.import_module(f"kafka.protocol.{place}")
        found.update({name: value for name, value in vars(module).items() if isinstance(value, type)})
    return found


THEIRS = _theirs()
BOTH = [(cls, version) for cls, version in every_message() if cls.__name__ in THEIRS and "Protocol" not in cls.__name__]


def test_hardly_any_message_is_left_out() -> None:
    left_out = {cls.__name__ for cls, _ in every_message()} - {cls.__name__ for cls, _ in BOTH}
    left_out = {name for name in left_out if "Share" not in name}  # kafka-python has no share groups.
    # kafka-python has no groups with server-side assignment.
    unknown = {f"ConsumerGroup{name}{kind}" for name in ("Heartbeat", "Describe") for kind in ("Request", "Response")}
    assert left_out == {"ConsumerProtocolAssignment", "ConsumerProtocolSubscription"} | unknown


def convert(message: Message, version: int, fields: Any, make: Any) -> Any:
    """Our message as theirs, field by field, by name."""
    values: dict[str, Any] = {}
    for name, spec in type(message).TABLE.items():
        value = getattr(message, name)
        if not within(spec.versions, version) or (spec.tag is not None and value == getattr(type(message)(), name)):
            continue
        if spec.kind == "int32" and (
            name not in fields or isinstance(fields[name].default, set | None)
        ):  # Theirs has a set of bits, under one name everywhere.
            values["authorized_operations"] = {bit for bit in range(32) if (value & 0xFFFFFFFF) >> bit & 1}
            continue
        field = fields[name]
        if isinstance(value, Message):
            value = convert(value, version, field.fields, field.data_class)
        elif isinstance(value, list) and value and isinstance(value[0], Message):
            value = [convert(each, version, field.fields, field.data_class) for each in value]
        elif spec.kind == "uuid":
            value = uuid.UUID(bytes=value)
        values[name] = value
    return make(version=version, **values)


@pytest.mark.parametrize(("cls", "version"), BOTH)
def test_both_write_the_same_bytes(cls: type[Message], version: int) -> None:
    other = THEIRS[cls.__name__]
    for seed in range(12):
        message = sample(cls, version, Random(seed))
        if isinstance(message, ApiVersionsResponse):
            message.error_code = (
                0  # Theirs takes any error for an answer in version 0, which is how that error is sent.
            )
        ours = encode(message, version)
        theirs = convert(message, version, other.fields, other).encode(version=version)
        assert bytes(theirs) == ours
        back = other.decode(ours, version=version)
        back._header = None  # Theirs asks for it, and sets it only where a header was read.
        assert decode(cls, version, bytes(back.encode(version=version)))[0] == message
