"""The deduplication window of a queue: which sends are repeats.

Each send with a deduplication id is stored as a fingerprint of 16 bytes with its reply: message id and sequence number.
A repeat within the window gets the same reply, even if the message is settled. Expiry costs nothing per entry: entries
are in blocks in the order of time, and a block is dropped when its newest entry has expired.

Memory is bounded: about 61 bytes an entry, for at most `entries_max` entries and one block; beyond that the oldest
block is dropped early. The window always covers the last `entries_max` sends.

The state is a fold: `remember` for every appended send, in order, gives the same window after a restart. The module
does not know settings, clocks or queues: the length of the window is an argument.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import deque
from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.envelope import derive_message_id

FINGERPRINT_BYTES: Final = 16
ID_BYTES: Final = 16
ENTRIES_MAX: Final = 1_000_000
NO_LANE: Final = -1

_BLOCK_MIN: Final = 32  # A queue with few sends needs little memory; blocks grow with the traffic.
_BLOCK_MAX: Final = 262_144  # A miss searches every block; large blocks keep their number small.
_OLD_BLOCK_FIELDS: Final = 6
_NEVER_MS: Final = -(1 << 62)  # The time of a send that counts as expired.
_IDS_FIELD: Final = 9  # Of a stored block; earlier versions do not write it, and ignore it.
_NO_ID: Final = bytes(16)


def deduplication_id(given: str, body: bytes, by_content: bool) -> str:
    """The deduplication id of a send: the sender's own, else the SHA-256 of the body if `by_content`, else none."""
    if given or not by_content:
        return given
    return hashlib.sha256(body).hexdigest()


def fingerprint(identity: str, group: str = "") -> bytes:
    """The fingerprint of a deduplication id. With the scope "group", the group is part of it."""
    scope = group.encode()
    return hashlib.blake2b(b"%d:%b%b" % (len(scope), scope, identity.encode()), digest_size=FINGERPRINT_BYTES).digest()


@final
class FirstSend:
    """The reply to the first send with a deduplication id."""

    def __init__(self, message_id: str, sequence: int, at_ms: int, lane: int = NO_LANE) -> None:
        self.message_id = message_id
        self.sequence = sequence
        self.at_ms = at_ms
        self.lane = lane


