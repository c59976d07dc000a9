"""The bytes of the write-ahead log: frames, and the entries inside them.

A frame holds what one round writes: all entries that arrived while the round before was being synced. A crash tears
whole frames. The `horizon` of a frame is the position up to which the log was known to be durable when the frame was
written. Recovery compares it with the position of a broken frame to distinguish a torn tail (nothing in it was
acknowledged) from damage (something was).

    frame                                         entry
     0  u32  magic "LHWF"                          0  u32  size of this entry
     4  u32  CRC-32C of everything from byte 8     4  u8   kind
     8  u32  size of the frame                     5  u8   flags
    12  u32  number of entries (0: continue in     6  u16  shard
             the next file)                        8  u64  sequence in the shard
    16  u64  position of the frame in the log     16  u32  epoch of the shard's leader
    24  u64  horizon                              20  u32  0, reserved
    32  i64  hall time in milliseconds            24  body
    40  u32  incarnation: which start of the node
    44  u32  0, reserved
    48  entries

    body of a BATCH       u64 partition, then the batch as stored, or a part of it: see its flags
    body of a REFERENCE   u64 partition, u64 position in its segment, then the 61 bytes of the batch's header as stored
    body of an EVENT      u8 room, then the event in MessagePack, or a part of it: see its flags

All numbers are big-endian. A frame has its own position, so that an old frame in a recycled file is not mistaken for a
new one. It also has an incarnation, which never decreases along the log, so that a frame that a crash left after a cut
is not mistaken for one either.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, final

from crc32c import crc32c

from longhall.world.ports import Buffer

FRAME_MAGIC: Final = 0x4C485746
FRAME_MAGIC_BYTES: Final = b"LHWF"
FRAME_HEADER_BYTES: Final = 48
FRAME_BYTES_MAX: Final = 2 * 1024 * 1024  # A frame is closed beyond this; one more entry may follow.
ENTRY_HEADER_BYTES: Final = 24
ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024

BATCH: Final = 1
REFERENCE: Final = 2
EVENT: Final = 3

STARTS_SEGMENT: Final = 1  # Flag of BATCH and REFERENCE: the partition began a new segment with this batch.
BATCH_CONTINUED: Final = 2  # Flag of BATCH: the next entry of the shard continues the batch.
BATCH_CONTINUES: Final = 4  # Flag of BATCH: this entry continues the batch of the entry before.
CONTINUED: Final = 1  # Flag of EVENT: the next entry of the shard continues the event.
CONTINUES: Final = 2  # Flag of EVENT: this entry continues the event of the entry before.

_FRAME: Final = struct.Struct(">IIIIQQqII")
_FRAME_CHECKED: Final = struct.Struct(">IIQQqII")
_ENTRY: Final = struct.Struct(">IBBHQII")
_U64: Final = struct.Struct(">Q")
_U64_PAIR: Final = struct.Struct(">QQ")


@final
class Frame:
    """A valid frame as read. Its entries are decoded on demand."""

    def __init__(
        self, position: int, size_bytes: int, horizon: int, time_ms: int, incarnation: int, buffer: bytes, at: int
    ) -> None:
        self.position = position
        self.size_bytes = size_bytes
        self.horizon = horizon
        self.time_ms = time_ms
        self.incarnation = incarnation
        self._buffer = buffer
        self._at = at

    @property
    def is_last(self) -> bool:
        """True if the log continues in the next file."""
        return self.size_bytes == FRAME_HEADER_BYTES

    @property
    def entries(self) -> list[Entry]:
        """All entries, in order."""
        return decode_entries(self._buffer, self._at + FRAME_HEADER_BYTES, self._at + self.size_bytes)

    def rolls(self) -> list[Entry]:
        """The batches among the entries with which their partition began a new segment."""
        found: list[Entry] = []
        buffer = self._buffer
        at = self._at + FRAME_HEADER_BYTES
        end = self._at + self.size_bytes
        while at < end:
            size = int.from_bytes(buffer[at : at + 4], "big")
            if buffer[at + 5] & STARTS_SEGMENT and buffer[at + 4] != EVENT:
                found += decode_entries(buffer, at, at + size)
            at += size
        return found


@final
class Entry:
    """One entry of a shard's sequence. Its body may have two pieces: `lead` is the partition of a BATCH, so that the
    batch itself is one object and need not be copied again.
    """

    def __init__(
        self, kind: int, flags: int, shard: int, sequence: int, epoch: int, rest: bytes, lead: bytes = b""
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.shard = shard
        self.sequence = sequence
        self.epoch = epoch
        self.lead = lead
        self.rest = rest

    @property
    def body(self) -> bytes:
        """The bytes after the header of the entry."""
        return self.lead + self.rest if self.lead else self.rest

    @property
    def size_bytes(self) -> int:
        """The size of the body."""
        return len(self.lead) + len(self.rest)

    def partition(self) -> int:
        """The partition that a BATCH or REFERENCE belongs to."""
        partition: int = _U64.unpack_from(self.lead or self.rest)[0]
        return partition

    def batch(self) -> bytes:
        """The stored batch of a BATCH; the stored header of a REFERENCE."""
        if self.lead:
            return self.rest
        return self.rest[8:] if self.kind == BATCH else self.rest[16:]

    def segment_position(self) -> int:
        """The position of the batch of a REFERENCE in its segment."""
        position: int = _U64.unpack_from(self.rest, 8)[0]
        return position

    def room(self) -> int:
        """The room that applies an EVENT."""
        return self.rest[0]

    def event(self) -> bytes:
        """The MessagePack of an EVENT."""
        return self.rest[1:]


def encode_batch(flags: int, shard: int, sequence: int, epoch: int, partition: int, size_bytes: int) -> bytes:
    """The bytes before a stored batch of `size_bytes` in the log."""
    head = _ENTRY.pack(ENTRY_HEADER_BYTES + 8 + size_bytes, BATCH, flags, shard, sequence, epoch, 0)
    return head + _U64.pack(partition)


def encode_reference(
    flags: int, shard: int, sequence: int, epoch: int, partition: int, segment_position: int, header: bytes
) -> bytes:
    """A whole entry that refers to a batch in its segment."""
    size = ENTRY_HEADER_BYTES + 16 + len(header)
    head = _ENTRY.pack(size, REFERENCE, flags, shard, sequence, epoch, 0)
    return head + _U64_PAIR.pack(partition, segment_position) + header


def encode_event(flags: int, shard: int, sequence: int, epoch: int, room: int, event: bytes) -> bytes:
    """A whole entry with an event, or with a part of an event that is too large for one entry."""
    head = _ENTRY.pack(ENTRY_HEADER_BYTES + 1 + len(event), EVENT, flags, shard, sequence, epoch, 0)
    return head + bytes((room,)) + event


def encode_entry(entry: Entry) -> bytes:
    """An entry as stored in the log."""
    size = ENTRY_HEADER_BYTES + entry.size_bytes
    head = _ENTRY.pack(size, entry.kind, entry.flags, entry.shard, entry.sequence, entry.epoch, 0)
    return b"".join((head, entry.lead, entry.rest))


def encode_frame_header(
    position: int, horizon: int, time_ms: int, incarnation: int, entries: int, pieces: Sequence[Buffer]
) -> bytes:
    """The header of a frame; `pieces` are its entries one after another, split anywhere."""
    size = FRAME_HEADER_BYTES + sum([len(piece) for piece in pieces])
    checked = _FRAME_CHECKED.pack(size, entries, position, horizon, time_ms, incarnation, 0)
    crc = crc32c(checked)
    for piece in pieces:
        crc = crc32c(piece, crc)
    return b"".join((FRAME_MAGIC_BYTES, crc.to_bytes(4, "big"), checked))


def frame_size(buffer: bytes, at: int, position: int) -> int:
    """The size of the frame at `at` if its header states `position`; else 0."""
    if at + FRAME_HEADER_BYTES > len(buffer):
        return 0
    magic, _, size, _, stands_at, _, _, _, _ = _FRAME.unpack_from(buffer, at)
    if magic != FRAME_MAGIC or stands_at != position:
        return 0
    if size < FRAME_HEADER_BYTES or size > FRAME_HEADER_BYTES + FRAME_BYTES_MAX + ENTRY_BYTES_MAX:
        return 0
    found: int = size
    return found


def frame_position(buffer: bytes, at: int) -> int:
    """The position that the frame at `at` states; -1 if there is no frame header."""
    if at + FRAME_HEADER_BYTES > len(buffer):
        return -1
    position: int = _U64.unpack_from(buffer, at + 16)[0]
    return position


def decode_frame(buffer: bytes, at: int, position: int) -> Frame | None:
    """The frame at `at`, or None if its position, length or checksum is wrong."""
    size = frame_size(buffer, at, position)
    if size == 0 or at + size > len(buffer):
        return None
    _, crc, _, count, _, horizon, time_ms, incarnation, _ = _FRAME.unpack_from(buffer, at)
    if crc32c(memoryview(buffer)[at + 8 : at + size]) != crc:
        return None
    if _count_entries(buffer, at + FRAME_HEADER_BYTES, at + size) != count:
        return None
    return Frame(position, size, horizon, time_ms, incarnation, buffer, at)


def _count_entries(buffer: bytes, at: int, end: int) -> int:
    """The number of entries that exactly fill the range; -1 if they do not fill it."""
    count = 0
    while at < end:
        size = int.from_bytes(buffer[at : at + 4], "big")
        if size < ENTRY_HEADER_BYTES:
            return -1
        at += size
        count += 1
    return count if at == end else -1


def decode_entries(buffer: bytes, at: int, end: int) -> list[Entry]:
    """All complete entries from `at` on."""
    entries: list[Entry] = []
    while at + ENTRY_HEADER_BYTES <= end:
        size, kind, flags, shard, sequence, epoch, _ = _ENTRY.unpack_from(buffer, at)
        if size < ENTRY_HEADER_BYTES or at + size > end:
            break
        entries.append(Entry(kind, flags, shard, sequence, epoch, buffer[at + ENTRY_HEADER_BYTES : at + size]))
        at += size
    return entries


def cut_entries(buffer: Buffer) -> list[Entry]:
    """The same for a whole buffer of any type. Each batch is one object without its partition, copied once."""
    entries: list[Entry] = []
    view = memoryview(buffer)
    at = 0
    end = len(view)
    while at + ENTRY_HEADER_BYTES <= end:
        size, kind, flags, shard, sequence, epoch, _ = _ENTRY.unpack_from(view, at)
        if size < ENTRY_HEADER_BYTES or at + size > end:
            break
        body_at = at + ENTRY_HEADER_BYTES
        lead = b""
        if kind == BATCH and size >= ENTRY_HEADER_BYTES + 8:
            lead = bytes(view[body_at : body_at + 8])
            body_at += 8
        entries.append(Entry(kind, flags, shard, sequence, epoch, bytes(view[body_at : at + size]), lead))
        at += size
    return entries
