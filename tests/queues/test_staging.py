"""Staging against a list of due times, through crashes at every step, and what it costs."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.queues.auxiliary_events import SliceDropped, SliceOpened, StagingEvent
from longhall.queues.slices import DAY_MS, HOUR_MS, MINUTE_MS, begins_ms_of, level_of
from longhall.queues.staging import DROP, DUE_NOW, LOAD, MOVE, NO_LANE, RESTAGE, Staging
from tests.examples import examples

START_MS = 1_800_000_000_000
encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(StagingEvent)


class Broker:
    """The smallest one that can be: lanes in lists, a journal, and one atomic entry a step."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.lanes: dict[int, list[tuple[int, int]]] = {}
        self.next_lane = 0
        self.main: list[int] = []
        self.staging = Staging(queue=7)
        self.kept: dict[str, Any] = self.staging.snapshot()
        self.journal: list[bytes | tuple[int, int, int]] = []
        self.step = 3

    def write(self, event: StagingEvent) -> None:
        self.journal.append(encoder.encode(event))
        self.staging.apply(event)
        if isinstance(event, SliceDropped) and event.lane_deleted:
            self.lanes = {lane: log for lane, log in self.lanes.items() if lane in self.staging.lanes()}

    def stage(self, due_ms: int, message: int, key: int = 0) -> None:
        key = key or self.staging.place(due_ms, self.now_ms)[0]
        lane = self.staging.lane_of(key)
        if lane == NO_LANE:
            if not self.staging.has_idle_lane:
                self.next_lane += 1
                self.lanes[self.next_lane] = []
            event: SliceOpened = self.staging.decide_open(key, self.next_lane)
            self.write(event)
            lane = event.lane
        log = self.lanes[lane]
        self.journal.append((lane, len(log), due_ms))
        self.staging.appended(lane, len(log), due_ms, self.now_ms)
        log.append((due_ms, message))

    def work(self, steps: int) -> int:
        """Do the requested work in at most this many steps; returns the number of steps."""
        for taken in range(steps):
            work = self.staging.next_work(self.now_ms)
            if work is None:
                return taken
            if work.kind == MOVE:
                self.move(self.staging.due(self.now_ms, self.step))
            elif work.kind == LOAD:
                until = min(work.from_offset + self.step, work.until_offset)
                rows = self.lanes[work.lane][work.from_offset : until]
                entries = [(row[0], work.from_offset + at) for at, row in enumerate(rows)]
                self.staging.load(work.key, entries, until)
            elif work.kind == RESTAGE:
                self.restage(work.key, work.lane, work.from_offset)
            else:
                assert work.kind == DROP
                self.write(self.staging.decide_drop(work.key))
        return steps

    def move(self, places: list[tuple[int, int]]) -> None:
        for lane, offset in places:
            due_ms, message = self.lanes[lane][offset]
            assert due_ms <= self.now_ms
            self.main.append(message)
        for event in self.staging.decide_settle(places):
            self.write(event)

    def restage(self, key: int, lane: int, from_offset: int) -> None:
        places = []
        for offset in range(from_offset, min(from_offset + self.step, len(self.lanes[lane]))):
            if self.staging.is_settled(lane, offset):
                continue
            due_ms, message = self.lanes[lane][offset]
            target = self.staging.route(key, due_ms, self.now_ms)
            if target == DUE_NOW:
                self.main.append(message)
            else:
                assert level_of(target) < level_of(key)
                self.stage(due_ms, message, target)
            places.append((lane, offset))
        for event in self.staging.decide_settle(places, "restaged"):
            self.write(event)

    def keep(self) -> None:
        self.kept = msgspec.msgpack.decode(msgspec.msgpack.encode(self.staging.snapshot()))
        self.journal = []

    def crash(self, told_time: bool = False) -> None:
        self.staging = Staging(queue=7)
        self.staging.restore(self.kept)
        for entry in self.journal:
            if isinstance(entry, tuple):
                self.staging.appended(*entry, self.now_ms if told_time else 0)
            else:
                self.staging.apply(decoder.decode(entry))


