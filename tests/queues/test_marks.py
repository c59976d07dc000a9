"""FIFO groups that go to other logs while a queue grows and shrinks, against a naive line of messages.

The parts double and halve at any moment. Senders through the hall go by its map at once. Others choose the log by
themselves, as Kafka producers do, and hear of a change late: each has keys of its own. What must hold, whatever
happens: nothing of a group goes out while something older of it is not done with, unless before it in the same answer;
nothing is lost; whatever could go out does; and a crash in between changes nothing.
"""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from longhall.queues.events import LaneOpened, Marked
from longhall.queues.marks import MARKS_MAX
from longhall.queues.outcomes import Candidate, Given, Outcome, Status
from longhall.queues.parts import Senders
from longhall.queues.settings import QueueSettings
from tests.examples import examples
from tests.queues.desk import QUEUE, Desk, durable

PARTS_MAX = 4
GROUPS = ("a", "b", "c")
SENDERS = (0, 1)


def test_a_group_waits_for_its_messages_in_the_old_log() -> None:
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    desk.send(2, 0, "g")
    desk.send(1, 0, "h")
    mark(desk)
    desk.send(1, 1, "g")
    desk.send(1, 1, "i")
    first = desk.receive(0, 10)
    assert [(one.lane, one.candidate.group) for one in first] == [(0, "g"), (0, "g"), (0, "h")]
    assert [one.candidate.group for one in desk.receive(0, 10)] == ["i"]
    desk.settle(0, first[0])
    assert desk.receive(0, 10) == []
    desk.settle(0, first[1])
    assert [(one.lane, one.candidate.group) for one in desk.receive(0, 10)] == [(1, "g")]


def test_returned_messages_precede_later_ones_in_another_log() -> None:
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    desk.send(1, 0, "g")
    mark(desk)
    desk.send(1, 1, "g")
    (first,) = desk.receive(0, 10)
    desk.give_back(0, first, delay_ms=50)
    assert desk.receive(10, 10) == []
    (again,) = desk.receive(60, 10)
    assert again.lane == 0
    desk.settle(60, again)
    assert [one.lane for one in desk.receive(60, 10)] == [1]


def test_a_group_in_two_logs_is_delivered_from_one_at_a_time() -> None:
    """Two doors may choose different logs for a group; it is still delivered from one at a time."""
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    desk.send(1, 0, "g")
    desk.send(1, 1, "g")
    first = desk.receive(0, 10)
    assert len(first) == 1
    assert desk.receive(0, 10) == []
    desk.settle(0, *first)
    assert len(desk.receive(0, 10)) == 1


def test_marks_are_dropped_when_everything_below_is_settled() -> None:
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    last = -1
    for turn in range(2 * MARKS_MAX):
        (offset,) = desk.send(1, turn % 2, "g")
        sequence = desk.queue.state.marks.sequence(turn % 2, offset)
        assert sequence > last
        last = sequence
        mark(desk)
        desk.settle(0, *desk.receive(0, 10))
    assert len(desk.queue.state.marks) == MARKS_MAX


def test_sequence_numbers_rise_within_a_group_that_changes_its_log() -> None:
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    places = [(0, offset) for offset in desk.send(3, 0, "g")]
    mark(desk)
    places += [(1, offset) for offset in desk.send(2, 1, "g")]
    mark(desk)
    mark(desk)
    places += [(0, offset) for offset in desk.send(2, 0, "g")]
    for queue in (desk.queue, desk.replayed(False)):
        assert [queue.state.marks.sequence(*place) for place in places] == [0, 1, 2, 3, 4, 5, 6]


def test_marks_are_bounded_without_receivers() -> None:
    desk = Desk(QueueSettings(fifo=True), {0: 0, 1: 0})
    for _ in range(MARKS_MAX):
        desk.send(1, 0, "g")
        mark(desk)
    assert desk.queue.decide_mark(list(desk.ends.items())) is Status.TOO_MANY
    assert Desk(QueueSettings()).queue.decide_mark([]) is None


