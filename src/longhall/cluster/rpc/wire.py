"""The protocol between nodes: frames and their contents. Pure: it does no I/O.

    frame      0  u32  size of what follows           push       0  u32  epoch
               4  u8   kind                                      4  u32  number of entries
               5  body                                           8  u64  index of the first one
                                                                16  u64  committed
    request    0  u64  number                                   24  i64  hall time of the leader
               8  u8   size of the verb                         32  u32  CRC-32C of what follows
               9  verb, then what is asked                      36  entries as they stand in the write-ahead log

    answer     0  u64  number                         everything else is MessagePack
               8  u8   size of the refusal's word, 0 for none
               9  that word, then the answer or a sentence

Cancellations and the frames of streams have the layout of an answer: number, word, body.

All numbers are big-endian. A size is checked before anything is buffered; until the handshake is complete its bound is
small. The version in a greeting is the feature level that its sender writes; `reads` is the newest level that it reads.
A node ignores fields that it does not know, and does not send fields of a level above the current one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeVar, cast, final

import msgspec
from crc32c import crc32c

from longhall.errors import Code, LonghallError
from longhall.log.frames import ENTRY_BYTES_MAX, FRAME_BYTES_MAX, Entry, cut_entries
from longhall.world.ports import Buffer

FRAME_BYTES_BEFORE_GREETING: Final = 512  # The largest frame of a handshake has about 300 bytes.
ROOM_BYTES_BEFORE_GREETING: Final = 1024
SMALL_FRAME_BYTES: Final = 64 * 1024 + 64  # A larger frame is received into a buffer of its own,
LARGE_STEP_BYTES: Final = 1024 * 1024  # which begins with this size, more than the usual push, and grows fourfold.
CALL_BYTES_MAX: Final = 64 * 1024 * 1024  # One operation or reply: a receive may return almost this much.
PEER_FRAME_BYTES_MAX: Final = max(FRAME_BYTES_MAX + ENTRY_BYTES_MAX, CALL_BYTES_MAX) + 64 * 1024

GREETING: Final = 1
WELCOME: Final = 2
REFUSAL: Final = 3
FOLLOW: Final = 4
AGREED: Final = 5
PUSH: Final = 6
BEAT: Final = 7
SYNCED: Final = 8
REQUEST: Final = 9
ANSWER: Final = 10
CANCEL: Final = 11  # Cancels a request: its answer is not needed.
STREAM: Final = 12  # A request whose answer is a stream of items.
ITEM: Final = 13
CREDIT: Final = 14  # The number of items that may be sent in addition.
END: Final = 15  # The stream is over, with an error or without.
HELLO: Final = 32  # The handshake: see `authentication`.
CHALLENGE: Final = 33
PROOF: Final = 34

_HEAD: Final = struct.Struct(">IB")
_PUSH: Final = struct.Struct(">IIQQqI")
_U64: Final = struct.Struct(">Q")

_T = TypeVar("_T")


class Greeting(msgspec.Struct, kw_only=True):
    """The node that connects, its hall, and the purpose of the connection."""

    version: int = 1
    hall: str
    node: int
    incarnation: int
    purpose: str
    reads: int | msgspec.UnsetType = msgspec.UNSET  # Absent from a node that reads only level 1.


class Hello(msgspec.Struct, kw_only=True):
    """The first frame of a dialer that has a secret."""

    version: int = 1
    nonce: bytes
    node: int
    purpose: str


class Challenge(msgspec.Struct, kw_only=True):
    """The listener's proof of the secret, and its nonce for the dialer's proof."""

    nonce: bytes
    proof: bytes


class Proof(msgspec.Struct, kw_only=True):
    """The dialer's proof of the secret, which covers its greeting."""

    proof: bytes
    greeting: bytes  # An encoded `Greeting`.


class Welcome(msgspec.Struct, kw_only=True):
    """The reply to an accepted greeting."""

    version: int = 1
    node: int
    incarnation: int


class Refusal(msgspec.Struct, kw_only=True):
    """A refusal with its reason. `epoch` is the newest one that the sender knows, 0 if that is not the reason."""

    reason: str
    epoch: int = 0
    refetch: bool = False  # The leader's log starts after the end of the follower's.
    incomplete: bool = False  # The leader lacks entries that the follower has committed.
    divergent: bool = False  # The follower's state differs from the majority's.


