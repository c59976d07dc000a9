"""The durable state of a queue: a fold over its events.

`apply` is the only way in which it changes; `tick` ends leases by time, because the end of a lease follows from its
deadline and is not an event. The same events give the same leases, numbers, deadlines and counts, whether they are
applied as they happen, after a crash, or on top of a snapshot.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.queues.cursor import NO_ROW, Cursor
from longhall.queues.events import (
    Died,
    Extended,
    Held,
    HoldsEnded,
    LaneOpened,
    Leased,
    Marked,
    Passed,
    Purged,
    QueueEvent,
    Recounted,
    Returned,
    Rewound,
    Settled,
    Switched,
    Withdrawn,
)
from longhall.queues.holds import Hold, Holds
from longhall.queues.lanes import Lane
from longhall.queues.leases import LEASED, Leases
from longhall.queues.marks import Marks
from longhall.queues.processing_times import ProcessingTimes
from longhall.queues.retry import retry_delay_ms
from longhall.queues.settings import RetryPolicy
from longhall.queues.uncommitted import UncommittedMessages

SNAPSHOT_VERSION: Final = 1


@final
class State:
    """Lanes, leases, marks and counts of one queue. `messages` and `bytes` exclude settled and dead messages."""

    def __init__(self, fifo: bool) -> None:
        self.paused = False
        self.messages = 0
        self.bytes = 0
        self.purged_ms = -1
        self.deaths: dict[str, int] = {}  # By reason.
        self.processing_times = ProcessingTimes()
        self.next_number = 1
        self.newest_stamp = 0  # Of all delivered messages; see `stamps`.
        self.leases = Leases()
        self.lanes: dict[int, Lane] = {}
        self.order: list[Lane] = []  # By falling priority.
        self._by_index: list[Lane] = []
        self.marks = Marks()
        self.holds = Holds()
        self.uncommitted = UncommittedMessages()
        self.fifo = fifo

    def tick(self, now_ms: int, ends_max: int, backoff: RetryPolicy | None = None, attempts_max: int = 0) -> bool:
        """End at most `ends_max` expired leases and delays; True if any ended.

        With `backoff` a message whose lease expired stays hidden for the retry delay, unless it has no attempts left.
        """
        leases = self.leases
        ended = 0
        while ended < ends_max:
            row = leases.due(now_ms)
            if row < 0:
                break
            if backoff is not None and leases.state[row] == LEASED:
                attempts = leases.attempts[row]
                delay_ms = 0 if 0 < attempts_max <= attempts else retry_delay_ms(backoff, attempts)
                if delay_ms:
                    leases.lapse(row, leases.deadline_ms[row] + delay_ms)
                    ended += 1
                    continue
            self._by_index[leases.lane[row]].reveal(row)
            ended += 1
        return ended > 0

    def apply_sent(self, count: int, bytes: int) -> None:
        """Count a batch that was appended to one of the lanes."""
        self.messages += count
        self.bytes += bytes

    def apply_ended(self, lane_id: int, producer: int, committed: bool) -> None:
        """End a transaction in a lane: the messages of an aborted one are subtracted."""
        messages, bytes = self.uncommitted.ended(lane_id, producer)
        if messages and not committed:
            self._set_counts(self.messages - messages, self.bytes - bytes)

    def apply(self, event: QueueEvent) -> None:
        """Apply an event: the only way in which the queue changes."""
        # The frequent ones by identity: `isinstance` asks the metaclass of these structs.
        if type(event) is Leased:
            self._apply_leased(event)
        elif type(event) is Settled:
            self._apply_settled(event)
        elif type(event) is Passed:
            self._apply_passed(event)
        elif isinstance(event, Extended):
            lane = self.lanes[event.lane]
            row = lane.cursor.find(event.offset)
            if row != NO_ROW:
                lane.extend(row, event.deadline_ms)
        elif isinstance(event, Returned):
            lane = self.lanes[event.lane]
            row = lane.cursor.find(event.offset)
            if row != NO_ROW:
                if event.unseen:
                    self.leases.uncount(row)
                else:
                    self.leases.note_return(row, event.at_ms)
                lane.give_back(row, event.at_ms, event.visible_ms)
        elif isinstance(event, Died):
            self._apply_died(event)
        elif isinstance(event, Withdrawn):
            self._drop_offsets(event.lane, event.offsets)
        elif isinstance(event, LaneOpened):
            if event.lane not in self.lanes:
                self._open(event.lane, event.priority, event.start)
        elif isinstance(event, Purged):
            self._apply_purged(event)
        elif isinstance(event, Rewound):
            self._apply_rewound(event)
        elif isinstance(event, Switched):
            self.paused = event.paused
        elif isinstance(event, Marked):
            self.marks.add(event.ends, event.base, event.forget)
            self._advance_marks()
        elif isinstance(event, Held):
            self._apply_held(event)
        elif isinstance(event, HoldsEnded):
            self._apply_holds_ended(event)
        else:
            assert isinstance(event, Recounted)
            self._set_counts(event.messages, event.bytes)

    def _open(self, lane_id: int, priority: int, start: int) -> Lane:
        lane = Lane(len(self._by_index), Cursor(lane_id, priority, start), self.leases, self.fifo)
        if self.fifo:
            for other in self._by_index:
                if other.cursor.priority == priority:
                    other.peers.append(lane)
                    lane.peers.append(other)
        self._by_index.append(lane)
        self.lanes[lane_id] = lane
        self.order = sorted(self._by_index, key=_precedence)
        return lane

    def _advance_marks(self) -> None:
        """Offer all lanes again if the scans have reached another mark."""
        if self.marks.advance(self.lanes):
            for lane in self._by_index:
                lane.note_available()

    def _apply_passed(self, event: Passed) -> None:
        lane = self.lanes[event.lane]
        lane.cursor.scan = event.next_offset
        for index, offset in enumerate(event.offsets):
            name = event.names[event.owners[index]] if event.names else ""
            lane.offer(lane.admit(offset, event.sizes[index], name))
        if self.marks.waits:
            self._advance_marks()

    def _apply_leased(self, event: Leased) -> None:
        lane = self.lanes[event.lane]
        cursor = lane.cursor
        sizes = event.sizes
        names = event.names
        offsets = event.offsets
        if event.next_offset >= 0:
            cursor.scan = event.next_offset
        known = len(offsets) - len(sizes)
        number = event.first_number
        self.next_number = number + len(offsets)
        if event.stamp > self.newest_stamp:
            self.newest_stamp = event.stamp
        at_ms = event.at_ms
        deadline_ms = event.deadline_ms
        settled = event.settled
        gone: list[int] = []
        for index, offset in enumerate(offsets):
            if index < known:
                row = cursor.find(offset)
                if settled:
                    gone.append(self.leases.size[row])
                    lane.drop(row)
                    continue
            elif settled:
                gone.append(sizes[index - known])
                continue
            else:
                name = names[event.owners[index - known]] if names else ""
                row = lane.admit(offset, sizes[index - known], name)
            lane.lease(row, number + index, at_ms, deadline_ms)
        if settled:
            self._release(gone)
        if self.marks.waits:
            self._advance_marks()

    def _apply_settled(self, event: Settled) -> None:
        lane = self.lanes[event.lane]
        leases = self.leases
        at_ms = event.at_ms
        gone: list[int] = []
        for offset in event.offsets:
            row = lane.cursor.find(offset)
            if row != NO_ROW:
                self.processing_times.note(at_ms - leases.leased_ms[row], at_ms > leases.deadline_ms[row])
                gone.append(leases.size[row])
                lane.drop(row)
        self._release(gone)

    def _apply_held(self, event: Held) -> None:
        self.holds.coordinator_epoch = event.coordinator_epoch
        reported = set(event.reported)
        for index, offset in enumerate(event.offsets):
            hold = Hold(event.numbers[index], offset in reported, event.rejected)
            self.holds.add(event.producer_id, event.lane, offset, hold)
            self._hold(event.lane, offset, hold.number)

    def _hold(self, lane_id: int, offset: int, number: int) -> None:
        row = self.held_row(lane_id, offset, number)
        if row != NO_ROW and self.leases.state[row] == LEASED and not self.leases.is_held(row):
            self.leases.hold(row)

    def held_row(self, lane_id: int, offset: int, number: int) -> int:
        """The row of a message under this lease number; NO_ROW if the message was removed or delivered again."""
        lane = self.lanes.get(lane_id)
        row = lane.cursor.find(offset) if lane is not None else NO_ROW
        return row if row != NO_ROW and self.leases.number[row] == number else NO_ROW

    def _apply_holds_ended(self, event: HoldsEnded) -> None:
        self.holds.coordinator_epoch = event.coordinator_epoch
        for (lane_id, offset), hold in self.holds.end(event.producer_id).items():
            row = self.held_row(lane_id, offset, hold.number)
            if row != NO_ROW and self.leases.is_held(row):
                self.leases.release(row)

    def _apply_died(self, event: Died) -> None:
        gone = self._drop_offsets(event.lane, event.offsets)
        if gone:
            self.deaths[event.reason] = self.deaths.get(event.reason, 0) + gone

    def _drop_offsets(self, lane_id: int, offsets: list[int]) -> int:
        """Drop these messages without a settle; returns how many were outstanding."""
        lane = self.lanes[lane_id]
        gone: list[int] = []
        for offset in offsets:
            row = lane.cursor.find(offset)
            if row != NO_ROW:
                gone.append(self.leases.size[row])
                lane.drop(row)
        self._release(gone)
        return len(gone)

    def _apply_purged(self, event: Purged) -> None:
        positions = dict(event.positions)
        for lane_id in positions:
            self.uncommitted.forget(lane_id)
        everything = True
        for lane in self._by_index:
            everything = everything and positions.get(lane.cursor.lane, -1) >= lane.cursor.scan
        if everything:
            self.leases.clear()
            self.holds.clear()
            for lane in self._by_index:
                lane.clear(positions[lane.cursor.lane])
            positions = {}
        for lane_id, offset in positions.items():
            lane = self.lanes[lane_id]
            for gone in lane.cursor.live_between(0, offset):
                lane.drop(lane.cursor.find(gone))
            lane.cursor.scan = max(lane.cursor.scan, offset)
        self.purged_ms = event.at_ms
        self._set_counts(event.messages, event.bytes)
        if self.marks.waits:
            self._advance_marks()

    def _apply_rewound(self, event: Rewound) -> None:
        lane = self.lanes[event.lane]
        cursor = lane.cursor
        for offset in cursor.live_between(event.offset, cursor.scan):
            lane.drop(cursor.find(offset))
        cursor.scan = event.offset
        self.marks.recheck(self.lanes)
        for other in self._by_index if self.fifo else [lane]:
            other.note_available()
        self._set_counts(event.messages, event.bytes)

    def _release(self, sizes: list[int]) -> None:
        # Sizes of appended batches can be estimates; `_set_counts` keeps the counts above 0.
        self._set_counts(self.messages - len(sizes), self.bytes - sum(sizes))

    def _set_counts(self, messages: int, bytes: int) -> None:
        self.messages = max(0, messages)
        self.bytes = max(0, bytes) if messages > 0 else 0

    # Durable state

    def snapshot(self) -> dict[str, Any]:
        """Builtins only."""
        lanes: list[list[object]] = []
        for lane in self._by_index:
            groups = [] if lane.groups is None else lane.groups.members(self.leases)
            lanes.append([lane.cursor.lane, lane.cursor.priority, lane.cursor.scan, groups])
        state: dict[str, Any] = {
            "version": SNAPSHOT_VERSION,
            "next_number": self.next_number,
            "newest_stamp": self.newest_stamp,
            "paused": self.paused,
            "held": [self.messages, self.bytes],
            "purged_ms": self.purged_ms,
            "deaths": dict(self.deaths),
            "work": self.processing_times.snapshot(),
            "lanes": lanes,
            "marks": self.marks.snapshot(),
            "undecided": self.uncommitted.snapshot(),
            "leases": self.leases.snapshot(),
        }
        if holds := self.holds.snapshot():
            state["holds"] = holds
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take the state of a `snapshot`. It has no settings."""
        assert state["version"] == SNAPSHOT_VERSION
        self.next_number = state["next_number"]
        self.newest_stamp = state.get("newest_stamp", 0)
        self.paused = state["paused"]
        self.messages, self.bytes = state["held"]
        self.purged_ms = state["purged_ms"]
        self.deaths = dict(state["deaths"])
        outlived, counts = state["work"]
        self.processing_times.restore(outlived, counts)
        self.leases = Leases()
        self._by_index = []
        self.lanes = {}
        names: dict[int, str] = {}
        for lane_id, priority, scan, groups in state["lanes"]:
            self._open(lane_id, priority, scan)
            for name, rows in groups:
                for row in rows:
                    names[row] = name
        for row in self.leases.restore(state["leases"]):
            lane = self._by_index[self.leases.lane[row]]
            lane.cursor.hold(self.leases.offset[row], row)
            lane.enrol(row, names.get(row, ""))
        for lane_id, offset, number in self.holds.restore(state.get("holds", [])):
            self._hold(lane_id, offset, number)
        self.marks = Marks()
        self.marks.restore(state.get("marks", []), self.lanes)
        self.uncommitted = UncommittedMessages()
        self.uncommitted.restore(state.get("undecided", []))
        for lane in self._by_index:
            lane.note_available()


def _precedence(lane: Lane) -> tuple[int, int]:
    return (-lane.cursor.priority, lane.index)
