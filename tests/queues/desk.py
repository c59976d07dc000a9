"""A queue with its logs and its journal, as a broker would keep them, in memory."""

from __future__ import annotations

from typing import Any

import msgspec

from longhall.errors import Code
from longhall.queues.events import Died, LaneOpened, QueueEvent, Returned, decoder, encoder
from longhall.queues.outcomes import GONE, Candidate, Death, Given, Outcome, Status
from longhall.queues.queue import Queue
from longhall.queues.settings import QueueSettings

QUEUE = 7
Sent = tuple[int, int]  # In the journal: how many messages of how many bytes a batch had.


class Desk:
    """A queue over in-memory logs. Messages at or above `cold_from` are cold."""

    def __init__(self, settings: QueueSettings, priorities: dict[int, int] | None = None, passed_max: int = 20_000):
        self.settings = settings
        self.passed_max = passed_max
        self.journal: list[bytes | Sent] = []
        self.saved: tuple[bytes, int] | None = None
        self.logs: dict[int, list[Candidate]] = {}
        self.ends: dict[int, int] = {}
        self.cold_from: dict[int, int] = {}
        self.peek_max = 1000
        self.dead: list[Death] = []
        self.queue = Queue(QUEUE, settings, passed_max)
        for lane, priority in (priorities or {0: 0}).items():
            self.logs[lane] = []
            self.ends[lane] = 0
            self.write(LaneOpened(queue=QUEUE, lane=lane, priority=priority))

    def write(self, event: QueueEvent) -> None:
        self.journal.append(encoder.encode(event))
        self.queue.apply(event)

    def send(self, count: int = 1, lane: int = 0, group: str = "", size: int = 10, expires_ms: int = -1) -> list[int]:
        offsets = []
        for _ in range(count):
            offset = self.ends[lane]
            self.logs[lane].append(Candidate(offset, offset + 1, size, group, expires_ms))
            self.ends[lane] = offset + 1
            offsets.append(offset)
        self.journal.append((count, count * size))
        self.queue.apply_sent(count, count * size)
        return offsets

    def skip(self, count: int, lane: int = 0) -> None:
        """Skip offsets: the next message has a higher offset."""
        self.ends[lane] += count

    def peek(self, lane: int, offset: int, count: int) -> list[Candidate] | None:
        found = [candidate for candidate in self.logs[lane] if candidate.offset >= offset]
        cold_from = self.cold_from.get(lane, 1 << 60)
        if found and found[0].offset >= cold_from:
            return None
        return [candidate for candidate in found if candidate.offset < cold_from][: min(count, self.peek_max)]

    def ask(self, now_ms: int, count: int = 1, lease_ms: int = 1000) -> Outcome:
        """One request, with its events and deaths handled, but not asked again."""
        outcome = self.queue.decide_receive(now_ms, count, lease_ms, self.peek)
        for event in outcome.events:
            self.write(event)
        self.bury(outcome)
        return outcome

    def bury(self, outcome: Outcome) -> None:
        for death in outcome.deaths:
            assert (death.candidate is None) == (death.reason == GONE)
            self.write(Died(queue=QUEUE, lane=death.lane, offsets=[death.offset], reason=death.reason))
        self.dead.extend(outcome.deaths)

    def receive(self, now_ms: int, count: int = 1, lease_ms: int = 1000) -> list[Given]:
        """What a consumer gets: asked again as long as the queue says that this helps."""
        while True:
            outcome = self.ask(now_ms, count, lease_ms)
            if outcome.status is Status.COLD:
                del self.cold_from[outcome.cold_lane]
            elif outcome.status not in (Status.DEATHS, Status.MORE):
                return outcome.given

    def offsets(self, now_ms: int, count: int = 1, lease_ms: int = 1000) -> list[int]:
        return [given.candidate.offset for given in self.receive(now_ms, count, lease_ms)]

    def settle(self, now_ms: int, *given: Given) -> list[Code | None]:
        events, codes = self.queue.decide_settle(now_ms, [receipt(one) for one in given])
        for event in events:
            self.write(event)
        return codes

    def give_back(self, now_ms: int, given: Given, delay_ms: int = 0) -> Code | None:
        event = self.queue.decide_return(now_ms, *receipt(given), delay_ms)
        if isinstance(event, Code):
            return event
        assert isinstance(event, Returned)
        self.write(event)
        return None

    def withhold(self, now_ms: int, given: Given) -> Code | None:
        event = self.queue.decide_unseen(now_ms, *receipt(given))
        if isinstance(event, Code):
            return event
        self.write(event)
        return None

    def extend(self, now_ms: int, given: Given, lease_ms: int) -> Code | None:
        event = self.queue.decide_extend(now_ms, *receipt(given), lease_ms)
        if isinstance(event, Code):
            return event
        self.write(event)
        return None

    def save(self) -> None:
        self.saved = (msgspec.msgpack.encode(self.queue.snapshot()), len(self.journal))

    def replayed(self, from_snapshot: bool) -> Queue:
        """The queue as it is after a crash."""
        queue = Queue(QUEUE, self.settings, self.passed_max)
        start = 0
        if from_snapshot and self.saved is not None:
            body, start = self.saved
            queue.restore(msgspec.msgpack.decode(body))
        for entry in self.journal[start:]:
            if isinstance(entry, bytes):
                queue.apply(decoder.decode(entry))
            else:
                queue.apply_sent(*entry)
        return queue


def receipt(given: Given) -> tuple[int, int, int]:
    return (given.lane, given.candidate.offset, given.number)


def durable(queue: Queue) -> dict[str, Any]:
    """Everything that must be the same after a replay, in one order."""
    state = queue.state
    lanes = []
    for lane, priority, scan in queue.lanes():
        live = queue.cursor(lane).live_between(0, scan)
        groups = state.lanes[lane].groups
        chains: list[tuple[str, list[int]]] = []
        if groups is not None:
            for name, rows in groups.members(state.leases):
                assert isinstance(rows, list)
                chains.append((str(name), [state.leases.offset[row] for row in rows]))
        lanes.append((lane, priority, scan, [(o, queue.lease_of(lane, o)) for o in live], sorted(chains)))
    return {
        "lanes": lanes,
        "held": (state.messages, state.bytes),
        "counts": (queue.in_flight, queue.available_again, queue.held_back),
        "deaths": state.deaths,
        "work": state.processing_times.snapshot(),
        "paused": state.paused,
        "marks": (state.marks.snapshot(), state.marks.met),
        "next": (state.next_number, queue.next_deadline_ms()),
    }
