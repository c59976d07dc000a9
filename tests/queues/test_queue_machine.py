"""A queue against a naive one, under arbitrary requests, times and crashes.

The naive queue is a list of messages, each with its state, looked through from the front. What must hold, whatever
happens: never given out while leased; in the right order; stale receipts refused and late ones welcome; dead letters
after exactly so many attempts; order within a group; nothing back that was settled, dead or purged; the journal and
any snapshot replay to the same queue; and in the end every message is settled, dead or purged.
"""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from longhall.errors import Code
from longhall.queues.events import Switched
from longhall.queues.outcomes import ATTEMPTS, EXPIRED, Candidate, Death, Given, Outcome, Status
from longhall.queues.retry import retry_delay_ms
from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from tests.examples import examples
from tests.queues.desk import QUEUE, Desk, durable, receipt

LANES = {10: 0, 11: 1}  # Lane to priority.
GROUPS = ("", "a", "b", "c")
ATTEMPTS_MAX = 3


class Message:
    """One message of the naive queue."""

    def __init__(self, lane: int, candidate: Candidate, backoff: RetryPolicy | None, attempts_max: int) -> None:
        self.lane = lane
        self.backoff = backoff
        self.attempts_max = attempts_max
        self.candidate = candidate
        self.fate = ""  # How it ended.
        self.number = 0
        self.attempts = 0
        self.first_ms = 0
        self.hidden_until_ms = 0
        self.returned = False

    def leased(self, now_ms: int) -> bool:
        """Or returned with a delay."""
        return self.hidden_until_ms > now_ms

    def hidden(self, now_ms: int) -> bool:
        until_ms = self.hidden_until_ms
        if self.backoff is not None and self.attempts and not self.returned:
            if not 0 < self.attempts_max <= self.attempts:
                until_ms += retry_delay_ms(self.backoff, self.attempts)
        return until_ms > now_ms

    def reason_to_die(self, now_ms: int, attempts_max: int) -> str:
        if 0 <= self.candidate.expires_ms <= now_ms:
            return EXPIRED
        return ATTEMPTS if 0 < attempts_max <= self.attempts else ""


