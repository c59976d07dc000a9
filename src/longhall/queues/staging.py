"""Staging: delayed messages, from milliseconds to ten years.

They are durable in hidden lanes (logs), one for each slice of due time that has messages. Only slices that have begun
are indexed message by message, eight bytes each; of the others only the end of the lane is in memory. A bitmap records
which messages have left a slice; it changes in the same entry that writes the copies, so a crash neither repeats nor
loses a message. An empty slice that has ended is dropped; its lane is reused for another slice.

    slice            becomes            by
    not there        open               SliceOpened, before the first message is appended to it
    open             begun              time alone: from `begins_ms_of` on
    begun, minute    loaded             load(), from its lane in steps; later appends are indexed at once
    begun, longer    restaged           StagedSettled(restaged), in steps, with the copies in finer lanes
    begun            empty              StagedSettled(due), with the copies in the main lane; StagingPurged
    empty and over   not there          SliceDropped

The broker calls `next_work`, does the work, and calls it again. This machine reads no log, holds no message, and does
not know why a message waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, final

from longhall.queues.auxiliary_events import SliceDropped, SliceOpened, StagedSettled, StagingEvent, StagingPurged
from longhall.queues.runs import runs_of
from longhall.queues.slices import Slice, SliceKey, begins_ms_of, end_ms_of, level_of, slice_at, slice_for
from longhall.queues.wheel import SLOTS_MAX, Wheel

NO_LANE: Final = -1
DUE_NOW: Final = -1
FAR_MS: Final = 1 << 62

Why = Literal["due", "restaged", "cancelled"]

INDEX_MAX: Final = 4_000_000  # Indexed messages; at the bound, loading waits until some have left.
IDLE_LANES_MAX: Final = 3  # Empty lanes that are kept for reuse; more are deleted.
STEP_MAX: Final = 1000  # Messages that the broker reads or moves in one step.

# Kinds of work.
MOVE: Final = 1
LOAD: Final = 2
RESTAGE: Final = 3
DROP: Final = 4


@final
class Work:
    """The next work of the broker.

    MOVE: move the messages of `due`. LOAD: read the lane from `from_offset`, then call `load`. RESTAGE: read the lane
    from `from_offset`, append each unsettled message where `route` says and settle it here. DROP: write `decide_drop`.
    """

    def __init__(self, kind: int, key: SliceKey, lane: int, from_offset: int, until_offset: int) -> None:
        self.kind = kind
        self.key = key
        self.lane = lane
        self.from_offset = from_offset
        self.until_offset = until_offset


@final
class Staging:
    """The staged messages of one queue."""

    def __init__(self, queue: int = 0, index_max: int = INDEX_MAX) -> None:
        self._queue = queue
        self._index_max = index_max
        self._slices: dict[SliceKey, Slice] = {}
        self._lanes: dict[int, Slice] = {}
        self._idle: list[tuple[int, int]] = []  # Lane and end offset of empty lanes, the last used last.
        self._wheel = Wheel()
        self._slots: list[Slice | None] = []
        self._quiet_until_ms = 0  # No slice needs work before this, unless it changes.

    # Staging

    @property
    def count(self) -> int:
        """The number of staged messages."""
        return sum(one.live for one in self._slices.values())

    @property
    def indexed(self) -> int:
        """The number of indexed messages."""
        return self._wheel.count

    def lanes(self) -> list[int]:
        """All hidden lanes of this queue."""
        return [*self._lanes, *(lane for lane, _ in self._idle)]

    def place(self, due_ms: int, now_ms: int) -> tuple[SliceKey, int]:
        """Slice and lane for a message due then; NO_LANE if the slice must be opened first."""
        key = slice_for(due_ms, now_ms)
        return key, self.lane_of(key)

    def lane_of(self, key: SliceKey) -> int:
        """The lane of a slice; NO_LANE if it must be opened first."""
        one = self._slices.get(key)
        return NO_LANE if one is None else one.lane

    @property
    def has_idle_lane(self) -> bool:
        """True if the next slice can reuse a lane."""
        return bool(self._idle)

    def decide_open(self, key: SliceKey, fresh_lane: int) -> SliceOpened:
        """Open a slice: on an idle lane if there is one, else on `fresh_lane`. The event has the lane."""
        if self._idle:
            lane, end = self._idle[-1]
            return SliceOpened(queue=self._queue, slice=key, lane=lane, start_offset=end)
        return SliceOpened(queue=self._queue, slice=key, lane=fresh_lane)

    def appended(self, lane: int, offset: int, due_ms: int, now_ms: int = 0) -> None:
        """Count an appended message. Part of the fold: called for each append, and again in a replay.

        With `now_ms`, a minute that has begun is indexed from its first message on, without loading.
        """
        one = self._lanes[lane]
        if offset < one.end:
            return  # Counted before.
        if offset > one.end:
            self._pass_gap(one, offset)
        if one.slot < 0 and one.loaded == offset and level_of(one.key) == 0 and begins_ms_of(one.key) <= now_ms:
            self._take_slot(one)
        if one.loaded == offset and one.slot >= 0 and self._wheel.count < self._index_max:
            self._wheel.add(due_ms, one.slot, offset)
            one.indexed += 1
            one.loaded = offset + 1
        else:
            self._quiet_until_ms = min(self._quiet_until_ms, begins_ms_of(one.key))
        one.end = offset + 1
        one.live += 1

    def _pass_gap(self, one: Slice, offset: int) -> None:
        """Settle offsets without a message, so that the slice can become empty."""
        first = one.end
        if one.loaded == first:
            one.loaded = offset
        one.live += offset - first
        one.end = offset
        one.settle(first, offset - first)

    def is_settled(self, lane: int, offset: int) -> bool:
        """True if the message has left and must not be moved again."""
        one = self._lanes.get(lane)
        return one is None or one.is_settled(offset)

    # Work

    def next_work(self, now_ms: int) -> Work | None:
        """The most urgent thing to do; None until `next_deadline_ms`."""
        due_ms = self._wheel.next_ms(now_ms)
        if 0 <= due_ms <= now_ms:
            return Work(MOVE, 0, NO_LANE, 0, 0)
        if now_ms < self._quiet_until_ms:
            return None
        for key in sorted(self._slices):
            work = self._work_on(self._slices[key], now_ms)
            if work is not None:
                return work
        self._quiet_until_ms = self._quiet_until(now_ms)
        return None

    def _work_on(self, one: Slice, now_ms: int) -> Work | None:
        begun = begins_ms_of(one.key) <= now_ms
        level = level_of(one.key)
        if one.live == 0:
            # A minute stays open to its end, because further messages are likely.
            over = end_ms_of(one.key) <= now_ms or ((level > 0 or not begun) and one.end > one.start)
            if over and one.indexed == 0:
                return Work(DROP, one.key, one.lane, one.end, one.end)
        elif begun and level > 0:
            return Work(RESTAGE, one.key, one.lane, one.floor, one.end)
        elif begun and one.loaded < one.end and self._wheel.count < self._index_max:
            if one.slot < 0:
                self._take_slot(one)
            if one.slot >= 0:
                return Work(LOAD, one.key, one.lane, one.loaded, one.end)
        return None

    def _quiet_until(self, now_ms: int) -> int:
        """When a slice next begins or ends."""
        soonest_ms = FAR_MS
        for key in self._slices:
            at_ms = begins_ms_of(key)
            if at_ms <= now_ms:
                at_ms = end_ms_of(key)
                if at_ms <= now_ms:
                    continue  # Its last messages have not left yet.
            soonest_ms = min(soonest_ms, at_ms)
        return soonest_ms

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When to call `next_work` again: possibly early, never late. None if nothing is staged."""
        due_ms = self._wheel.next_ms(now_ms)
        quiet_ms = self._quiet_until_ms
        if due_ms >= 0 and due_ms < quiet_ms:
            return due_ms
        return None if quiet_ms >= FAR_MS or not self._slices else quiet_ms

    def load(self, key: SliceKey, entries: Sequence[tuple[int, int]], next_offset: int) -> None:
        """Index the result of a LOAD, which read the lane from `from_offset` to `next_offset`."""
        one = self._slices.get(key)
        if one is None or one.slot < 0:
            return  # It was purged and dropped while the lane was read.
        for due_ms, offset in entries:
            if offset >= one.loaded and not one.is_settled(offset):
                self._wheel.add(due_ms, one.slot, offset)
                one.indexed += 1
        one.loaded = max(one.loaded, next_offset)
        self._quiet_until_ms = 0

    def due(self, now_ms: int, count_max: int = STEP_MAX) -> list[tuple[int, int]]:
        """Remove due messages from the index and return lane and offset of each, the longest due first.

        The caller moves and settles them (`decide_settle`) in one entry, or calls `put_back`. After a crash they are
        loaded again.
        """
        found: list[tuple[int, int]] = []
        taken = self._wheel.take(now_ms, count_max)
        for slot, offset in taken:
            one = self._slots[slot]
            assert one is not None
            one.indexed -= 1
            if not one.is_settled(offset):
                found.append((one.lane, offset))
            elif one.indexed == 0 and self._slices.get(one.key) is not one:
                self._slots[slot] = None
        if taken:
            self._quiet_until_ms = 0
        return found

    def put_back(self, lane: int, offset: int, due_ms: int) -> None:
        """Index a message that could not be moved again, due at this time."""
        one = self._lanes.get(lane)
        if one is not None and one.slot >= 0 and not one.is_settled(offset):
            self._wheel.add(due_ms, one.slot, offset)
            one.indexed += 1

    def route(self, key: SliceKey, due_ms: int, now_ms: int) -> SliceKey:
        """The target of a restaged message: a finer slice, or DUE_NOW."""
        if due_ms <= now_ms:
            return DUE_NOW
        target = slice_for(due_ms, now_ms)
        finer = level_of(key) - 1
        return slice_at(finer, due_ms) if level_of(target) > finer else target

    def decide_settle(self, places: Sequence[tuple[int, int]], why: Why = "due") -> list[StagedSettled]:
        """Settle these (lane, offset), one event for each slice. Settled ones are skipped."""
        offsets: dict[SliceKey, list[int]] = {}
        for lane, offset in places:
            one = self._lanes.get(lane)
            if one is not None and offset < one.end and not one.is_settled(offset):
                offsets.setdefault(one.key, []).append(offset)
        return [
            StagedSettled(queue=self._queue, slice=key, runs=runs_of(sorted(found)), why=why)
            for key, found in offsets.items()
        ]

    def decide_drop(self, key: SliceKey) -> SliceDropped:
        """The event for DROP. With `lane_deleted` the log is deleted, else it is trimmed to its end and reused."""
        return SliceDropped(queue=self._queue, slice=key, lane_deleted=len(self._idle) >= IDLE_LANES_MAX)

    def decide_purge(self) -> StagingPurged | None:
        """Drop all staged messages."""
        return StagingPurged(queue=self._queue) if self.count else None

    # Applying

    def apply(self, event: StagingEvent) -> None:
        """Apply an event: the only way in which the durable state changes."""
        self._quiet_until_ms = 0
        if isinstance(event, StagedSettled):
            one = self._slices.get(event.slice)
            if one is not None:
                runs = event.runs
                for at in range(0, len(runs), 2):
                    one.settle(runs[at], runs[at + 1])
        elif isinstance(event, SliceOpened):
            self._idle = [idle for idle in self._idle if idle[0] != event.lane]
            self._add(Slice(event.slice, event.lane, event.start_offset))
        elif isinstance(event, SliceDropped):
            self._drop(event)
        else:
            self._wheel = Wheel()
            for one in self._slices.values():
                one.settle_all()
                one.indexed = 0
            self._slots = [one if one is not None and self._slices.get(one.key) is one else None for one in self._slots]

    def _add(self, one: Slice) -> None:
        self._slices[one.key] = one
        self._lanes[one.lane] = one

    def _drop(self, event: SliceDropped) -> None:
        one = self._slices.pop(event.slice, None)
        if one is None:
            return
        del self._lanes[one.lane]
        if one.slot >= 0 and one.indexed == 0:
            self._slots[one.slot] = (
                None  # Else the wheel still has entries of it, in a replay, and `due` frees the slot.
            )
        if not event.lane_deleted:
            self._idle.append((one.lane, one.end))

    def _take_slot(self, one: Slice) -> None:
        """Assign a slot of the wheel to the slice, if one is free."""
        for slot, owner in enumerate(self._slots):
            if owner is None:
                self._slots[slot] = one
                one.slot = slot
                return
        if len(self._slots) < SLOTS_MAX:
            one.slot = len(self._slots)
            self._slots.append(one)

    def snapshot(self) -> dict[str, Any]:
        """Builtins only, for `restore`. Later appends are replayed through `appended`."""
        return {
            "slices": [one.snapshot() for one in self._slices.values()],
            "idle": [[lane, end] for lane, end in self._idle],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take the state of a `snapshot`; slices that have begun are loaded again from their lanes."""
        self._slices = {}
        self._lanes = {}
        self._wheel = Wheel()
        self._slots = []
        self._quiet_until_ms = 0
        for row in state["slices"]:
            one = Slice(int(row[0]), int(row[1]), int(row[2]))
            one.restore(row)
            self._add(one)
        self._idle = [(int(lane), int(end)) for lane, end in state["idle"]]
