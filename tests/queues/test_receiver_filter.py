"""A receiver with a filter gets every available message that matches it, and other receivers get the rest."""

from __future__ import annotations

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from longhall.queues.outcomes import Candidate, Given, Status
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.settings import QueueSettings
from tests.examples import examples
from tests.queues.desk import Desk

FAR_MS = 1_000_000_000
PASSED_MAX = 30


class SizeFilter(ReceiverFilter):
    """Wants messages of one size: the desk's messages have nothing else to tell them apart."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def wants(self, lane: int, candidate: Candidate) -> bool:
        return candidate.size_bytes == self.size


class FilteredQueueMachine(RuleBasedStateMachine):
    """Plain receivers and two wishes at one queue with two lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(QueueSettings(fair=False), {0: 0, 1: 3}, PASSED_MAX)
        self.receiver_filters = {size: SizeFilter(size) for size in (1, 2)}
        self.available: dict[tuple[int, int], int] = {}  # Lane and offset of what can be given out, and its size.
        self.held: dict[tuple[int, int], Given] = {}
        self.expires: dict[tuple[int, int], int] = {}
        self.now_ms = 0

    @rule(lane=st.integers(0, 1), size=st.integers(1, 3), count=st.integers(1, 12), lives=st.booleans())
    def send(self, lane: int, size: int, count: int, lives: bool) -> None:
        expires_ms = -1 if lives else self.now_ms + FAR_MS
        for offset in self.desk.send(count, lane, size=size, expires_ms=expires_ms):
            self.available[lane, offset] = size
            self.expires[lane, offset] = expires_ms

    @rule(count=st.integers(1, 10))
    def receive(self, count: int) -> None:
        given = self._ask(count, None)
        living = [place for place in self.available if self._lives(place)]
        assert len(given) == min(count, len(living))
        self._take(given)

    @rule(size=st.integers(1, 2), count=st.integers(1, 10))
    def receive_wanted(self, size: int, count: int) -> None:
        given = self._ask(count, self.receiver_filters[size])
        assert all(each.candidate.size_bytes == size for each in given)
        self._take(given)
        if len(given) < count:  # Then there is none within reach.
            reach = {lane: self.desk.queue.cursor(lane).scan for lane in (0, 1)}
            wanted = [place for place, found in self.available.items() if found == size and self._lives(place)]
            assert not [place for place in wanted if place[1] < reach[place[0]]]
            ready = self.desk.queue.available_again
            assert not wanted or ready >= PASSED_MAX, "it stopped before the bound"

    @rule(back=st.booleans(), data=st.data())
    def let_go(self, back: bool, data: st.DataObject) -> None:
        if not self.held:
            return
        place = data.draw(st.sampled_from(sorted(self.held)))
        given = self.held.pop(place)
        receipt = (given.lane, given.candidate.offset, given.number)
        if back:
            returned = self.desk.queue.decide_return(self.now_ms, *receipt)
            self.desk.write(returned)  # type: ignore[arg-type]
            self.available[place] = given.candidate.size_bytes
        else:
            for event in self.desk.queue.decide_settle(self.now_ms, [receipt])[0]:
                self.desk.write(event)

    @rule()
    def leases_end(self) -> None:
        self.now_ms += FAR_MS
        self.desk.queue.tick(self.now_ms)
        for place, given in self.held.items():
            self.available[place] = given.candidate.size_bytes
        self.held = {}

    def _lives(self, place: tuple[int, int]) -> bool:
        return not 0 <= self.expires[place] <= self.now_ms

    def _ask(self, count: int, receiver_filter: ReceiverFilter | None) -> list[Given]:
        found: list[Given] = []
        for _ in range(100):
            outcome = self.desk.queue.decide_receive(
                self.now_ms, count - len(found), FAR_MS // 2, self.desk.peek, True, receiver_filter
            )
            for event in outcome.events:
                self.desk.write(event)
            if receiver_filter is not None:
                self.desk.queue.note_passed(receiver_filter)
            self.desk.bury(outcome)
            for death in outcome.deaths:
                assert 0 <= self.expires[death.lane, death.offset] <= self.now_ms
                del self.available[death.lane, death.offset]  # It dies once, and only while nobody has it.
            found.extend(outcome.given)
            if len(found) == count or outcome.status not in (Status.GIVEN, Status.MORE, Status.DEATHS):
                return found
        raise AssertionError("it goes on and on")

    def _take(self, given: list[Given]) -> None:
        for each in given:
            place = (each.lane, each.candidate.offset)
            assert place in self.available, f"{place} was given out, and is not available"
            del self.available[place]
            self.held[place] = each


TestFilteredQueueMachine = FilteredQueueMachine.TestCase
TestFilteredQueueMachine.settings = hypothesis_settings(
    max_examples=examples(80), stateful_step_count=40, deadline=None
)
