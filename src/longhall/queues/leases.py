"""The lease table of a queue: one row for every message that is leased, returned, or passed by the scan.

A row is a small integer; its fields are in parallel columns with a free list. A million leases are a few dozen blocks
of memory that the garbage collector does not traverse. Columns are `vec`s, because compiled code reads and writes them
without making an integer object.

    state       becomes                when
    FREE        READY                  taken: the scan has passed its message
    READY       LEASED                 delivered: a new number, a deadline, one attempt more
    LEASED      LEASED                 extended, or delivered again after the deadline
    LEASED      RETURNED, READY        returned, with or without a delay; unseen, with one attempt less
    LEASED      READY                  the deadline has passed
    LEASED      RETURNED               the deadline has passed, and the queue counts that as a failure
    LEASED      LEASED                 held by a transaction: the deadline has no effect until it is released
    RETURNED    READY                  the delay has passed
    any         FREE                   settled, dead-lettered, purged, rewound

LEASED and RETURNED rows are hidden, and only these have a deadline in the future. The retry delay after an expired
lease is no event: it follows from the deadline, the attempts and the settings. So `deadline_ms` stays that of the
lease, the end of the delay is in `_lapsed` alone, and a snapshot has the row as LEASED. Rows with the same deadline are
chained, and a heap has each deadline once: arming and disarming cost O(1) a row and O(log n) a distinct millisecond.
A held row is in no chain; a snapshot has it with its deadline, and a restore holds it again.
This module does not know the meaning of offsets, the rules of groups or the clock.
"""

from __future__ import annotations

import sys
from array import array
from heapq import heapify, heappop, heappush
from typing import Any, Final, final

from librt.vecs import extend, vec
from mypy_extensions import i32, i64, u8

FREE: Final = 0
READY: Final = 1
LEASED: Final = 2
RETURNED: Final = 3

NONE: Final = -1
_HELD_MS: Final = 2**62  # In place of the end of a delay: the row waits for no time.
LAPSED: Final = 0  # How an attempt ended: the lease expired,
RETURNED_BY_HAND: Final = 1  # or the consumer returned the message.
ATTEMPTS_KEPT: Final = 16  # Of a message's history; the oldest are dropped.
_SHRINK_ROWS: Final = 4096  # An empty table larger than this frees its memory.
_SLACK: Final = 64
_GROWTH_ROWS_MIN: Final = 8
_GROWTH_ROWS_MAX: Final = 4096

# Part of the snapshot's format, like their order.
_LONG: Final = ("offset", "number", "deadline_ms", "leased_ms", "first_ms")
_SHORT: Final = ("lane", "size", "attempts")