def test_after_a_rewind_the_order_is_the_same() -> None:
    desk = Desk(QueueSettings(fifo=True, settled="keep"), {0: 0, 1: 0})
    desk.send(1, 0, "g")
    mark(desk)
    desk.send(1, 1, "g")
    for lane in (0, 1):
        (given,) = desk.receive(0, 10)
        assert given.lane == lane
        desk.settle(0, given)
    for lane in (1, 0):
        rewound = desk.queue.decide_rewind(lane, 0, 2, 20)
        assert not isinstance(rewound, str)
        desk.write(rewound)  # type: ignore[arg-type]
    for lane in (0, 1):
        (given,) = desk.receive(0, 10)
        assert given.lane == lane
        desk.settle(0, given)


def mark(desk: Desk) -> None:
    marked = desk.queue.decide_mark(list(desk.ends.items()))
    assert isinstance(marked, Marked)
    desk.write(marked)


class Message:
    """One message of the naive line."""

    def __init__(self, number: int, group: str) -> None:
        self.number = number
        self.group = group
        self.settled = False
        self.hidden_until_ms = 0


class PartsMachine(RuleBasedStateMachine):
    """See the module."""

    @initialize(passed_max=st.sampled_from([3, 1000]))
    def start(self, passed_max: int) -> None:
        self.desk = Desk(QueueSettings(fifo=True), {10: 0}, passed_max)
        self.open = 1  # Where the hall sends.
        self.shown = 1  # What others are told.
        self.views = dict.fromkeys(SENDERS, 1)
        self.senders = Senders(1)
        self.messages: dict[tuple[int, int], Message] = {}
        self.given: list[Given] = []
        self.sequences: dict[str, int] = {}  # The last of each group.
        self.now_ms = 0
        self.count = 0

    # What people do

    @rule(groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4))
    def send(self, groups: list[str]) -> None:
        for group in groups:
            self.append(group, (GROUPS.index(group) + 1) % self.open)

    @rule(sender=st.sampled_from(SENDERS), keys=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def send_by_itself(self, sender: int, keys: list[int]) -> None:
        """By its own count of parts, which may be an old one."""
        for key in keys:
            part = key % self.views[sender]
            if self.open < self.shown:  # It may not know that parts are to go: they stay.
                self.change(self.shown)
            if self.senders.notices_growth(sender, part):
                self.mark()
            self.append(f"{sender}-{key}", part)

    @rule(sender=st.sampled_from(SENDERS))
    def hear(self, sender: int) -> None:
        self.views[sender] = self.shown

    def append(self, group: str, part: int) -> None:
        lane = 10 + part
        (offset,) = self.desk.send(1, lane, group, size=1)
        self.count += 1
        self.messages[lane, offset] = Message(self.count, group)
        sequence = self.desk.queue.state.marks.sequence(lane, offset)
        assert sequence > self.sequences.get(group, -1)
        self.sequences[group] = sequence

    @precondition(lambda self: self.open < PARTS_MAX)
    @rule()
    def grow(self) -> None:
        self.change(self.open * 2)

    @precondition(lambda self: self.open > 1)
    @rule()
    def shrink(self) -> None:
        self.change(self.open // 2)

    @precondition(lambda self: self.open < self.shown)
    @rule()
    def hide(self) -> None:
        """The closed parts are drained and hidden, and all clients have refreshed their metadata."""
        going = range(10 + self.open, 10 + self.shown)
        if all(self.desk.queue.cursor(lane).floor() == self.desk.ends[lane] for lane in going):
            self.shown = self.open
            self.views = dict.fromkeys(SENDERS, self.shown)
            self.senders.forget()

    def change(self, count: int) -> None:
        if not self.mark():
            return
        for part in range(count):
            if 10 + part not in self.desk.logs:
                self.desk.logs[10 + part] = []
                self.desk.ends[10 + part] = 0
                self.desk.write(LaneOpened(queue=QUEUE, lane=10 + part))
        self.open = count
        self.shown = max(self.shown, count)

    def mark(self) -> bool:
        marked = self.desk.queue.decide_mark(list(self.desk.ends.items()))
        if isinstance(marked, Marked):
            self.desk.write(marked)
        return isinstance(marked, Marked)

    @rule(count=st.integers(1, 8), lease_ms=st.sampled_from([100, 1000]), settles=st.booleans(), cold=st.integers(0, 9))
    def receive(self, count: int, lease_ms: int, settles: bool, cold: int) -> None:
        lane = 10 + cold % len(self.desk.logs)
        if cold > 6 and self.desk.logs[lane]:
            self.desk.cold_from[lane] = self.desk.logs[lane][cold % len(self.desk.logs[lane])].offset
        for _ in range(500):
            outcome = self.desk.queue.decide_receive(self.now_ms, count, lease_ms, self.desk.peek)
            self.check(outcome)
            for event in outcome.events:
                self.desk.write(event)
            for one in outcome.given:
                self.messages[one.lane, one.candidate.offset].hidden_until_ms = self.now_ms + lease_ms
            self.given += outcome.given
            if settles:
                self.settle(*outcome.given)
            if outcome.status is Status.COLD:
                del self.desk.cold_from[outcome.cold_lane]
            elif outcome.status is not Status.MORE:
                return
        raise AssertionError("asked again without end")

    @precondition(lambda self: self.open < PARTS_MAX)
    @rule(groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4))
    def grow_while_something_is_out(self, groups: list[str]) -> None:
        """And what comes then waits, is looked at in vain, and goes out when nothing is in its way any more."""
        self.send(groups)
        self.receive(8, 1000, False, 0)
        self.grow()
        self.send(groups)
        for _ in range(2):
            self.receive(8, 1000, False, 0)
        self.settle(*self.given[-8:])
        self.receive(8, 1000, False, 0)

    @precondition(lambda self: self.given)
    @rule(back=st.integers(0, 20))
    def settle_one(self, back: int) -> None:
        self.settle(self.given[-1 - min(back, len(self.given) - 1)])

    @precondition(lambda self: self.given)
    @rule(back=st.integers(0, 5), delay_ms=st.sampled_from([0, 50]))
    def give_back(self, back: int, delay_ms: int) -> None:
        given = self.given[-1 - min(back, len(self.given) - 1)]
        if self.desk.give_back(self.now_ms, given, delay_ms) is None:
            self.messages[given.lane, given.candidate.offset].hidden_until_ms = self.now_ms + delay_ms

    def settle(self, *given: Given) -> None:
        for one, code in zip(given, self.desk.settle(self.now_ms, *given), strict=True):
            if code is None:
                self.messages[one.lane, one.candidate.offset].settled = True

    @rule(by_ms=st.sampled_from([1, 60, 100, 1000]))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.desk.queue.tick(self.now_ms)

    @rule()
    def save(self) -> None:
        self.desk.save()

    @rule(from_snapshot=st.booleans())
    def crash(self, from_snapshot: bool) -> None:
        queue = self.desk.replayed(from_snapshot)
        queue.tick(self.now_ms)
        self.desk.queue.tick(self.now_ms)
        assert durable(queue) == durable(self.desk.queue)
        self.desk.queue = queue

    # What must hold

    def check(self, outcome: Outcome) -> None:
        went: set[tuple[int, int]] = set()
        assert not outcome.deaths
        for given in outcome.given:
            place = (given.lane, given.candidate.offset)
            assert self.may_go(place, given.candidate, went), (place, given.candidate.group)
            went.add(place)
        if outcome.status is Status.EMPTY:
            assert not [place for place in self.messages if self.may_go(place, None, set())]

    def may_go(self, place: tuple[int, int], candidate: Candidate | None, went: set[tuple[int, int]]) -> bool:
        message = self.messages[place]
        assert candidate is None or candidate.group == message.group
        if message.settled:
            return False
        for at, one in self.messages.items():
            is_later_here = at[0] == place[0] and one.number > message.number
            if one.group == message.group and self.is_out(one) and not is_later_here:
                return False
        older = [
            at
            for at, one in self.messages.items()
            if one.group == message.group and one.number < message.number and not one.settled
        ]
        return all(at in went for at in older)

    def is_out(self, message: Message) -> bool:
        return not message.settled and message.hidden_until_ms > self.now_ms

    @invariant()
    def counts_are_right(self) -> None:
        if hasattr(self, "desk"):
            live = sum(not message.settled for message in self.messages.values())
            assert self.desk.queue.state.messages == live

    def teardown(self) -> None:
        """Everything goes out and is settled."""
        if not hasattr(self, "desk"):
            return
        for _ in range(400):
            self.now_ms += 2000
            self.receive(8, 1000, True, 0)
            if all(message.settled for message in self.messages.values()):
                return
        raise AssertionError("something stays")


TestParts = PartsMachine.TestCase
TestParts.settings = hypothesis.settings(max_examples=examples(30), stateful_step_count=50, deadline=None)
