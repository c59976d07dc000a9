"""A queue: the state machine that leases messages to consumers, settles and returns them.

decide_*() reads and returns events or a refusal; apply() alone changes durable state; replaying the events rebuilds the
queue with the same leases, numbers and deadlines. Time is hall time in milliseconds and is an argument. The end of a
lease is not an event; `tick` and `decide_receive` detect it.

    a message is      from                     to                       by
    waiting           sent (or rewound)        the scan reaches it      Passed, Leased
    available         Passed, end of lease     it is delivered          Leased
                      or delay
    leased            Leased                   its deadline             Extended changes it
    held              Held                     HoldsEnded               a transaction's outcome
    hidden            Returned with a delay    the delay ends
                      end of lease, if the
                      queue counts failures
    settled           Settled, Leased at       for ever, unless         Rewound
                      most once                rewound
    gone              Died, Purged             for ever

The queue does not know the log (the broker passes `peek`), bodies, delays, deduplication, filter syntax or redrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, nsmallest
from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.cursor import NO_ROW, Cursor
from longhall.queues.delivery_selection import DEATHS_MAX, DeliverySelection, Peek, SelectionRules, owners_of
from longhall.queues.events import Extended, Held, Marked, Passed, Purged, QueueEvent, Returned, Rewound, Settled
from longhall.queues.holds import HELD_MAX
from longhall.queues.lanes import Lane
from longhall.queues.leases import LEASED
from longhall.queues.marks import MARKS_MAX, NO_LIMIT
from longhall.queues.outcomes import EXPIRED, UNREADABLE, Candidate, Death, Outcome, Overflow, Status
from longhall.queues.receipts import CURRENT, IN_TIME, LATE
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.settings import QueueSettings
from longhall.queues.state import State

PASSED_MAX: Final = 20_000  # Outstanding messages that are not in flight: returned, or of blocked groups.
LEASE_ENDS_AT_ONCE: Final = 10_000
PURGE_APART_MS: Final = 60_000  # Between two purges of a queue.
ANY_LANE: Final = -1


@final
class Queue:
    """The decisions of one queue over its durable `state`, which others only read."""

    def __init__(self, queue_id: int, settings: QueueSettings, passed_max: int = PASSED_MAX) -> None:
        self.queue_id = queue_id
        self.state = State(settings.fifo)
        self.superseded = 0  # Superseded receipts since the process started; not durable.
        self._turn = 0
        self._passed_max = passed_max
        self._deliveries_max = 0  # Without a dead-letter queue: messages are dropped after this many; 0: never.
        self.configure(settings)

    def configure(self, settings: QueueSettings) -> None:
        """Take new settings. `fifo` never changes."""
        assert settings.fifo == self.state.fifo
        self.settings = settings
        retry = settings.retry
        self._backoff = retry if retry is not None and retry.lapsed else None
        self._rules = SelectionRules(
            self.queue_id,
            settings.fifo,
            settings.fair and not settings.fifo and not settings.one_by_one,
            settings.delivery == "at-most-once",
            self._attempts_max(settings),
            self._passed_max,
        )

    def _attempts_max(self, settings: QueueSettings) -> int:
        if settings.dead_letters is not None:
            return settings.dead_letters.attempts_max
        return self._deliveries_max or (settings.amqp.deliveries_max if settings.amqp is not None else 0)

    def limit_deliveries(self, deliveries_max: int) -> None:
        """Bound the deliveries of a message where there is no dead-letter queue; 0: no bound. Not durable."""
        if deliveries_max != self._deliveries_max:
            self._deliveries_max = deliveries_max
            self.configure(self.settings)

    # Delivery

    def decide_receive(
        self,
        now_ms: int,
        count_max: int,
        lease_ms: int,
        peek: Peek,
        is_open: bool = True,
        receiver_filter: ReceiverFilter | None = None,
        lane_id: int = ANY_LANE,
        until: int = NO_LIMIT,
    ) -> Outcome:
        """Lease at most `count_max` messages. `is_open` is True within the delivery hours.

        With a receiver filter, only matching messages; the caller calls `note_passed` after it has applied the events.
        With a lane, only messages of that lane; the scan stops at the offset `until`.
        """
        self.tick(now_ms)
        if self.state.paused or not is_open or count_max <= 0:
            return Outcome(Status.CLOSED)
        settings = self.settings
        leases = self.state.leases
        if settings.one_by_one:
            if leases.leased:
                return Outcome(Status.BUSY)
            count_max = 1
        count_max = min(count_max, settings.in_flight_max - leases.leased - leases.returned)
        if count_max <= 0:
            return Outcome(Status.TOO_MANY)
        giving = DeliverySelection(self._rules, leases, self.state.marks, peek, now_ms, count_max)
        giving.receiver_filter = receiver_filter
        giving.until = until
        for lane in self._in_turn():
            if lane_id != ANY_LANE and lane.cursor.lane != lane_id:
                continue
            if not giving.take_from(lane, self.state.next_number, now_ms + lease_ms):
                break
        return _ended(giving.outcome)

    def note_passed(self, receiver_filter: ReceiverFilter) -> None:
        """Note that the events of the last decision for this filter are applied."""
        for lane_id in receiver_filter.done:
            receiver_filter.passed(lane_id, self.state.lanes[lane_id].offers)
        receiver_filter.done = []

    def _in_turn(self) -> list[Lane]:
        """The lanes by falling priority; lanes of one priority rotate."""
        order = self.state.order
        if len(order) < 2:
            return order
        self._turn += 1
        turned: list[Lane] = []
        start = 0
        for index in range(1, len(order) + 1):
            if index == len(order) or order[index].cursor.priority != order[start].cursor.priority:
                first = start + self._turn % (index - start)
                turned.extend(order[first:index])
                turned.extend(order[start:first])
                start = index
        return turned

    def decide_drop(self, now_ms: int, messages: int, bytes: int, peek: Peek) -> Outcome:
        """Deaths by LENGTH of the oldest available messages, lowest priority first, until this much is free."""
        self.tick(now_ms)
        giving = DeliverySelection(self._rules, self.state.leases, self.state.marks, peek, now_ms, 1)
        giving.is_dropping = True
        giving.dropping_messages = messages
        giving.dropping_bytes = bytes
        for lane in sorted(self.state.order, key=_priority):
            if not giving.take_from(lane, self.state.next_number, now_ms):
                break
        return _ended(giving.outcome)

    def decide_expire(self, now_ms: int, peek: Peek) -> Outcome:
        """Deaths of expired messages at the head of each lane, or returned ones.

        Only the head is checked: expired messages behind a live one are found when that one is gone.
        """
        self.tick(now_ms)
        outcome = Outcome(Status.EMPTY)
        for lane in self.state.order:
            if not self._expire_ready(lane, now_ms, peek, outcome) or not self._expire_scan(
                lane, now_ms, peek, outcome
            ):
                outcome.status = Status.COLD
                outcome.cold_lane = lane.cursor.lane
                break
        return outcome

    def _expire_ready(self, lane: Lane, now_ms: int, peek: Peek, outcome: Outcome) -> bool:
        leases = self.state.leases
        last = -1
        for offset in nsmallest(DEATHS_MAX, lane.cursor.ready):
            row = lane.cursor.find(offset)
            if offset == last or row == NO_ROW or not lane.is_available(row):
                continue  # The heap may have an offset more than once.
            last = offset
            found = peek(lane.cursor.lane, offset, 1)
            if found is None:
                return False
            attempts = leases.attempts[row]
            if found and found[0].offset == offset and found[0].is_over(now_ms, attempts):
                outcome.deaths.append(
                    Death(lane.cursor.lane, offset, EXPIRED, attempts, leases.first_ms[row], found[0])
                )
        return True

    def _expire_scan(self, lane: Lane, now_ms: int, peek: Peek, outcome: Outcome) -> bool:
        position = lane.cursor.scan
        found = peek(lane.cursor.lane, position, DEATHS_MAX)
        if found is None:
            return False
        fresh: list[Candidate] = []
        for candidate in found:
            if candidate.size_bytes >= 0:
                if not candidate.is_over(now_ms):
                    break
                fresh.append(candidate)
                outcome.deaths.append(Death(lane.cursor.lane, candidate.offset, EXPIRED, 0, 0, candidate))
            elif candidate.size_bytes == UNREADABLE:
                break
            position = candidate.next_offset
        if fresh:
            outcome.events.append(self._passed(lane.cursor.lane, position, fresh))
        return True

    def decide_pass(self, lane_id: int, until: int, peek: Peek) -> Passed | Status:
        """Move the scan to `until` without a delivery, so that single messages can be addressed.

        Passed messages keep their order of delivery. COLD: the log must be read first; TOO_MANY: the bound of passed
        messages is reached; EMPTY: the log ends before `until`.
        """
        position = self.state.lanes[lane_id].cursor.scan
        fresh: list[Candidate] = []
        while position < until:
            candidates = peek(lane_id, position, until - position)
            if candidates is None:
                return Status.COLD
            if not candidates:
                return Status.EMPTY
            for candidate in candidates:
                if position >= until:
                    break
                if candidate.size_bytes >= 0:
                    fresh.append(candidate)
                elif candidate.size_bytes == UNREADABLE:
                    return Status.EMPTY
                position = candidate.next_offset
            if len(fresh) + self.state.leases.ready > self._passed_max:
                return Status.TOO_MANY
        return self._passed(lane_id, position, fresh)

    def _passed(self, lane_id: int, next_offset: int, fresh: list[Candidate]) -> Passed:
        names, owners = owners_of(fresh)
        return Passed(
            queue=self.queue_id,
            lane=lane_id,
            next_offset=next_offset,
            offsets=[candidate.offset for candidate in fresh],
            sizes=[candidate.size_bytes for candidate in fresh],
            names=names,
            owners=owners,
        )

    def decide_send(self, count: int, bytes: int, staged: int = 0) -> Code | Overflow | None:
        """None if there is room. A send larger than the bounds of the queue is refused under every policy.

        `staged` messages are delayed: they take room, as those in the lanes do. Leased messages take none in a queue
        that AMQP has declared.
        """
        settings = self.settings
        if count and settings.amqp is not None and settings.amqp.has_no_room and settings.when_full == "refuse":
            return Code.QUEUE_FULL
        stored = self.state.messages if settings.amqp is None else self.state.messages - self.state.leases.leased
        messages_over = stored + staged + count - settings.messages_max if settings.messages_max else 0
        bytes_over = self.state.bytes + bytes - settings.bytes_max if settings.bytes_max else 0
        if messages_over <= 0 and bytes_over <= 0:
            return None
        if settings.when_full == "refuse":
            return Code.QUEUE_FULL
        if 0 < settings.messages_max < count or 0 < settings.bytes_max < bytes:
            return Code.QUEUE_FULL
        return Overflow(settings.when_full == "wait", max(0, messages_over), max(0, bytes_over))

    # Receipts

    def decide_settle(
        self, now_ms: int, receipts: Sequence[tuple[int, int, int] | Code], accepts: str = CURRENT
    ) -> tuple[list[Settled], list[Code | None]]:
        """Settle receipts of lane, offset and number. None for each success, which includes settled messages."""
        codes: list[Code | None] = []
        lanes: dict[int, list[int]] = {}
        for receipt in receipts:
            if not isinstance(receipt, tuple):  # Cheaper than a test for Code.
                codes.append(receipt)
                continue
            lane_id, offset, number = receipt
            row = self._row_of(lane_id, offset, number)
            if not isinstance(row, int):
                codes.append(row)
                continue
            if accepts == IN_TIME and row != NO_ROW and not self._is_out(now_ms, row):
                codes.append(Code.RECEIPT_SUPERSEDED)
                continue
            codes.append(None)
            if row != NO_ROW:
                lanes.setdefault(lane_id, []).append(offset)
        events = [
            Settled(queue=self.queue_id, lane=lane_id, offsets=offsets, at_ms=now_ms)
            for lane_id, offsets in lanes.items()
        ]
        return events, codes

    def decide_extend(
        self,
        now_ms: int,
        lane_id: int,
        offset: int,
        number: int,
        lease_ms: int,
        accepts: str = CURRENT,
        lease_ms_max: int = 0,
    ) -> Extended | Code:
        """Change the deadline of a lease to `lease_ms` from now. INVALID_REQUEST if it then lasts over `lease_ms_max`.

        A rule that accepts late receipts leases a message again whose lease has ended, without an attempt.
        """
        row = self._leased_row(now_ms, lane_id, offset, number, accepts)
        if isinstance(row, Code):
            return row
        leases = self.state.leases
        if lease_ms_max and now_ms - leases.leased_ms[row] + lease_ms > lease_ms_max:
            return Code.INVALID_REQUEST
        if not leases.is_hidden(row):
            if self.settings.one_by_one and leases.leased:
                return Code.NOT_IN_FLIGHT
            if leases.leased + leases.returned >= self.settings.in_flight_max:
                return Code.TOO_MANY_IN_FLIGHT
        return Extended(queue=self.queue_id, lane=lane_id, offset=offset, deadline_ms=now_ms + lease_ms)

    def decide_return(
        self, now_ms: int, lane_id: int, offset: int, number: int, delay_ms: int = 0, accepts: str = CURRENT
    ) -> Returned | Code | None:
        """Return a message, available at once or after a delay. None if the rule accepts a message that is available
        already.
        """
        row = self._leased_row(now_ms, lane_id, offset, number, accepts)
        if isinstance(row, Code):
            return row
        if not self._is_out(now_ms, row):
            return None
        return Returned(queue=self.queue_id, lane=lane_id, offset=offset, at_ms=now_ms, visible_ms=now_ms + delay_ms)

    def decide_unseen(
        self, now_ms: int, lane_id: int, offset: int, number: int, *, at_once: bool = False
    ) -> Returned | Code:
        """Return a leased message that no consumer has seen, without an attempt: now, or when the lease ends."""
        row = self._row_of(lane_id, offset, number)
        if isinstance(row, Code):
            return row
        if row == NO_ROW or self.state.leases.is_held(row):
            return Code.NOT_IN_FLIGHT
        until_ms = now_ms if at_once else self.state.leases.deadline_ms[row]
        return Returned(
            queue=self.queue_id, lane=lane_id, offset=offset, at_ms=now_ms, visible_ms=until_ms, unseen=True
        )

    def decide_hold(
        self,
        now_ms: int,
        producer_id: int,
        coordinator_epoch: int,
        receipts: Sequence[tuple[int, int, int]],
        reported: Sequence[tuple[int, int]] = (),
        rejected: bool = False,
    ) -> list[Held] | Code:
        """Hold leased messages for a transaction of this producer, which other groups take part in.

        RECEIPT_SUPERSEDED if one has left its consumer; CONCURRENT_TRANSACTIONS if another transaction holds one;
        OVERLOADED beyond the bound. What the producer holds already is not held twice.
        """
        self.tick(now_ms)
        holds, leases = self.state.holds, self.state.leases
        lanes: dict[int, Held] = {}
        seen: set[tuple[int, int]] = set()
        for lane_id, offset, number in receipts:
            row = self._row_of(lane_id, offset, number)
            if isinstance(row, Code):
                return row
            if row == NO_ROW or leases.state[row] != LEASED or not self._is_out(now_ms, row):
                return Code.RECEIPT_SUPERSEDED
            if leases.is_held(row):
                if not holds.has(producer_id, lane_id, offset):
                    return Code.CONCURRENT_TRANSACTIONS
                continue
            held = lanes.get(lane_id)
            if held is None:
                held = lanes[lane_id] = Held(
                    queue=self.queue_id,
                    producer_id=producer_id,
                    coordinator_epoch=coordinator_epoch,
                    lane=lane_id,
                    offsets=[],
                    numbers=[],
                    reported=[other for lane, other in reported if lane == lane_id],
                    rejected=rejected,
                )
            if (lane_id, offset) not in seen:
                seen.add((lane_id, offset))
                held.offsets.append(offset)
                held.numbers.append(number)
        if holds.count + sum([len(held.offsets) for held in lanes.values()]) > HELD_MAX:
            return Code.OVERLOADED
        return list(lanes.values())

    def is_held(self, lane_id: int, offset: int) -> bool:
        """True if a transaction that is about to commit holds the message."""
        lane = self.state.lanes.get(lane_id)
        row = lane.cursor.find(offset) if lane is not None else NO_ROW
        return row != NO_ROW and self.state.leases.is_held(row)

    def _row_of(self, lane_id: int, offset: int, number: int) -> int | Code:
        """The row of a receipt; NO_ROW if the message is settled."""
        lane = self.state.lanes.get(lane_id)
        if lane is None or not 0 < number < self.state.next_number:
            return Code.INVALID_RECEIPT
        row = lane.cursor.find(offset)
        if row == NO_ROW and offset < lane.cursor.scan:
            return NO_ROW
        if row == NO_ROW or self.state.leases.number[row] != number:
            self.superseded += (
                1  # Another delivery replaced the lease. A late settle with the current receipt is accepted.
            )
            return Code.RECEIPT_SUPERSEDED
        return row

    def _leased_row(self, now_ms: int, lane_id: int, offset: int, number: int, accepts: str) -> int | Code:
        row = self._row_of(lane_id, offset, number)
        if isinstance(row, Code):
            return row
        if row == NO_ROW or (accepts != LATE and not self._is_out(now_ms, row)):
            return Code.NOT_IN_FLIGHT
        if self.state.leases.is_held(row):
            return Code.NOT_IN_FLIGHT  # A transaction decides over it: only the outcome ends or changes the lease.
        return row

    def _is_out(self, now_ms: int, row: int) -> bool:
        """True if the lease or the retry delay of a message has not ended."""
        leases = self.state.leases
        return leases.is_hidden(row) and (leases.deadline_ms[row] > now_ms or leases.is_held(row))

    # The whole queue

    def decide_purge(
        self,
        now_ms: int,
        ends: Sequence[tuple[int, int]],
        apart_ms: int = 0,
        messages: int = 0,
        bytes: int = 0,
        forgets: bool = False,
    ) -> Purged | Code:
        """Drop everything below these ends (lane, offset), and the deduplication window if it `forgets`.

        Refused within `apart_ms` of the last purge.
        """
        if self.state.purged_ms >= 0 and now_ms < self.state.purged_ms + apart_ms:
            return Code.PURGE_RUNNING
        return Purged(
            queue=self.queue_id, positions=list(ends), at_ms=now_ms, messages=messages, bytes=bytes, forgets=forgets
        )

    def decide_rewind(self, lane_id: int, offset: int, messages: int, bytes: int) -> Rewound | Code:
        """Deliver again from `offset` on, which is not above the scan. The caller gives the new counts."""
        lane = self.state.lanes.get(lane_id)
        if lane is None or not 0 <= offset <= lane.cursor.scan:
            return Code.OFFSET_OUT_OF_RANGE
        return Rewound(queue=self.queue_id, lane=lane_id, offset=offset, messages=messages, bytes=bytes)

    def decide_mark(self, ends: Sequence[tuple[int, int]]) -> Marked | Status | None:
        """A mark at these ends: groups may use other lanes from now on. TOO_MANY at the bound of marks; None if the
        queue is not FIFO.
        """
        state = self.state
        if not state.fifo:
            return None
        marks = state.marks
        # Drained marks still define sequence numbers, and a rewind needs them again. The last of them is the base of
        # all messages above it.
        forget = min(max(0, marks.done(state.lanes) - 1), max(0, len(marks) + 1 - MARKS_MAX))
        if len(marks) - forget >= MARKS_MAX:
            return Status.TOO_MANY
        return Marked(queue=self.queue_id, ends=list(ends), base=marks.next_sequence(list(ends)), forget=forget)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called next."""
        deadline_ms = self.state.leases.next_deadline_ms()
        return None if deadline_ms < 0 else deadline_ms

    def tick(self, now_ms: int, ends_max: int = LEASE_ENDS_AT_ONCE) -> bool:
        """End at most `ends_max` expired leases and delays; True if any ended."""
        return self.state.tick(now_ms, ends_max, self._backoff, self._rules.attempts_max)

    # Reading

    def lanes(self) -> list[tuple[int, int, int]]:
        """Lane, priority and scan position, by falling priority."""
        return [(lane.cursor.lane, lane.cursor.priority, lane.cursor.scan) for lane in self.state.order]

    def cursor(self, lane_id: int) -> Cursor:
        """The cursor of a lane, read-only."""
        return self.state.lanes[lane_id].cursor

    def waiting(self, ends: Sequence[tuple[int, int]]) -> int:
        """The number of deliverable messages, given the ends of the logs."""
        behind = 0
        for lane_id, end in ends:
            behind += max(0, end - self.state.lanes[lane_id].cursor.scan)
        return behind + self.state.leases.ready

    def first_waiting(self, lane_id: int, end: int) -> int:
        """The lowest deliverable offset of a lane, given the end of its log; -1 if there is none."""
        lane = self.state.lanes[lane_id]
        ready = lane.cursor.ready
        while ready:
            row = lane.cursor.find(ready[0])
            if row != NO_ROW and lane.is_available(row):
                return ready[0]
            heappop(ready)  # A stale entry.
        return lane.cursor.scan if lane.cursor.scan < end else -1

    @property
    def in_flight(self) -> int:
        """The number of leased messages."""
        return self.state.leases.leased

    @property
    def available_again(self) -> int:
        """The number of returned, expired and passed messages that are available, if their group is free."""
        return self.state.leases.ready

    @property
    def held_back(self) -> int:
        """The number of returned messages in a retry delay."""
        return self.state.leases.returned

    def lease_of(self, lane_id: int, offset: int) -> tuple[int, int, int, int] | None:
        """Number, deadline, attempts and time of the first delivery of an outstanding message."""
        row = self.state.lanes[lane_id].cursor.find(offset)
        if row == NO_ROW:
            return None
        leases = self.state.leases
        return (leases.number[row], leases.deadline_ms[row], leases.attempts[row], leases.first_ms[row])

    def is_leased(self, lane_id: int, offset: int) -> bool:
        """True if the message is leased now."""
        row = self.state.lanes[lane_id].cursor.find(offset)
        return row != NO_ROW and self.state.leases.state[row] == LEASED

    def history_of(self, lane_id: int, offset: int) -> list[tuple[int, int, int]]:
        """Received, ended and how (LAPSED or RETURNED_BY_HAND) of the attempts of an outstanding message."""
        row = self.state.lanes[lane_id].cursor.find(offset)
        return [] if row == NO_ROW else self.state.leases.history(row)

    # Applying

    def apply_sent(self, count: int, bytes: int) -> None:
        """Count a batch that was appended to one of the lanes."""
        self.state.apply_sent(count, bytes)

    def apply(self, event: QueueEvent) -> None:
        """Apply an event: the only way in which the queue changes."""
        self.state.apply(event)

    def snapshot(self) -> dict[str, Any]:
        """Builtins only."""
        return self.state.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Take the state of a `snapshot`. It has no settings."""
        self.state = State(self.state.fifo)
        self.state.restore(state)


def _priority(lane: Lane) -> int:
    return lane.cursor.priority


def _ended(outcome: Outcome) -> Outcome:
    """Set the status: GIVEN before DEATHS before MORE."""
    if outcome.given:
        outcome.status = Status.GIVEN
    elif outcome.deaths:
        outcome.status = Status.DEATHS
    elif outcome.events and outcome.status is Status.EMPTY:
        outcome.status = Status.MORE
    return outcome
