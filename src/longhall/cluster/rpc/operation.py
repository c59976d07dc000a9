"""What one process asks of another: an operation is a structure, and its type says what the reply is.

    class PurgeQueue(QueueOperation[None]):
        ...

An operation travels as a MessagePack array that begins with the name of its class, and so does everything in it that is
a structure of its own. Both sides may be of different versions: fields that one side does not know are passed over, and
fields that the other side does not send have their defaults. So a field is only ever added at the end, with a default.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Generic, TypeVar, get_args

import msgspec

from longhall.errors import Code, LonghallError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], array_like=True, tag=True):
    """Something that can be asked. `R_co` is the type of the reply."""

    waits: ClassVar[bool] = False  # True if nothing is lost when it is cancelled: it waits for messages.


class Caller(msgspec.Struct, array_like=True, frozen=True):
    """Who asks, as the process that has the client's connection has verified it."""

    identity: str = ""  # An access key; empty where no client has to show one.
    address: str = ""


NOBODY_IN_PARTICULAR: Final = Caller()

_encode: Final = msgspec.msgpack.Encoder().encode
_reply_decoders: dict[type[Operation[Any]], msgspec.msgpack.Decoder[Any]] = {}


def reply_type(operation: type[Operation[Any]]) -> Any:
    """The type of an operation's reply, as its class says it."""
    for base in getattr(operation, "__orig_bases__", ()):
        arguments = get_args(base)
        if arguments:
            return arguments[0]
    raise TypeError(f"{operation.__name__} does not say what its reply is")


class Call(msgspec.Struct, array_like=True):
    """An operation on its way. With an `incarnation`, the id of a topic, a topic or queue of the same name and another
    id is not the one that is meant.
    """

    operation: Any
    caller: Caller = NOBODY_IN_PARTICULAR
    incarnation: bytes = b""


def encode_call(operation: Operation[Any], caller: Caller = NOBODY_IN_PARTICULAR, incarnation: bytes = b"") -> bytes:
    """A call as it travels."""
    return _encode(Call(operation, caller, incarnation))


def encode_reply(reply: Any) -> bytes:
    """A reply as it travels."""
    return _encode(reply)


def decode_reply(operation: Operation[R], reply: bytes) -> R:
    """The reply to an operation. NOT_READY for bytes that are no reply to it."""
    kind = type(operation)
    decoder = _reply_decoders.get(kind)
    if decoder is None:
        decoder = _reply_decoders[kind] = msgspec.msgpack.Decoder(reply_type(kind))
    try:
        result: R = decoder.decode(reply)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.NOT_READY, f"the reply of another node cannot be read: {error}") from None
    return result