class Follow(msgspec.Struct, kw_only=True):
    """The state of a follower's log, sent to its leader."""

    epoch: int
    index: int
    committed: int
    epochs: list[tuple[int, int]]
    nonces: dict[int, int] = {}


class Agreed(msgspec.Struct, kw_only=True):
    """The leader's reply: the index up to which the logs match. The follower truncates its log there."""

    epoch: int
    index: int
    committed: int
    level: int | msgspec.UnsetType = msgspec.UNSET  # Of the entries that follow; absent below level 2.


class Beat(msgspec.Struct, kw_only=True):
    """The heartbeat of the leader, with its position. The follower replies with a `Synced`."""

    epoch: int
    index: int
    committed: int
    time_ms: int
    level: int | msgspec.UnsetType = msgspec.UNSET  # As in `Agreed`; sent before any entry of this level.


class Synced(msgspec.Struct, kw_only=True):
    """Everything up to this index is on the follower's disk, under this epoch."""

    epoch: int
    index: int


@final
class Push:
    """Entries for a follower. It accepts all of them or none."""

    def __init__(self, epoch: int, first: int, count: int, committed: int, time_ms: int, entries: Buffer) -> None:
        self.epoch = epoch
        self.first = first
        self.count = count
        self.committed = committed
        self.time_ms = time_ms
        self.entries = entries

    def decode(self) -> list[Entry]:
        """Decode the entries."""
        found = cut_entries(self.entries)
        if len(found) != self.count:
            raise LonghallError(Code.INVALID_REQUEST, "a push does not have the entries that it says")
        return found


def said_level(level: int) -> int | msgspec.UnsetType:
    """A feature level as a field of a frame: frames of level 1 do not have it."""
    return level if level > 1 else msgspec.UNSET


def encode(kind: int, message: msgspec.Struct) -> bytes:
    """A frame with a message."""
    body = msgspec.msgpack.encode(message)
    return _HEAD.pack(1 + len(body), kind) + body


def decode(body: bytes, type: type[_T]) -> _T:
    """The message in a frame."""
    try:
        return msgspec.msgpack.decode(body, type=type)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.INVALID_REQUEST, f"a frame between nodes cannot be read: {error}") from None


def encode_push(epoch: int, committed: int, first: int, count: int, time_ms: int, size_bytes: int, crc: int) -> bytes:
    """The header of a push whose entries have `size_bytes` bytes."""
    numbers = _PUSH.pack(epoch, count, first, committed, time_ms, crc)
    return _HEAD.pack(1 + _PUSH.size + size_bytes, PUSH) + numbers


def decode_push(body: bytes | bytearray) -> Push:
    """Decode a push. CORRUPT_MESSAGE if its checksum does not match."""
    if len(body) < _PUSH.size:
        raise LonghallError(Code.INVALID_REQUEST, "a push is cut short")
    epoch, count, first, committed, time_ms, crc = _PUSH.unpack_from(body)
    entries = memoryview(body)[_PUSH.size :]
    if crc32c(entries) != crc:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a push does not have its checksum")
    return Push(epoch, first, count, committed, time_ms, entries)


def encode_request(number: int, verb: str, body: bytes) -> bytes:
    """A frame with a request."""
    word = verb.encode()
    assert len(word) < 256
    return _numbered_frame(REQUEST, number, word, body)


def encode_numbered(kind: int, number: int, word: str = "", body: bytes = b"") -> bytes:
    """A frame of a request or a stream of this number."""
    return _numbered_frame(kind, number, word.encode(), body)


def decode_numbered(body: bytes) -> tuple[int, str, bytes]:
    """The number, the word and the rest of such a frame."""
    return _numbered(body)


def encode_answer(number: int, code: Code | None, body: bytes) -> bytes:
    """A frame with the answer, or with a refusal and its message."""
    word = code.value.encode() if code is not None else b""
    return _numbered_frame(ANSWER, number, word, body)


def decode_request(body: bytes) -> tuple[int, str, bytes]:
    """Number, verb and body of a request."""
    number, word, rest = _numbered(body)
    return number, word, rest