class StagingMachine(RuleBasedStateMachine):
    """Whatever happens, a message comes out once, and not before its time."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.due: dict[int, int] = {}
        self.sent = 0

    @rule(
        delay_ms=st.integers(-5, 200)
        | st.integers(0, 2 * HOUR_MS)
        | st.integers(0, 4 * DAY_MS)
        | st.integers(0, 3650 * DAY_MS),
        count=st.integers(1, 5),
    )
    def send(self, delay_ms: int, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.due[self.sent] = self.broker.now_ms + delay_ms
            self.broker.stage(self.broker.now_ms + delay_ms, self.sent)

    @rule(passed_ms=st.integers(0, 300) | st.integers(0, 2 * HOUR_MS) | st.integers(0, 90 * DAY_MS))
    def pass_time(self, passed_ms: int) -> None:
        self.broker.now_ms += passed_ms

    @rule(steps=st.integers(1, 6))
    def work(self, steps: int) -> None:
        self.broker.work(steps)

    @rule()
    def wait_for_the_deadline(self) -> None:
        self.broker.work(10_000)
        deadline_ms = self.broker.staging.next_deadline_ms(self.broker.now_ms)
        pending = [due_ms for message, due_ms in self.due.items() if message not in self.broker.main]
        if pending:
            assert deadline_ms is not None
            assert deadline_ms <= max(min(pending), self.broker.now_ms + 5)  # `put_back` waits as long.
        if deadline_ms is not None:
            assert deadline_ms > self.broker.now_ms
            self.broker.now_ms = deadline_ms

    @rule(told_time=st.booleans())
    def crash(self, told_time: bool) -> None:
        self.broker.crash(told_time)

    @rule()
    def crash_with_messages_in_hand(self) -> None:
        self.broker.staging.due(self.broker.now_ms, 2)
        self.broker.crash()

    @rule()
    def put_back(self) -> None:
        for lane, offset in self.broker.staging.due(self.broker.now_ms, 2):
            self.broker.staging.put_back(lane, offset, self.broker.now_ms + 5)

    @rule()
    def keep(self) -> None:
        self.broker.keep()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        staged = [
            (lane, offset, row[1])
            for lane, log in self.broker.lanes.items()
            for offset, row in enumerate(log)
            if not self.broker.staging.is_settled(lane, offset)
        ]
        if staged:
            lane, offset, message = data.draw(st.sampled_from(staged))
            for event in self.broker.staging.decide_settle([(lane, offset)], "cancelled"):
                self.broker.write(event)
            del self.due[message]

    @rule()
    def purge(self) -> None:
        event = self.broker.staging.decide_purge()
        if event is not None:
            self.broker.write(event)
            self.due = {message: due_ms for message, due_ms in self.due.items() if message in self.broker.main}

    @invariant()
    def nothing_comes_early_or_twice(self) -> None:
        main = self.broker.main
        assert len(set(main)) == len(main)
        assert all(self.due[message] <= self.broker.now_ms for message in main)
        assert self.broker.staging.count == len(self.due) - len(main)

    def teardown(self) -> None:
        broker = self.broker
        for _ in range(2_000):
            broker.work(10_000)
            deadline_ms = broker.staging.next_deadline_ms(broker.now_ms)
            if deadline_ms is None:
                break
            broker.now_ms = max(deadline_ms, broker.now_ms)
        assert set(broker.main) == set(self.due)
        assert broker.staging.count == 0
        assert len(broker.staging.lanes()) <= 4


TestStaging = StagingMachine.TestCase
TestStaging.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)


def test_messages_come_in_the_order_of_their_due_times() -> None:
    broker = Broker()
    for delay_ms in (5000, 30, 70_000, 31, 5000, 1):
        broker.stage(START_MS + delay_ms, delay_ms)
    broker.now_ms += 90_000
    broker.work(100)
    assert broker.main == [1, 30, 31, 5000, 5000, 70_000]


def test_a_delay_of_three_months_costs_no_memory_and_few_copies() -> None:
    broker = Broker()
    broker.step = 100
    for message in range(500):
        broker.stage(START_MS + 92 * DAY_MS, message)
    written = 500
    assert broker.work(10) == 0
    while not broker.main:
        broker.crash()
        broker.work(1000)
        if begins_ms_of(broker.staging.place(START_MS + 92 * DAY_MS, broker.now_ms)[0]) > broker.now_ms:
            assert broker.staging.indexed == 0
        deadline_ms = broker.staging.next_deadline_ms(broker.now_ms)
        assert deadline_ms is not None
        written = max(written, sum(len(log) for log in broker.lanes.values()))
        assert not broker.main or broker.now_ms == START_MS + 92 * DAY_MS
        broker.now_ms = max(deadline_ms, broker.now_ms)
    assert broker.main == list(range(500))
    assert written <= 4 * 500


def test_short_delays_reuse_the_same_lanes() -> None:
    broker = Broker()
    for _ in range(600):
        broker.stage(broker.now_ms + 30_000, 0)
        broker.now_ms += 10_000
        broker.work(20)
    assert broker.next_lane <= 4


def test_a_minute_beyond_the_index_bound_is_loaded_in_parts() -> None:
    broker = Broker()
    broker.staging = Staging(queue=7, index_max=50)
    broker.step = 20
    for message in range(300):
        broker.stage(START_MS + 2 * MINUTE_MS + message % 7, message)
    broker.now_ms += 2 * MINUTE_MS - 10
    broker.work(100)
    assert broker.staging.indexed <= 70
    broker.now_ms += 20
    broker.work(1000)
    assert sorted(broker.main) == list(range(300))


def test_a_replay_with_the_time_frees_the_slots_of_dropped_slices() -> None:
    broker = Broker()
    broker.keep()
    for round_number in range(3):
        broker.stage(broker.now_ms + 10, round_number)
        broker.now_ms += 2 * MINUTE_MS
        broker.work(10)
    broker.crash(told_time=True)
    broker.work(10)
    broker.stage(broker.now_ms + 10, 3)
    broker.crash(told_time=True)
    broker.now_ms += 10
    broker.work(10)
    assert broker.main == [0, 1, 2, 3]


def test_gaps_in_a_lane_do_not_block_it() -> None:
    staging = Staging()
    key, _ = staging.place(START_MS + 10, START_MS)
    staging.apply(staging.decide_open(key, 1))
    for offset in (0, 3, 20):
        staging.appended(1, offset, START_MS + 10, START_MS)
    assert staging.count == 3
    assert staging.due(START_MS + 10) == [(1, 0), (1, 3), (1, 20)]
    for event in staging.decide_settle([(1, offset) for offset in range(21)]):
        staging.apply(event)
    assert staging.count == 0
    work = staging.next_work(START_MS + MINUTE_MS)
    assert work is not None
    assert work.kind == DROP
