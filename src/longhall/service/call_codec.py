"""The decoder for calls between processes: all operations, by the name of their class."""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import ModuleType
from typing import Any, Final

import msgspec

from longhall.cluster.placement import (
    move_operations,
    part_operations,
    share_operations,
    topic_operations,
    transaction_operations,
)
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Call, Caller, Operation
from longhall.service import (
    access_operations,
    administration,
    audit_operations,
    broker_operations,
    directory_operations,
    exchange_operations,
    kafka_operations,
    limit_operations,
    partition_operations,
    policy_operations,
    queue_operations,
    seal_operations,
    usage_operations,
)


def operations_of(module: ModuleType) -> list[type[Operation[Any]]]:
    """The operations that a module defines, in their order."""
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, Operation)
        and one.__module__ == module.__name__
        and not one.__name__.endswith("Operation")
    ]


_MODULES: Final = (
    queue_operations,
    exchange_operations,
    policy_operations,
    administration,
    broker_operations,
    directory_operations,
    access_operations,
    limit_operations,
    kafka_operations,
    seal_operations,
    audit_operations,
    usage_operations,
    topic_operations,
    transaction_operations,
    move_operations,
    part_operations,
    partition_operations,
    share_operations,
)
OPERATIONS: Final = [operation for module in _MODULES for operation in operations_of(module)]

_AnyOperation: Any = reduce(or_, OPERATIONS)


class _DecodedCall(msgspec.Struct, array_like=True):
    operation: _AnyOperation
    caller: Caller = NOBODY_IN_PARTICULAR
    incarnation: bytes = b""


_decoder: Final = msgspec.msgpack.Decoder(_DecodedCall)


def decode_call(body: bytes) -> Call:
    """Decode a call. `msgspec.DecodeError` for malformed bytes or an unknown operation."""
    decoded = _decoder.decode(body)
    return Call(decoded.operation, decoded.caller, decoded.incarnation)
