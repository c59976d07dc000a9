"""Slices of due time for delayed messages: coarse for the far future, fine for the near.

    level   length         read from           slices ahead, at most
    0       a minute       20 s before         70
    1       an hour        10 min before       25
    2       a day          1 h before          31
    3       thirty days    12 h before         123 (ten years)

A coarse slice that has begun accepts no more messages: messages due in it go one level finer, and its own messages are
restaged one level finer, in steps. A delay of three months is written four times and costs no memory while it waits;
ten years of delays need at most 250 logs. The key of a slice is one integer that sorts by its start.

This module has the arithmetic and the state of one slice. It does not know the time.
"""

from __future__ import annotations

from typing import Any, Final, final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

SLICE_MS: Final = (MINUTE_MS, HOUR_MS, DAY_MS, 30 * DAY_MS)
AHEAD_MS: Final = (20_000, 10 * MINUTE_MS, HOUR_MS, 12 * HOUR_MS)
COARSEST: Final = 3

SliceKey = int


def slice_at(level: int, due_ms: int) -> SliceKey:
    """The slice of this level that contains this time."""
    length_ms = SLICE_MS[level]
    return ((due_ms // length_ms * length_ms // MINUTE_MS) << 2) | level


def level_of(key: SliceKey) -> int:
    return key & 3


def start_ms_of(key: SliceKey) -> int:
    return (key >> 2) * MINUTE_MS


def end_ms_of(key: SliceKey) -> int:
    return (key >> 2) * MINUTE_MS + SLICE_MS[key & 3]


def begins_ms_of(key: SliceKey) -> int:
    """When its reading begins: a minute is loaded, a longer slice is restaged."""
    return (key >> 2) * MINUTE_MS - AHEAD_MS[key & 3]


def slice_for(due_ms: int, now_ms: int) -> SliceKey:
    """The slice in which a message due then is staged now: the coarsest that has not begun, else a minute."""
    if due_ms < now_ms:
        due_ms = now_ms  # Overdue messages are due now.
    level = COARSEST
    while level > 0:
        key = slice_at(level, due_ms)
        if begins_ms_of(key) > now_ms:
            return key
        level -= 1
    return slice_at(0, due_ms)


@final
class Slice:
    """One slice: its lane, and which of its messages are settled (moved or cancelled).

    `settled` has a bit for each offset from `base` on; full bytes at its front are cut off.
    """

    def __init__(self, key: SliceKey, lane: int, start_offset: int) -> None:
        self.key = key
        self.lane = lane
        self.start = start_offset
        self.end = start_offset
        self.live = 0  # Messages that are not settled.
        self.base = start_offset & ~7
        self.settled = bytearray([(1 << (start_offset & 7)) - 1] if start_offset & 7 else b"")
        # Only while the slice is in memory:
        self.slot = -1
        self.loaded = start_offset  # Each live message below is in the wheel, or the broker is moving it.
        self.indexed = 0  # Entries in the wheel, cancelled ones included.

    def is_settled(self, offset: int) -> bool:
        at = offset - self.base
        return at < 0 or (at >> 3 < len(self.settled) and (self.settled[at >> 3] >> (at & 7)) & 1 == 1)

    @property
    def floor(self) -> int:
        """The first offset that is not settled."""
        if not self.settled:
            return self.base
        bits = self.settled[0]
        at = 0
        while (bits >> at) & 1:
            at += 1
        return self.base + at

    def settle(self, first: int, count: int) -> None:
        """Settle a range of offsets; settled ones are not counted again."""
        at = max(first - self.base, 0)
        until = min(first + count, self.end) - self.base
        if at >= until:
            return
        bits = self.settled
        need = (until + 7) >> 3
        if len(bits) < need:
            bits.extend(bytes(need - len(bits)))
        while at < until:
            if at & 7 == 0 and until - at >= 8:
                whole = (until - at) >> 3
                index = at >> 3
                known = int.from_bytes(bits[index : index + whole], "little").bit_count()
                bits[index : index + whole] = b"\xff" * whole
                self.live -= whole * 8 - known
                at += whole * 8
                continue
            mask = 1 << (at & 7)
            if not bits[at >> 3] & mask:
                bits[at >> 3] |= mask
                self.live -= 1
            at += 1
        full = 0
        while full < len(bits) and bits[full] == 0xFF:
            full += 1
        if full:
            del bits[:full]
            self.base += full * 8

    def settle_all(self) -> None:
        self.settle(self.start, self.end - self.start)
        self.loaded = self.end

    def snapshot(self) -> list[Any]:
        return [self.key, self.lane, self.start, self.end, self.live, self.base, bytes(self.settled)]

    def restore(self, state: list[Any]) -> None:
        self.end = int(state[3])
        self.live = int(state[4])
        self.base = int(state[5])
        self.settled = bytearray(state[6])
        self.loaded = self.floor
