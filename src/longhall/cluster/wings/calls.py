"""Verbs of queues between halls: what goes over the link to the leader of a wing, and what comes back.

A call is a verb and its arguments, in msgpack; the types say what may be in them. A refusal travels as the error it is.
Fields that the other side does not know are passed over, and those that it does not send have their defaults.
"""

from __future__ import annotations

import zlib
from typing import Any, Final, Generic, TypeVar, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.queues.messages import (
    Accepted,
    Attribute,
    Counts,
    Delivery,
    Depth,
    Letter,
    LetterPage,
    MoveTask,
    Outgoing,
    Page,
)
from longhall.queues.settings import QueueSettings

DESK: Final = "desk"  # The door through which calls are carried.


class Furniture(msgspec.Struct, kw_only=True):
    """A topic, and its queue if it is one, as it shall be in a wing."""

    name: str
    topic_id: bytes
    partitions: int
    configuration: dict[str, str]
    queue: QueueSettings | None = None


def fingerprint(furniture: Furniture) -> int:
    """By which both sides know without many words that they have the same."""
    return zlib.crc32(msgspec.json.encode(furniture, order="deterministic"))


class Wish(msgspec.Struct, kw_only=True):
    """What somebody wants to receive. The ticket, if it has one, is for ending the wait."""

    name: str
    count_max: int
    wait_ms: int
    lease_ms: int
    attempt_id: str = ""
    filter: str = ""
    consumer: str = ""
    in_parts: bool = True
    ticket: str = ""
    life: bytes = b""  # The id of the topic that is meant: what has the same name and another id is not.


R = TypeVar("R")


@final
class Verb(Generic[R]):
    """What can be asked: what it takes, and what it gives."""

    def __init__(self, name: str, arguments: Any, result: Any) -> None:
        self.name = name
        self.arguments: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(arguments)
        self.result: msgspec.msgpack.Decoder[R] = msgspec.msgpack.Decoder(result)


# Of the desk, as they are there.
SEND: Final = Verb[list[Accepted]]("send", tuple[str, list[Outgoing]], list[Accepted])
SETTLE: Final = Verb[list[Code | None]]("settle", tuple[str, list[str], str], list[Code | None])
CHANGE_LEASE: Final = Verb[list[Code | None]]("change_lease", tuple[str, list[tuple[str, int]], str], list[Code | None])
HAND_BACK: Final = Verb[list[Code | None]]("hand_back", tuple[str, list[str]], list[Code | None])
ANSWER: Final = Verb[Accepted]("answer", tuple[str, str, Outgoing, str], Accepted)
PURGE: Final = Verb[None]("purge", tuple[str], None)
SWITCH: Final = Verb[None]("switch", tuple[str, bool], None)
BEGIN: Final = Verb[str]("begin", tuple[str], str)
ADD: Final = Verb[None]("add", tuple[str, str, int, bytes], None)
FINISH: Final = Verb[Accepted]("finish", tuple[str, str, int, Outgoing], Accepted)
ABORT: Final = Verb[None]("abort", tuple[str, str], None)
READ_PART: Final = Verb[bytes]("read_part", tuple[str, str, int], bytes)
REWIND: Final = Verb[None]("rewind", tuple[str, str | int | dict[int, int]], None)
PEEK: Final = Verb[Page]("peek", tuple[str, int, int | str, bool], Page)
LEASED: Final = Verb[Page]("leased", tuple[str, int, int | str], Page)
SEARCH: Final = Verb[Page]("search", tuple[str, str, str, int, int, int, int | str, bool], Page)
LETTERS: Final = Verb[LetterPage]("letters", tuple[str, int, str], LetterPage)
LETTER: Final = Verb[Letter]("letter", tuple[str, str], Letter)
EDIT_LETTER: Final = Verb[Letter]("edit_letter", tuple[str, str, bytes | None, dict[str, Attribute] | None], Letter)
START_MOVE: Final = Verb[MoveTask]("start_move", tuple[str, str, int, list[str] | None, str], MoveTask)
CANCEL_MOVE: Final = Verb[MoveTask]("cancel_move", tuple[str], MoveTask)
MOVES: Final = Verb[list[MoveTask]]("moves", tuple[str], list[MoveTask])
DEPTH: Final = Verb[Depth]("depth", tuple[str], Depth)
COUNTS: Final = Verb[Counts]("counts", tuple[str], Counts)
# Of wings.
RECEIVE: Final = Verb[list[Delivery]]("receive", tuple[Wish], list[Delivery])
ENOUGH: Final = Verb[None]("enough", tuple[str], None)
FURNISH: Final = Verb[None]("furnish", tuple[Furniture], None)
CLEAR: Final = Verb[None]("clear", tuple[str, bytes], None)
INVENTORY: Final = Verb[list[tuple[str, bytes, int]]]("inventory", tuple[()], list[tuple[str, bytes, int]])

VERBS: Final[dict[str, Verb[Any]]] = {one.name: one for one in list(globals().values()) if isinstance(one, Verb)}

_encode = msgspec.msgpack.Encoder().encode
_calls = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw, bytes])


def encode_call(verb: Verb[Any], *arguments: Any, life: bytes = b"") -> bytes:
    """With a life, the id of its topic, a queue is meant that has this id, and none that only has its name."""
    return _encode((verb.name, arguments, life))


def decode_call(call: bytes) -> tuple[str, tuple[Any, ...], bytes]:
    """The name of the verb, the arguments, and which life of a queue is meant. INVALID_REQUEST for what is no call."""
    try:
        name, arguments, life = _calls.decode(call)
        verb = VERBS.get(name)
        if verb is None:
            raise LonghallError(Code.INVALID_REQUEST, f"a wing knows no verb {name[:40]!r}")
        return name, verb.arguments.decode(arguments), life
    except msgspec.DecodeError as error:
        raise LonghallError(Code.INVALID_REQUEST, f"what was asked of a wing cannot be read: {error}") from None


def encode_result(result: Any) -> bytes:
    return _encode(result)


def decode_result(verb: Verb[R], answer: bytes) -> R:
    """What the verb gives. NOT_READY for what is no answer to it."""
    try:
        return verb.result.decode(answer)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.NOT_READY, f"the answer of a wing cannot be read: {error}") from None
