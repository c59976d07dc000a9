"""Messages with arbitrary content, made from their tables."""

from __future__ import annotations

from random import Random
from typing import Any

from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.messages.membership import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from longhall.doors.kafka.wire.schema import Message, Spec, within

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_LETTERS = "abcdefgh-._ÄßЖ漢😀\0"


def every_message() -> list[tuple[type[Message], int]]:
    """Each message class with each of its versions."""
    found: list[tuple[type[Message], int]] = []
    for api in API.values():
        for version in range(api.version_min, api.version_max + 1):
            found += [(api.request, version), (api.response, version)]
    found += [(ConsumerProtocolSubscription, version) for version in range(4)]
    found += [(ConsumerProtocolAssignment, version) for version in range(4)]
    return found


def sample(cls: type[Message], version: int, random: Random) -> Any:
    """One with every field of this version filled in, and the others left at their defaults."""
    values = {name: _value(spec, version, random) for name, spec in cls.TABLE.items() if within(spec.versions, version)}
    return cls(**values)


def _value(spec: Spec, version: int, random: Random) -> Any:
    if within(spec.null, version) and random.random() < 0.25:
        return None
    if spec.kind == "structure":
        return sample(spec.of, version, random)
    if spec.kind == "array":
        count = random.choice((0, 1, 1, 2, 3))
        if isinstance(spec.of, str):
            return [_scalar(spec.of, random) for _ in range(count)]
        return [sample(spec.of, version, random) for _ in range(count)]
    return _scalar(spec.kind, random)


def _scalar(kind: str, random: Random) -> Any:
    if kind in _RANGES:
        low, high = _RANGES[kind]
        return random.choice((low, high, 0, 1, random.randint(low, high)))
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "float64":
        return random.random()
    if kind == "uuid":
        return random.randbytes(16)
    if kind == "data":
        return random.randbytes(random.choice((0, 1, 17, 127, 128, 300)))
    assert kind == "string"
    return "".join(random.choice(_LETTERS) for _ in range(random.choice((0, 1, 5, 40, 150))))
