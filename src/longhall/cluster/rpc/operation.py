"""Operations that one process asks of another: each is a structure, whose type declares the type of its reply.

    class PurgeQueue(QueueOperation[None]):
        ...

An operation is encoded as a MessagePack array that begins with the name of its class, and so are the structures in it.
Both sides may be of different versions: unknown fields are ignored, and missing fields have their defaults. So a field
is only ever added at the end, with a default.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Generic, TypeVar, get_args

import msgspec

from longhall.errors import Code, LonghallError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], array_like=True, tag=True):
    """The base of all operations. `R_co` is the type of the reply."""

    waits: ClassVar[bool] = False  # True if it waits for messages, and may be cancelled without loss.


class Caller(msgspec.Struct, array_like=True, frozen=True):
    """The client, as verified by the process that has its connection."""

    identity: str = ""  # A user, or an access key of the file of credentials; empty without authentication.
    address: str = ""
    tenant: str = ""  # Empty without authentication.
    kind: str = ""  # See `front/identity.py`; empty without authentication.
    tls: bool = False  # True if the client's connection is encrypted.
    action: str = ""  # The name of the request at a door whose policies name it: SQS.
    door: str = ""  # kafka, sqs, amqp, stomp or http; empty for calls of Longhall itself.


NOBODY_IN_PARTICULAR: Final = Caller()

_encode: Final = msgspec.msgpack.Encoder().encode
_reply_decoders: dict[type[Operation[Any]], msgspec.msgpack.Decoder[Any]] = {}


def reply_type(operation: type[Operation[Any]]) -> Any:
    """The type of an operation's reply, as its class declares it."""
    for base in getattr(operation, "__orig_bases__", ()):
        arguments = get_args(base)
        if arguments:
            return arguments[0]
    raise TypeError(f"{operation.__name__} does not say what its reply is")


class Call(msgspec.Struct, array_like=True):
    """An operation with its caller, as it is sent. With an `incarnation`, a topic id, the operation is refused for a
    topic or queue of the same name and another id.
    """

    operation: Any
    caller: Caller = NOBODY_IN_PARTICULAR
    incarnation: bytes = b""


def encode_call(operation: Operation[Any], caller: Caller = NOBODY_IN_PARTICULAR, incarnation: bytes = b"") -> bytes:
    """Encode a call."""
    return _encode(Call(operation, caller, incarnation))


def encode_reply(reply: Any) -> bytes:
    """Encode a reply."""
    return _encode(reply)


def decode_reply(operation: Operation[R], reply: bytes) -> R:
    """Decode the reply to an operation. NOT_READY if the bytes are not a valid reply."""
    kind = type(operation)
    decoder = _reply_decoders.get(kind)
    if decoder is None:
        decoder = _reply_decoders[kind] = msgspec.msgpack.Decoder(reply_type(kind))
    try:
        result: R = decoder.decode(reply)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.NOT_READY, f"the reply of another node cannot be read: {error}") from None
    return result
