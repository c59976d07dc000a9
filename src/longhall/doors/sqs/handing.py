"""What one worker hands to another of a request that it was asked: everything that is left to do, and no more.

The worker that has the connection reads HTTP, checks signature and origin, and writes the head of the answer; the one
that leads decodes the body, does what it says and encodes the result. So the dear part of a request is done by whoever
took it, and the other one believes what it is told: this is for workers of one node alone, never between nodes.
"""

from __future__ import annotations

import msgspec

from longhall.doors.sqs.wire.faults import SqsError


class Handed(msgspec.Struct, array_like=True):
    """A request in the JSON protocol."""

    action: str
    host: str  # How the client calls us.
    access_key: str  # Whoever has signed; empty where nobody has to.
    body: bytes


class Told(msgspec.Struct, array_like=True):
    """The body of the answer, or what is wrong and a sentence about it."""

    body: bytes
    fault: tuple[str, str, int, bool] | None = None


_encode = msgspec.msgpack.Encoder().encode
_handed = msgspec.msgpack.Decoder(Handed)
_told = msgspec.msgpack.Decoder(Told)


def hand(handed: Handed) -> bytes:
    return _encode(handed)


def read_handed(data: bytes) -> Handed:
    """Of another worker of the same version: what cannot be read is a bug."""
    return _handed.decode(data)


def tell(body: bytes) -> bytes:
    return _encode(Told(body))


def tell_fault(error: SqsError) -> bytes:
    return _encode(Told(error.message.encode(), (*error.fault,)))


def read_told(data: bytes) -> Told:
    return _told.decode(data)