@final
class Leases:
    """The rows of one queue. Fields are read-only for others; `Groups` writes `group`, `above` and `below`."""

    def __init__(self) -> None:
        self.rows = 0
        self.leased = 0
        self.returned = 0
        self.clear()

    def clear(self) -> None:
        """Forget every row."""
        self.rows = self.leased = self.returned = 0
        self.offset = vec[i64]()
        self.number = vec[i64]()
        self.deadline_ms = vec[i64]()
        self.leased_ms = vec[i64]()
        self.first_ms = vec[i64]()
        self.lane = vec[i32]()  # The lane's index in its queue.
        self.size = vec[i32]()
        self.attempts = vec[i32]()
        self.state = vec[u8]()
        self.group = vec[i32]()
        self.above = vec[i32]()  # Neighbours in the group, by offset.
        self.below = vec[i32]()
        self._next = vec[i32]()  # Neighbours under the same deadline; of a free row, the next free one.
        self._previous = vec[i32]()
        # Of rows with failed attempts: the number of noted attempts, then received, ended and how for each.
        self._histories: dict[int, list[int]] = {}
        # Rows in a retry delay after an expired lease: when the delay ends. Held rows: `_HELD_MS`.
        self._lapsed: dict[int, int] = {}
        self._free = NONE
        self._chains: dict[int, int] = {}  # Deadline to the first row of its chain.
        self._deadlines: list[int] = []  # A heap of the deadlines; entries can be stale.

    @property
    def ready(self) -> int:
        """The number of READY rows; those of blocked FIFO groups included."""
        return self.rows - self.leased - self.returned

    # Rows

    def take(self, lane: int, offset: int, size: int) -> int:
        """A new row, READY and without attempts."""
        if self._free == NONE:
            self._grow()
        row = self._free
        self._free = self._next[row]
        self.offset[row] = offset
        self.lane[row] = lane
        self.size[row] = size
        self.state[row] = READY
        self.rows += 1
        return row

    def _grow(self) -> None:
        """Add free rows: an eighth of the table, within bounds."""
        first = len(self.offset)
        count = min(max(first // 8, _GROWTH_ROWS_MIN), _GROWTH_ROWS_MAX)
        self._append_rows([0] * count, [0] * count, list(range(first + 1, first + count)) + [NONE])
        self._free = first

    def _append_rows(self, long: list[i64], short: list[i32], following: list[i32]) -> None:
        """Add rows of zeros, in no group and no chain."""
        unset: list[i32] = [NONE] * len(short)
        self.offset = extend(self.offset, long)
        self.number = extend(self.number, long)
        self.deadline_ms = extend(self.deadline_ms, long)
        self.leased_ms = extend(self.leased_ms, long)
        self.first_ms = extend(self.first_ms, long)
        self.lane = extend(self.lane, unset)
        self.size = extend(self.size, short)
        self.attempts = extend(self.attempts, short)
        self.state = extend(self.state, bytes(len(short)))
        self.group = extend(self.group, unset)
        self.above = extend(self.above, unset)
        self.below = extend(self.below, unset)
        self._next = extend(self._next, following)
        self._previous = extend(self._previous, unset)

    def give_up(self, row: int) -> None:
        """Put the row on the free list."""
        self._reveal(row)
        if self._histories:
            self._histories.pop(row, None)
        self.state[row] = FREE
        self.number[row] = 0
        self.deadline_ms[row] = 0
        self.leased_ms[row] = 0
        self.first_ms[row] = 0
        self.attempts[row] = 0
        self._next[row] = self._free
        self._free = row
        self.rows -= 1
        if self.rows == 0 and len(self.offset) > _SHRINK_ROWS:
            self.clear()

    def lease(self, row: int, number: int, now_ms: int, deadline_ms: int) -> None:
        """Lease the message: a new number, one attempt more."""
        if self.state[row] >= LEASED:
            self._reveal(row)
        if self.attempts[row] == 0:
            self.first_ms[row] = now_ms
        else:
            self._note(row, self.deadline_ms[row], LAPSED)
        self.attempts[row] += 1
        self.number[row] = number
        self.leased_ms[row] = now_ms
        self.state[row] = LEASED
        self.leased += 1
        self._arm(row, deadline_ms)

    def extend(self, row: int, deadline_ms: int) -> None:
        """Change the deadline of a lease; number and attempts stay."""
        self._reveal(row)
        self.state[row] = LEASED
        self.leased += 1
        self._arm(row, deadline_ms)

    def give_back(self, row: int, visible_ms: int) -> None:
        """End a lease; the message stays hidden until `visible_ms`."""
        self._reveal(row)
        self.state[row] = RETURNED
        self.returned += 1
        self._arm(row, visible_ms)

    def lapse(self, row: int, visible_ms: int) -> None:
        """A lease has expired; the message stays hidden until `visible_ms`."""
        deadline_ms = self.deadline_ms[row]
        self._reveal(row)
        self.state[row] = RETURNED
        self.returned += 1
        self._lapsed[row] = visible_ms
        self._arm(row, visible_ms)
        self.deadline_ms[row] = deadline_ms

    def hold(self, row: int) -> None:
        """Let a lease last until `release`, whatever its deadline."""
        assert self.state[row] == LEASED
        assert not self.is_held(row)
        self._disarm(row)
        self._lapsed[row] = _HELD_MS

    def release(self, row: int) -> None:
        """Give a held lease its deadline again, which may have passed."""
        assert self.is_held(row)
        del self._lapsed[row]
        self._arm(row, self.deadline_ms[row])

    def is_held(self, row: int) -> bool:
        """True if the lease lasts until `release`."""
        return bool(self._lapsed) and self._lapsed.get(row, NONE) == _HELD_MS

    def reveal(self, row: int) -> None:
        """Make the row READY."""
        self._reveal(row)
        self.state[row] = READY

    def note_return(self, row: int, now_ms: int) -> None:
        """Note in the history that the consumer returned the message."""
        self._note(row, now_ms, RETURNED_BY_HAND)

    def uncount(self, row: int) -> None:
        """Undo the current attempt: no consumer has seen the message or has its receipt."""
        self.number[row] = 0
        self.attempts[row] -= 1
        if self.attempts[row] == 0:
            self.first_ms[row] = 0

    def _note(self, row: int, ended_ms: int, how: int) -> None:
        history = self._histories.get(row)
        if history is None:
            history = self._histories[row] = [0]
        if history[0] < self.attempts[row]:  # Else it was noted when the message was returned.
            history[0] = self.attempts[row]
            history.extend((self.leased_ms[row], ended_ms, how))
            if len(history) > 1 + 3 * ATTEMPTS_KEPT:
                del history[1:4]

    def history(self, row: int) -> list[tuple[int, int, int]]:
        """Received, ended and how of the last failed attempts, oldest first; the current attempt counts as ended."""
        noted = self._histories.get(row)
        found = [] if noted is None else [(noted[at], noted[at + 1], noted[at + 2]) for at in range(1, len(noted), 3)]
        if self.attempts[row] > (0 if noted is None else noted[0]):
            found.append((self.leased_ms[row], self.deadline_ms[row], LAPSED))
        return found[-ATTEMPTS_KEPT:]

    def hidden_until_ms(self, row: int) -> int:
        """When a hidden message is available again; of a held one the deadline of its lease."""
        return self.deadline_ms[row] if self.is_held(row) else self._lapsed.get(row, self.deadline_ms[row])

    def is_hidden(self, row: int) -> bool:
        """True if the message is leased, or in a retry delay."""
        return self.state[row] >= LEASED

    def _reveal(self, row: int) -> None:
        state = self.state[row]
        if state == LEASED:
            self.leased -= 1
        elif state == RETURNED:
            self.returned -= 1
        else:
            return
        self._disarm(row)

    # Deadlines

    def next_deadline_ms(self) -> int:
        """The next deadline of a hidden row, or NONE."""
        heap = self._deadlines
        while heap and heap[0] not in self._chains:
            heappop(heap)
        return heap[0] if heap else NONE

    def due(self, now_ms: int) -> int:
        """A hidden row whose deadline has passed, or NONE. The caller reveals it."""
        deadline_ms = self.next_deadline_ms()
        return NONE if deadline_ms == NONE or deadline_ms > now_ms else self._chains[deadline_ms]

    def _arm(self, row: int, deadline_ms: int) -> None:
        self.deadline_ms[row] = deadline_ms
        self._previous[row] = NONE
        first = self._chains.get(deadline_ms, NONE)
        self._next[row] = first
        self._chains[deadline_ms] = row
        if first != NONE:
            self._previous[first] = row
            return
        if len(self._deadlines) > 2 * len(self._chains) + _SLACK:
            # Most leases are settled long before their deadline; stale heap entries are removed in one pass.
            self._deadlines = list(self._chains)
            heapify(self._deadlines)
        else:
            heappush(self._deadlines, deadline_ms)

    def _disarm(self, row: int) -> None:
        armed_ms = self._lapsed.pop(row, NONE) if self._lapsed else NONE
        if armed_ms == _HELD_MS:
            return
        if armed_ms == NONE:
            armed_ms = self.deadline_ms[row]
        after: int = self._next[row]
        before: int = self._previous[row]
        if before != NONE:
            self._next[before] = after
        elif after != NONE:
            self._chains[armed_ms] = after
        else:
            del self._chains[armed_ms]
            if not self._chains:
                self._chains = {}
                self._deadlines = []
        if after != NONE:
            self._previous[after] = before

    # Durable state

    def snapshot(self) -> dict[str, object]:
        """The columns as bytes, so that a million leases are a few copies."""
        columns: dict[str, object] = {"byte_order": sys.byteorder}
        if self.rows:
            for name in (*_LONG, *_SHORT):
                columns[name] = bytes(getattr(self, name))
            states = bytearray(self.state)
            for row in self._lapsed:
                states[row] = LEASED
            columns["state"] = bytes(states)
        if self._histories:
            columns["histories"] = [[row, history] for row, history in self._histories.items()]
        return columns

    def restore(self, columns: dict[str, Any]) -> list[int]:
        """Take the state of a `snapshot`, without groups. Returns the rows in use, by lane and offset."""
        self.clear()
        if "state" not in columns:
            return []
        swapped = columns["byte_order"] != sys.byteorder
        self.offset = _longs(columns["offset"], swapped)
        self.number = _longs(columns["number"], swapped)
        self.deadline_ms = _longs(columns["deadline_ms"], swapped)
        self.leased_ms = _longs(columns["leased_ms"], swapped)
        self.first_ms = _longs(columns["first_ms"], swapped)
        self.lane = _shorts(columns["lane"], swapped)
        self.size = _shorts(columns["size"], swapped)
        self.attempts = _shorts(columns["attempts"], swapped)
        self.state = vec[u8](columns["state"])
        count = len(self.state)
        unset: list[i32] = [NONE] * count
        self.group = vec[i32](unset)
        self.above = vec[i32](unset)
        self.below = vec[i32](unset)
        self._next = vec[i32](unset)
        self._previous = vec[i32](unset)
        used: list[int] = []
        for row in range(count - 1, -1, -1):
            state = self.state[row]
            if state == FREE:
                self._next[row] = self._free
                self._free = row
                continue
            used.append(row)
            self.rows += 1
            if state == LEASED:
                self.leased += 1
            elif state == RETURNED:
                self.returned += 1
            if state >= LEASED:
                self._arm(row, self.deadline_ms[row])
        for row, history in columns.get("histories", ()):  # Old snapshots have no histories.
            self._histories[row] = list(history)
        used.sort(key=self._place)
        return used

    def _place(self, row: int) -> tuple[int, int]:
        return (self.lane[row], self.offset[row])


def _longs(column: bytes, swapped: bool) -> vec[i64]:
    """A column of a snapshot, which may be from a machine of the other byte order."""
    items = array("q", column)
    if swapped:
        items.byteswap()
    return vec[i64](items)


def _shorts(column: bytes, swapped: bool) -> vec[i32]:
    items = array("i", column)
    if swapped:
        items.byteswap()
    return vec[i32](items)
