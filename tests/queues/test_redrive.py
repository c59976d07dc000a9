"""Redrives: each message once through crashes at every step, at the rate that was asked for, until it is cancelled."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.errors import Code
from longhall.queues.auxiliary_events import MoveCancelling, MoveEnded, MoveEvent, MoveStarted
from longhall.queues.redrive import ENDED_MAX, Redrives, Step
from tests.examples import examples

decoder = msgspec.msgpack.Decoder(MoveEvent)


class Broker:
    """Dead letters in lists, a journal, and crashes."""

    def __init__(self, *lanes: int) -> None:
        self.lanes = {number: [(number, at) for at in range(count)] for number, count in enumerate(lanes)}
        self.moved: list[tuple[int, int]] = []
        self.redrives = Redrives()
        self.journal: list[bytes] = []
        self.kept: bytes = msgspec.msgpack.encode([])
        self.now_ms = 1000

    def write(self, event: MoveEvent) -> None:
        self.journal.append(msgspec.msgpack.encode(event))
        self.redrives.apply(event)

    def start(self, task_id: str = "t1", source: str = "dead", rate_max: int = 0) -> Code | None:
        ends = tuple((number, len(lane)) for number, lane in self.lanes.items())
        total = sum(end for _, end in ends)
        event = self.redrives.decide_start(task_id, source, "", rate_max, total, ends, self.now_ms)
        if isinstance(event, Code):
            return event
        self.write(event)
        return None

    def do(self, step: Step, count: int) -> None:
        if step.ended is not None:
            self.write(step.ended)
            return
        until = min(step.from_offset + min(count, step.count_max), step.until_offset)
        taken = self.lanes[step.partition][step.from_offset : until]
        self.moved += taken
        self.write(self.redrives.decide_progress(step, until, len(taken)))

    def run(self, count: int = 1000) -> None:
        """Until there is nothing more to do, however long it takes."""
        for _ in range(10_000):
            step = self.redrives.next_step(self.now_ms)
            if step is not None:
                self.do(step, count)
                continue
            deadline_ms = self.redrives.next_deadline_ms(self.now_ms)
            if deadline_ms is None:
                return
            assert deadline_ms > self.now_ms
            self.now_ms = deadline_ms
        raise AssertionError("it never ends")

    def keep(self) -> None:
        self.kept = msgspec.msgpack.encode(self.redrives.snapshot())
        self.journal = []

    def crash(self) -> None:
        self.redrives = Redrives()
        self.redrives.restore(msgspec.msgpack.decode(self.kept))
        for event in self.journal:
            self.redrives.apply(decoder.decode(event))


@settings(max_examples=examples(100))
@given(
    st.lists(st.integers(0, 8), max_size=3),
    st.sampled_from([0, 3, 1000]),
    st.lists(st.sampled_from(["step", "step", "crash", "crash in step", "keep", "give up", "wait"]), max_size=30),
)
def test_each_message_moves_once_through_crashes(lanes: list[int], rate_max: int, plan: list[str]) -> None:
    broker = Broker(*lanes)
    assert broker.start(rate_max=rate_max) is None
    for word in plan:
        if word in ("step", "give up", "crash in step"):
            step = broker.redrives.next_step(broker.now_ms)
            if step is not None:
                if word == "step":
                    broker.do(step, 2)
                elif word == "give up":
                    broker.redrives.give_up(step)
        if word.startswith("crash"):
            broker.crash()
        elif word == "keep":
            broker.keep()
        elif word == "wait":
            broker.now_ms += 200
    broker.crash()
    broker.run(2)
    assert broker.moved == [place for lane in broker.lanes.values() for place in lane]
    task = broker.redrives.get("t1")
    assert task is not None
    assert (task.state, task.moved, task.to_move) == ("COMPLETED", sum(lanes), sum(lanes))


def test_a_source_has_one_task() -> None:
    broker = Broker(3)
    assert broker.start("t1") is None
    assert broker.start("t2") is Code.MOVE_RUNNING
    assert broker.start("t1", "other") is Code.INVALID_REQUEST
    assert broker.start("t3", "other") is None
    broker.run()
    assert broker.start("t2") is None


def test_the_rate_limit_holds() -> None:
    broker = Broker(501)
    broker.start(rate_max=50)
    broker.run()
    assert len(broker.moved) == 501
    assert 9_900 <= broker.now_ms - 1000 <= 10_100


def test_a_long_pause_accumulates_no_tokens() -> None:
    broker = Broker(5000)
    broker.start(rate_max=100)
    broker.redrives.next_deadline_ms(broker.now_ms)
    broker.now_ms += 3_600_000
    step = broker.redrives.next_step(broker.now_ms)
    assert step is not None
    assert step.count_max <= 10


def test_a_cancelled_task_stops_and_moved_messages_stay() -> None:
    broker = Broker(10)
    broker.start()
    step = broker.redrives.next_step(broker.now_ms)
    assert step is not None
    event = broker.redrives.decide_cancel("t1")
    assert isinstance(event, MoveCancelling)
    broker.write(event)
    assert broker.redrives.next_step(broker.now_ms) is None  # The step is still under way.
    broker.do(step, 4)
    assert broker.redrives.describe("dead")[0].state == "CANCELLING"
    broker.crash()
    broker.run()
    task = broker.redrives.describe("dead")[0]
    assert (task.state, task.moved) == ("CANCELLED", 4)
    assert broker.redrives.decide_cancel("t1") is Code.MOVE_UNKNOWN
    assert broker.redrives.decide_cancel("nobody") is Code.MOVE_UNKNOWN


def test_a_failure_ends_the_task_with_a_reason() -> None:
    broker = Broker(10)
    broker.start()
    event = broker.redrives.decide_fail("t1", "the target is gone", broker.now_ms)
    assert isinstance(event, MoveEnded)
    broker.write(event)
    task = broker.redrives.describe("dead")[0]
    assert (task.state, task.failure) == ("FAILED", "the target is gone")
    assert broker.redrives.decide_fail("t1", "again", broker.now_ms) is Code.MOVE_UNKNOWN


def test_the_last_ten_ended_tasks_are_stored() -> None:
    broker = Broker(1)
    for number in range(ENDED_MAX + 5):
        assert broker.start(f"t{number}") is None
        broker.run()
        broker.keep()
        broker.crash()
    assert [task.task_id for task in broker.redrives.describe("dead")] == [f"t{n}" for n in range(14, 4, -1)]
    broker.redrives.forget("dead")
    assert broker.redrives.describe("dead") == []
    assert broker.redrives.snapshot() == []


def test_tasks_take_turns() -> None:
    broker = Broker(9000)
    broker.start("t1", "one")
    broker.start("t2", "two")
    served = []
    for _ in range(6):
        step = broker.redrives.next_step(broker.now_ms)
        assert step is not None
        served.append(step.task_id)
        broker.do(step, 10)
    assert served == ["t1", "t2"] * 3


def test_a_started_task_has_the_request() -> None:
    event = Redrives().decide_start("t", "dead", "target", 7, 3, ((1, 3),), 5)
    assert event == MoveStarted(
        task_id="t", source="dead", target="target", rate_max=7, to_move=3, ends=((1, 3),), at_ms=5
    )