@final
class _Block:
    """Sends in the order of arrival, with a hash table over their fingerprints that is at most half full.

    All memory is allocated at once: growing columns would be copied repeatedly and fragment the heap.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.fingerprints = bytearray(FINGERPRINT_BYTES * capacity)
        self.lanes = array("i", bytes(4 * capacity))
        self.sequences = array("q", bytes(8 * capacity))
        self.times = array("q", bytes(8 * capacity))
        self.ids = bytearray()  # Message ids; zeros for an id that is derived from lane and offset. Made on first use.
        self.newest_ms = 0
        size = 1
        while size < 2 * capacity:
            size *= 2
        self._mask = size - 1
        self._table = array("I", bytes(4 * size))  # Index of the entry plus one; 0 is free.

    def find(self, mark: bytes, start: int) -> int:
        """The index of the entry; -1 if there is none. `start` is `_start_of` the fingerprint."""
        table = self._table
        mask = self._mask
        at = start & mask
        while True:
            index = table[at] - 1
            if index < 0:
                return -1
            if self.fingerprints.startswith(mark, index * FINGERPRINT_BYTES):
                return index
            at = (at + 1) & mask

    def put(self, mark: bytes, message_id: bytes, lane: int, sequence: int, at_ms: int) -> None:
        """Store a send. A fingerprint that is in the block already keeps its entry and gets the new values."""
        self.newest_ms = max(self.newest_ms, at_ms)
        start = _start_of(mark)
        index = self.find(mark, start)
        if index < 0:
            index = self.count
            self.count += 1
            self.fingerprints[index * FINGERPRINT_BYTES : (index + 1) * FINGERPRINT_BYTES] = mark
            self._enter(start, index)
        if message_id and not self.ids:
            self.ids = bytearray(ID_BYTES * self.capacity)
        if self.ids:
            self.ids[index * ID_BYTES : (index + 1) * ID_BYTES] = message_id or _NO_ID
        self.lanes[index] = lane
        self.sequences[index] = sequence
        self.times[index] = at_ms

    def _enter(self, start: int, index: int) -> None:
        at = start & self._mask
        while self._table[at]:
            at = (at + 1) & self._mask
        self._table[at] = index + 1

    def message_id(self, index: int) -> str:
        """The message id in the reply."""
        if self.ids:
            raw = bytes(self.ids[index * ID_BYTES : (index + 1) * ID_BYTES])
            if raw != _NO_ID:
                return _id_text(raw)
        return derive_message_id(self.lanes[index], self.sequences[index])

    def snapshot(self) -> list[Any]:
        """The columns as views of live memory; the caller encodes them before the block changes."""
        count = self.count
        return [
            self.capacity,
            self.newest_ms,
            memoryview(self.fingerprints)[: count * FINGERPRINT_BYTES],
            [],  # Once the message ids that are not derived, by index.
            memoryview(self.sequences)[:count].cast("B"),
            memoryview(self.times)[:count].cast("B"),
            memoryview(self.lanes)[:count].cast("B"),
            memoryview(self._table).cast("B"),
            sys.byteorder,
            memoryview(self.ids)[: count * ID_BYTES],
        ]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        self.count = len(state[2]) // FINGERPRINT_BYTES
        self.newest_ms = int(state[1])
        self.fingerprints[: len(state[2])] = state[2]
        if state[3] or (len(state) > _IDS_FIELD and state[_IDS_FIELD]):
            self.ids = bytearray(ID_BYTES * self.capacity)
        for index, raw in state[3]:
            self.ids[index * ID_BYTES : (index + 1) * ID_BYTES] = raw
        if len(state) > _IDS_FIELD and state[_IDS_FIELD]:
            self.ids[: len(state[_IDS_FIELD])] = state[_IDS_FIELD]
        for column, stored in ((self.sequences, state[4]), (self.times, state[5]), (self.lanes, state[6])):
            memoryview(column).cast("B")[: len(stored)] = stored
        table = array("I")
        table.frombytes(state[7])
        if state[8] != sys.byteorder:
            for column in (self.sequences, self.times, self.lanes, table):
                column.byteswap()
        self._table = table


@final
class DeduplicationWindow:
    """The remembered sends of one queue, in blocks from old to new. Times are hall time and never decrease."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._blocks: deque[_Block] = deque()  # The newest is the last.
        self.count = 0

    def find(self, mark: bytes, now_ms: int, window_ms: int) -> FirstSend | None:
        """The first send with this fingerprint, if its window has not ended."""
        start = _start_of(mark)
        for block in reversed(self._blocks):
            if block.newest_ms + window_ms <= now_ms:
                return None  # The blocks before it are older.
            index = block.find(mark, start)
            if index >= 0:
                if block.times[index] + window_ms <= now_ms:
                    return None
                id = block.message_id(index)
                return FirstSend(id, block.sequences[index], block.times[index], block.lanes[index])
        return None

    def decide(self, mark: bytes, now_ms: int, window_ms: int, refuses: bool) -> FirstSend | Code | None:
        """None for a new send. For a repeat the reply to the first, or REPEATED_SEND if the queue refuses repeats."""
        found = self.find(mark, now_ms, window_ms)
        return Code.REPEATED_SEND if found is not None and refuses else found

    def remember(
        self, mark: bytes, message_id: str, sequence: int, at_ms: int, window_ms: int, lane: int = NO_LANE
    ) -> None:
        """Store an appended send, and drop blocks that have expired or exceed the bound.

        An id that is derived from lane and offset is not stored: then `message_id` is empty and the sequence is the
        offset.
        """
        blocks = self._blocks
        while blocks and blocks[0].newest_ms + window_ms <= at_ms:
            self.count -= blocks.popleft().count
        if not blocks or blocks[-1].count >= blocks[-1].capacity:
            # A block as large as all others together: few blocks to search, and few entries that expire late.
            blocks.append(_Block(max(_BLOCK_MIN, min(self.count, self._entries_max // 4, _BLOCK_MAX))))
        newest = blocks[-1]
        before = newest.count
        newest.put(mark, _id_bytes(message_id), lane, sequence, at_ms)
        self.count += newest.count - before
        while len(blocks) > 1 and self.count - blocks[0].count >= self._entries_max:
            self.count -= blocks.popleft().count

    def forget(self, mark: bytes) -> None:
        """Remove a send whose transaction was aborted: its message is never delivered."""
        start = _start_of(mark)
        for block in reversed(self._blocks):
            index = block.find(mark, start)
            if index >= 0:
                block.times[index] = _NEVER_MS
                return

    def expire(self, now_ms: int, window_ms: int) -> None:
        """Drop expired blocks; an idle queue frees its memory with this."""
        while self._blocks and self._blocks[0].newest_ms + window_ms <= now_ms:
            self.count -= self._blocks.popleft().count

    def clear(self) -> None:
        """Forget all sends."""
        self._blocks = deque()
        self.count = 0

    def snapshot(self) -> list[Any]:
        """For `restore`. Contains views of live memory: the caller encodes it at once."""
        return [block.snapshot() for block in self._blocks]

    def restore(self, state: list[Any]) -> None:
        self.clear()
        for stored in state:
            block = _Block(int(stored[0]))
            if len(stored) == _OLD_BLOCK_FIELDS:
                _restore_old(block, stored)
            else:
                block.restore(stored)
            self._blocks.append(block)
            self.count += block.count


def _restore_old(block: _Block, stored: list[Any]) -> None:
    """Read the snapshot format in which every entry has its message id."""
    marks, ids = stored[2], stored[3]
    sequences = array("q", stored[4])
    for index, at_ms in enumerate(array("q", stored[5])):
        mark = marks[index * FINGERPRINT_BYTES : (index + 1) * FINGERPRINT_BYTES]
        block.put(mark, ids[index * ID_BYTES : (index + 1) * ID_BYTES], NO_LANE, sequences[index], at_ms)
    block.newest_ms = int(stored[1])


def _start_of(mark: bytes) -> int:
    """The first slot to probe; fingerprints are uniformly distributed."""
    return int.from_bytes(mark[:4], "little")


def _id_bytes(message_id: str) -> bytes:
    """The 16 bytes of a UUID, the form of all ids that the broker assigns; empty for other ids."""
    digits = message_id.replace("-", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return b""
    return raw if len(raw) == ID_BYTES else b""


def _id_text(raw: bytes) -> str:
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