def decode_answer(body: bytes) -> tuple[int, Code | None, bytes]:
    """Number of an answer, its refusal if any, and the body or the message of the refusal."""
    number, word, rest = _numbered(body)
    if not word:
        return number, None, rest
    try:
        return number, Code(word), rest
    except ValueError:  # A newer node has codes that this one does not know.
        return number, Code.INVALID_REQUEST, rest


def _numbered_frame(kind: int, number: int, word: bytes, body: bytes) -> bytes:
    head = _HEAD.pack(10 + len(word) + len(body), kind)
    return b"".join((head, _U64.pack(number), bytes((len(word),)), word, body))


def _numbered(body: bytes) -> tuple[int, str, bytes]:
    if len(body) < 9 or len(body) < 9 + body[8]:
        raise LonghallError(Code.INVALID_REQUEST, "a frame between nodes is cut short")
    end = 9 + body[8]
    try:
        return _U64.unpack_from(body)[0], body[9:end].decode(), body[end:]
    except UnicodeDecodeError:
        raise LonghallError(Code.INVALID_REQUEST, "a frame between nodes has no word where one belongs") from None


@final
class Splitter:
    """Splits a stream into frames. Bytes are received into `room`; a large frame has a buffer of its own.

    The body of a large push is that buffer, without a copy. The buffer grows as bytes arrive, so the size that a frame
    announces allocates no more than LARGE_STEP_BYTES.
    """

    def __init__(self) -> None:
        self.bytes_max = FRAME_BYTES_BEFORE_GREETING
        self._small = bytearray(ROOM_BYTES_BEFORE_GREETING)
        self._filled = 0
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_kind = 0
        self._large_filled = 0

    def room(self) -> memoryview:
        """The buffer for the next bytes of the stream."""
        if self._large is not None:
            if self._large_filled == len(self._large):
                grown = bytearray(min(4 * len(self._large), self._large_size))
                grown[: self._large_filled] = self._large
                self._large = grown
            return memoryview(self._large)[self._large_filled :]
        if self.bytes_max > SMALL_FRAME_BYTES > len(self._small):
            self._small = self._small.ljust(SMALL_FRAME_BYTES, b"\0")
        return memoryview(self._small)[self._filled :]

    def received(self, size_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Kind and body of every frame that is complete with the `size_bytes` bytes now in `room`. LonghallError if a
        size is invalid.
        """
        if self._large is not None:
            self._large_filled += size_bytes
            if self._large_filled == self._large_size:
                large, self._large = self._large, None
                # A push keeps this buffer without a copy: it has no other user, and `decode_push` accepts it.
                yield self._large_kind, cast(bytes, large) if self._large_kind == PUSH else bytes(large)
            return
        self._filled += size_bytes
        small = memoryview(self._small)
        at = 0
        try:
            while self._filled - at >= _HEAD.size:
                size, kind = _HEAD.unpack_from(small, at)
                if not 1 <= size <= self.bytes_max:
                    raise LonghallError(Code.INVALID_REQUEST, f"a frame between nodes cannot have {size} bytes")
                end = at + 4 + size
                if end > self._filled:
                    if end - at > SMALL_FRAME_BYTES:
                        self._begin_large(kind, size - 1, small[at + _HEAD.size : self._filled])
                        at = self._filled
                    break
                body = bytes(small[at + _HEAD.size : end])
                at = end
                yield kind, body
        finally:
            rest = self._filled - at
            if at and rest:
                small[:rest] = bytes(small[at : self._filled])
            self._filled = rest

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The same for bytes that are not in `room`."""
        at = 0
        while at < len(data):
            room = self.room()
            size = min(len(room), len(data) - at)
            room[:size] = data[at : at + size]
            at += size
            yield from self.received(size)

    def _begin_large(self, kind: int, size_bytes: int, begun: memoryview) -> None:
        large = bytearray(min(size_bytes, LARGE_STEP_BYTES))
        large[: len(begun)] = begun
        self._large = large
        self._large_size = size_bytes
        self._large_kind = kind
        self._large_filled = len(begun)


def refusal_of(body: bytes) -> Refusal:
    """Decode a refusal. If that fails, the reason is the decoding error."""
    try:
        return decode(body, Refusal)
    except LonghallError as error:
        return Refusal(reason=str(error))