class QueueMachine(RuleBasedStateMachine):
    """See the module."""

    @initialize(
        fifo=st.booleans(),
        fair=st.booleans(),
        one_by_one=st.sampled_from([False, False, False, True]),
        delivery=st.sampled_from(["at-least-once", "at-least-once", "exactly-once", "exactly-once", "at-most-once"]),
        letters=st.booleans(),
        in_flight_max=st.sampled_from([2, 5, 1000]),
        passed_max=st.sampled_from([4, 1000]),
        backoff=st.sampled_from([None, None, RetryPolicy(first_ms=150, lapsed=True, longest_ms=900)]),
    )
    def start(
        self,
        fifo: bool,
        fair: bool,
        one_by_one: bool,
        delivery: str,
        letters: bool,
        in_flight_max: int,
        passed_max: int,
        backoff: RetryPolicy | None,
    ) -> None:
        self.settings = QueueSettings(
            fifo=fifo,
            fair=fair,
            one_by_one=one_by_one,
            delivery=delivery,  # type: ignore[arg-type]
            in_flight_max=in_flight_max,
            priorities=2,
            retry=backoff,
            dead_letters=DeadLetters(queue="letters", attempts_max=ATTEMPTS_MAX) if letters else None,
        )
        self.attempts_max = ATTEMPTS_MAX if letters else 0
        self.desk = Desk(self.settings, LANES, passed_max)
        self.messages: dict[tuple[int, int], Message] = {}
        self.given: list[Given] = []
        self.now_ms = 1000
        self.paused = False
        self.highest = 0

    # What people do

    @rule(
        lane=st.sampled_from(sorted(LANES)),
        groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=6),
        gap=st.sampled_from([0, 0, 0, 1, 63, 200]),
    )
    def send(self, lane: int, groups: list[str], gap: int) -> None:
        self.desk.skip(gap, lane)
        for group in groups:
            self.note(lane, self.desk.send(1, lane, group, size=len(group) + 1))

    @rule(lane=st.sampled_from(sorted(LANES)), group=st.sampled_from(GROUPS), live_ms=st.integers(0, 3000))
    def send_short_lived(self, lane: int, group: str, live_ms: int) -> None:
        self.note(lane, self.desk.send(1, lane, group, size=5, expires_ms=self.now_ms + live_ms))
        self.note(lane, self.desk.send(1, lane, group, size=1))

    def note(self, lane: int, offsets: list[int]) -> None:
        for candidate in self.desk.logs[lane][-len(offsets) :]:
            self.messages[lane, candidate.offset] = Message(lane, candidate, self.settings.retry, self.attempts_max)

    @rule(count=st.integers(1, 5))
    def receive_shortly(self, count: int) -> None:
        self.receive(count, 500, 0)

    @rule(count=st.integers(1, 3))
    def receive_and_wait(self, count: int) -> None:
        """Leases end."""
        self.receive(count, 400, 0)
        self.now_ms += 400

    @rule(count=st.integers(1, 5), lease_ms=st.sampled_from([0, 1, 500, 2000]), cold=st.integers(0, 8))
    def receive(self, count: int, lease_ms: int, cold: int) -> None:
        lane = sorted(LANES)[cold % 2]
        if cold >= 4 and self.desk.logs[lane]:
            self.desk.cold_from[lane] = self.desk.logs[lane][cold % len(self.desk.logs[lane])].offset
        for _ in range(500):
            outcome = self.desk.queue.decide_receive(self.now_ms, count, lease_ms, self.desk.peek)
            self.check(outcome, count)
            for event in outcome.events:
                self.desk.write(event)
            self.desk.bury(outcome)
            self.take(outcome, lease_ms)
            if outcome.status is Status.COLD:
                del self.desk.cold_from[outcome.cold_lane]
            elif outcome.status not in (Status.DEATHS, Status.MORE):
                return
        raise AssertionError("asked again without end")

    @rule(count=st.integers(1, 5))
    def receive_in_vain(self, count: int) -> None:
        """The append failed: the decision is not applied."""
        self.desk.queue.decide_receive(self.now_ms, count, 1000, self.desk.peek)

    def any_given(self, data: st.DataObject) -> Given:
        """Mostly one of the last."""
        return self.given[-1 - min(data.draw(st.sampled_from([0, 1, 2, 3, 4, 5, 10, 20, 40])), len(self.given) - 1)]

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        given = self.any_given(data)
        message = self.messages[given.lane, given.candidate.offset]
        (code,) = self.desk.settle(self.now_ms, given)
        if message.fate:
            assert code is None
        elif message.number != given.number:
            assert code is Code.RECEIPT_SUPERSEDED
        else:
            assert code is None
            message.fate = "settled"

    @precondition(lambda self: self.stale())
    @rule(data=st.data())
    def settle_too_late(self, data: st.DataObject) -> None:
        """Settle with a superseded receipt."""
        given = data.draw(st.sampled_from(self.stale()))
        assert self.desk.settle(self.now_ms, given) == [Code.RECEIPT_SUPERSEDED]
        assert self.desk.extend(self.now_ms, given, 1000) is Code.RECEIPT_SUPERSEDED
        assert self.desk.give_back(self.now_ms, given) is Code.RECEIPT_SUPERSEDED

    def stale(self) -> list[Given]:
        recent = [(given, self.messages[given.lane, given.candidate.offset]) for given in self.given[-40:]]
        return [given for given, message in recent if not message.fate and message.number != given.number]

    @precondition(lambda self: self.given)
    @rule(data=st.data(), lease_ms=st.integers(0, 3000), back=st.booleans())
    def change(self, data: st.DataObject, lease_ms: int, back: bool) -> None:
        """Extend a lease or give it back."""
        given = self.any_given(data)
        message = self.messages[given.lane, given.candidate.offset]
        code = (self.desk.give_back if back else self.desk.extend)(self.now_ms, given, lease_ms)
        if not message.fate and message.number != given.number:
            assert code is Code.RECEIPT_SUPERSEDED
        elif message.fate or not message.leased(self.now_ms):
            assert code is Code.NOT_IN_FLIGHT
        else:
            assert code is None
            message.hidden_until_ms = self.now_ms + lease_ms
            message.returned = back

    @precondition(lambda self: self.given)
    @rule()
    def withhold(self) -> None:
        """The last leased message is unreadable and is withheld."""
        given = self.given[-1]
        message = self.messages[given.lane, given.candidate.offset]
        if message.returned:
            return  # Somebody was.
        code = self.desk.withhold(self.now_ms, given)
        if message.fate:
            assert code is Code.NOT_IN_FLIGHT
        elif message.number != given.number:
            assert code is Code.RECEIPT_SUPERSEDED
        else:
            assert code is None
            message.number = 0
            message.attempts -= 1
            message.returned = True

    @rule(by_ms=st.sampled_from([1, 10, 499, 500, 501, 2500]))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        due_ms = self.desk.queue.next_deadline_ms()
        woke = self.desk.queue.tick(self.now_ms)
        assert woke == (due_ms is not None and due_ms <= self.now_ms)

    @precondition(lambda self: sum(not message.fate for message in self.messages.values()) > 15)
    @rule(lanes=st.sampled_from([(10,), (11,), (10, 11)]), back=st.integers(0, 6))
    def purge(self, lanes: tuple[int, ...], back: int) -> None:
        """All of some lanes, but for the last few offsets."""
        ends = {lane: max(0, self.desk.ends[lane] - back) for lane in lanes}
        gone = [m for m in self.messages.values() if not m.fate and m.candidate.offset < ends.get(m.lane, 0)]
        left = [m for m in self.messages.values() if not m.fate and m not in gone]
        size = sum(message.candidate.size_bytes for message in left)
        event = self.desk.queue.decide_purge(self.now_ms, list(ends.items()), 600, len(left), size)
        if isinstance(event, Code):
            assert event is Code.PURGE_RUNNING
            return
        self.desk.write(event)
        for message in gone:
            message.fate = "purged"

    @rule(crash=st.booleans())
    def pause_and_resume(self, crash: bool) -> None:
        self.paused = True
        self.desk.write(Switched(queue=QUEUE, paused=True))
        if crash:
            self.crash(True)
        self.receive(1, 500, 0)
        self.paused = False
        self.desk.write(Switched(queue=QUEUE, paused=False))

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

    def check(self, outcome: Outcome, count: int) -> None:
        """Against the naive queue, before anything of the outcome is applied."""
        expected, dying = self.expected()
        offsets = [(given.lane, given.candidate.offset) for given in outcome.given]
        assert {(death.lane, death.offset) for death in outcome.deaths} <= dying
        if outcome.status is Status.CLOSED:
            assert self.paused
            return
        in_flight = [m for m in self.messages.values() if not m.fate and m.hidden(self.now_ms)]
        if outcome.status is Status.BUSY:
            assert self.settings.one_by_one
            assert any(not message.returned for message in in_flight if message.leased(self.now_ms))
            return
        room = min(count, self.settings.in_flight_max - len(in_flight))
        if self.settings.one_by_one:
            assert not any(not message.returned for message in in_flight if message.leased(self.now_ms))
            room = min(room, 1)
        assert len(offsets) <= max(0, room)
        if self.settings.fair and not self.settings.fifo and not self.settings.one_by_one:
            assert set(offsets) <= set(expected)
            assert sorted(offsets, key=lambda place: (-LANES[place[0]], place[1])) == offsets
        elif self.settings.fifo:
            self.check_groups(offsets, expected)
        else:
            assert offsets == expected[: len(offsets)]
        if outcome.status is Status.EMPTY:
            assert not expected
            assert all(self.settings.fifo and self.is_blocked(place) for place in dying)
        if outcome.status is Status.TOO_MANY:
            assert room <= 0 or self.settings.fifo or self.desk.passed_max < 1000
        for given in outcome.given:
            self.check_given(given)

    def check_groups(self, offsets: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
        """FIFO: each group without a gap from its first message on, and one after the other in the reply."""
        lanes = [LANES[lane] for lane, _ in offsets]
        assert lanes == sorted(lanes, reverse=True)
        for lane in LANES:
            here = [place for place in offsets if place[0] == lane]
            names = [self.messages[place].candidate.group for place in here]
            assert len(set(names)) == sum(name != before for name, before in zip(names, ["?", *names], strict=False))
            for group in set(names):
                taken = [place for place in here if self.messages[place].candidate.group == group]
                going = [p for p in expected if p[0] == lane and self.messages[p].candidate.group == group]
                assert taken == going[: len(taken)]

    def check_given(self, given: Given) -> None:
        message = self.messages[given.lane, given.candidate.offset]
        assert not message.fate
        assert not message.hidden(self.now_ms)
        assert given.attempts == message.attempts + 1
        assert given.first_ms == (message.first_ms if message.attempts else self.now_ms)
        if self.attempts_max:
            assert given.attempts <= self.attempts_max

    def expected(self) -> tuple[list[tuple[int, int]], set[tuple[int, int]]]:
        """What may go out now, in order, and what must die, found the naive way."""
        going: list[tuple[int, int]] = []
        dying: set[tuple[int, int]] = set()
        live = [message for message in self.messages.values() if not message.fate]
        live.sort(key=lambda message: (-LANES[message.lane], message.candidate.offset))
        blocked: set[tuple[int, str]] = set()
        for message in live:
            place = (message.lane, message.candidate.offset)
            if message.hidden(self.now_ms):
                if self.settings.fifo:
                    blocked.add((message.lane, message.candidate.group))
                continue
            if message.reason_to_die(self.now_ms, self.attempts_max):
                dying.add(place)
                if self.settings.fifo:
                    blocked.add((message.lane, message.candidate.group))
            elif (message.lane, message.candidate.group) not in blocked:
                going.append(place)
        return going, dying

    def is_blocked(self, place: tuple[int, int]) -> bool:
        """FIFO: True if a message of its group is leased."""
        group = self.messages[place].candidate.group
        live = [message for message in self.messages.values() if not message.fate and message.lane == place[0]]
        return any(message.candidate.group == group and message.hidden(self.now_ms) for message in live)

    def take(self, outcome: Outcome, lease_ms: int) -> None:
        """Do to the naive queue what the outcome said."""
        for death in outcome.deaths:
            self.bury(death)
        numbers = [given.number for given in outcome.given]
        assert len(set(numbers)) == len(numbers)
        assert all(number > self.highest for number in numbers)
        self.highest = max([self.highest, *numbers])
        for given in outcome.given:
            message = self.messages[given.lane, given.candidate.offset]
            message.number = given.number
            message.first_ms = given.first_ms
            message.attempts += 1
            message.hidden_until_ms = self.now_ms + lease_ms
            message.returned = False
            if self.settings.delivery == "at-most-once":
                message.fate = "settled"
            self.given.append(given)

    def bury(self, death: Death) -> None:
        message = self.messages[death.lane, death.offset]
        assert death.reason == message.reason_to_die(self.now_ms, self.attempts_max)
        assert death.attempts == message.attempts
        if death.reason == ATTEMPTS:
            assert death.attempts == self.attempts_max
        message.fate = death.reason

    @invariant()
    def counts_are_right(self) -> None:
        if not hasattr(self, "desk"):
            return
        live = [message for message in self.messages.values() if not message.fate]
        state = self.desk.queue.state
        assert state.messages == len(live)
        assert state.bytes == sum(message.candidate.size_bytes for message in live)

    @invariant()
    def settled_space_is_free(self) -> None:
        if not hasattr(self, "desk"):
            return
        for lane in LANES:
            cursor = self.desk.queue.cursor(lane)
            live = [o for (on, o), message in self.messages.items() if on == lane and not message.fate]
            assert cursor.floor() <= min([*live, cursor.scan])
            dead = [
                offset for start, end in cursor.dead_ranges(0, self.desk.ends[lane]) for offset in range(start, end)
            ]
            assert not set(dead) & set(live)
            assert set(dead) | set(live) >= set(range(cursor.scan))
            assert all(cursor.is_settled(offset) for offset in dead)

    def teardown(self) -> None:
        """Everything comes to an end: settled, dead or purged."""
        if not hasattr(self, "desk"):
            return
        for _ in range(400):
            self.now_ms += 5000
            self.receive(5, 500, 0)
            for given in self.given[-5:]:
                if self.messages[given.lane, given.candidate.offset].number == given.number:
                    (code,) = self.desk.settle(self.now_ms, given)
                    assert code is None
                    message = self.messages[given.lane, given.candidate.offset]
                    message.fate = message.fate or "settled"
            if all(message.fate for message in self.messages.values()):
                break
        assert all(message.fate for message in self.messages.values())
        assert self.desk.queue.state.messages == self.desk.queue.state.bytes == 0
        assert self.desk.queue.in_flight == self.desk.queue.available_again == self.desk.queue.held_back == 0
        for given in self.given:
            events, codes = self.desk.queue.decide_settle(self.now_ms, [receipt(given)])
            assert (events, codes) == ([], [None])
        for lane in LANES:
            assert self.desk.queue.cursor(lane).floor() == self.desk.queue.cursor(lane).scan


TestQueue = QueueMachine.TestCase
TestQueue.settings = hypothesis.settings(max_examples=examples(50), stateful_step_count=80, deadline=None)
