"""Fair shares: a queue within its share is not delayed by one with much traffic, which gets the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from longhall.front.fairness import BUSY_S, SHARE_BYTES_MIN, WINDOW_BYTES, Fairness, Lane

MIB = 1024 * 1024


class Sender:
    """A connection with a request of 1 MiB every few steps; requests wait while it is not read."""

    def __init__(self, door: Door, topic: str, every: int = 1, tenant: str = "") -> None:
        self.door = door
        self.topic = topic
        self.tenant = tenant
        self.every = every
        self.due = 0
        self.taken = 0
        self.held_back = False

    def send(self, step: int) -> None:
        self.due += step % self.every == 0
        self._go_on()

    def let_go(self) -> None:
        self.held_back = False
        self._go_on()

    def _go_on(self) -> None:
        while self.due and not self.held_back:
            self.due -= 1
            self.door.take(self)


class Door:
    """A door that commits 1 MiB a step, in the order of arrival."""

    def __init__(self) -> None:
        self.fairness = Fairness()
        self.log: deque[tuple[Sender, Lane]] = deque()
        self.later: list[Callable[[], None]] = []
        self.fairness.later = self.later.append
        self.step = 0

    def take(self, sender: Sender) -> None:
        lane = self.fairness.hold(sender.topic, MIB, self.step / 1000, sender.tenant)
        self.log.append((sender, lane))
        if self.fairness.is_over_share(lane):
            sender.held_back = True
            self.fairness.wait(sender.topic, lane, id(sender), sender.let_go)

    def run(self, senders: list[Sender], steps: int) -> None:
        for _ in range(steps):
            self.step += 1
            for sender in senders:
                sender.send(self.step)
            if self.log:
                sender, lane = self.log.popleft()
                sender.taken += 1
                self.fairness.release(lane, MIB)
            later, self.later[:] = list(self.later), []
            for resume in later:
                resume()


def test_a_hot_queue_does_not_delay_another_within_its_share() -> None:
    door = Door()
    hot = [Sender(door, "hot") for _ in range(8)]
    steady = Sender(door, "steady", every=4)
    door.run([*hot, steady], 50)
    before = steady.taken
    door.run([*hot, steady], 400)
    assert steady.taken - before >= 98  # A quarter of what there is, and no less.
    assert sum(sender.taken for sender in hot) >= 290  # And nothing is wasted.
    assert min(sender.taken for sender in hot) > 0
    assert door.fairness.held_bytes <= WINDOW_BYTES + len(hot) * MIB


def test_two_hot_queues_have_equal_shares_with_any_number_of_clients() -> None:
    door = Door()
    many = [Sender(door, "many") for _ in range(9)]
    one = Sender(door, "one")
    door.run([*many, one], 1000)
    assert 400 <= one.taken <= 600
    assert one.taken + sum(sender.taken for sender in many) == 1000


def test_one_queue_alone_is_not_held_back() -> None:
    door = Door()
    door.run([Sender(door, "alone") for _ in range(8)], 100)
    assert door.fairness.waits == 0
    assert door.fairness.held_bytes > 10 * WINDOW_BYTES


def test_a_queue_without_traffic_has_no_share() -> None:
    fairness = Fairness()
    fairness.release(fairness.hold("gone", 10, 0.0), 10)
    lane = fairness.hold("hot", 2 * WINDOW_BYTES, 0.5)
    assert fairness.is_over_share(lane)
    fairness.hold("hot", 1, 1.0 + 2 * BUSY_S)
    assert fairness.lanes == 1
    assert not fairness.is_over_share(lane)


def test_a_share_has_a_minimum_with_many_queues() -> None:
    fairness = Fairness()
    for number in range(1000):
        lane = fairness.hold(f"q{number}", WINDOW_BYTES // 500, 0.0)
        assert not fairness.is_over_share(lane) or lane.held_bytes >= SHARE_BYTES_MIN
    assert not fairness.is_over_share(fairness.hold("one-more", SHARE_BYTES_MIN - 1, 0.0))


def test_a_closed_connection_is_not_resumed() -> None:
    fairness = Fairness()
    fairness.hold("other", 1, 0.0)
    lane = fairness.hold("hot", 2 * WINDOW_BYTES, 0.0)
    resumed: list[int] = []
    for key in (1, 2):
        fairness.wait("hot", lane, key, partial(resumed.append, key))
    fairness.forget(1)
    fairness.release(lane, 2 * WINDOW_BYTES)
    assert resumed == [2]
    fairness.release(lane, 0)
    assert resumed == [2]


def test_a_tenant_with_many_topics_gets_no_more_than_one_with_few() -> None:
    door = Door()
    loud = [Sender(door, f"loud/{number}", tenant="loud") for number in range(9)]
    quiet = Sender(door, "quiet/jobs", every=2, tenant="quiet")
    door.run([*loud, quiet], 100)
    before = quiet.taken
    door.run([*loud, quiet], 400)
    assert quiet.taken - before >= 0.9 * 200  # It wants half of the throughput, and has nearly all of it.
    assert sum(sender.taken for sender in loud) >= 0.4 * 500  # And nothing is wasted.
