"""The memory budget: its bounds, small requests, arrivals that wait, and that no byte is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.front.admission import RATE_BYTES, SMALL_BYTES_MAX, Arrival, Budget


def test_small_requests_pass_when_the_budget_is_spent() -> None:
    budget = Budget(100_000)
    assert budget.take(90_000)
    assert not budget.take(20_000)
    assert budget.take(SMALL_BYTES_MAX)
    assert budget.refusals == 1


def test_one_request_larger_than_the_budget_is_admitted_alone() -> None:
    budget = Budget(1_000)
    assert budget.take(1_000_000)
    assert not budget.take(5_000)
    budget.give(1_000_000)
    assert budget.take(5_000)


class Sender:
    """A connection with a request that arrives while the budget has room."""

    def __init__(self, budget: Budget, name: str = "", told: list[str] | None = None) -> None:
        self.name = name
        self.budget = budget
        self.told = told if told is not None else []
        self.gone = False
        self.arrival = Arrival(self.resume, self.give_up)

    def send(self, size_bytes: int) -> None:
        """So many bytes come, though there may be no room."""
        self.arrival.came_bytes += size_bytes
        self.budget.hold(self.arrival, size_bytes)
        if not self.budget.has_room(self.arrival):
            self.budget.wait(self.arrival)

    def resume(self) -> None:
        self.told.append(self.name)
        if not self.budget.has_room(self.arrival):
            self.budget.wait(self.arrival)

    def give_up(self) -> None:
        self.gone = True
        self.budget.leave(self.arrival)

    def served(self) -> int:
        """The request is whole; returns what has to be given back."""
        held = self.arrival.held_bytes
        self.budget.settle(self.arrival, held)
        return held


def test_a_waiting_arrival_is_resumed_once_when_there_is_room() -> None:
    budget = Budget(1_000)
    told: list[str] = []
    budget.take(1_000)
    first, second, gone = (Sender(budget, name, told) for name in ("first", "second", "gone"))
    first.send(130)
    second.send(10)
    gone.send(10)
    budget.leave(gone.arrival)
    budget.give(100)
    assert told == ["first"]  # The eldest goes on as soon as there is any room,
    budget.give(200)
    assert told == ["first"]
    budget.give(100)
    assert told == ["first", "second"]  # the others when it would not be full again at once.
    budget.give(600)
    assert told == ["first", "second"]
    assert budget.used_bytes == 140


def test_partial_requests_alone_never_block_the_budget() -> None:
    """The eldest arrival advances whatever the others hold; the youngest waiting one is given up first."""
    budget = Budget(1_000)
    senders = [Sender(budget) for _ in range(10)]
    eldest, others = senders[0], senders[1:]
    for _ in range(30):  # All of them send whenever they may.
        for sender in senders:
            if not sender.gone and not sender.arrival.is_waiting:
                sender.send(60)
    assert not eldest.gone
    assert eldest.arrival.held_bytes == 30 * 60  # Larger than the budget, where it is alone.
    assert all(sender.gone for sender in others)
    assert budget.given_up == len(others)


def test_no_arrival_is_given_up_for_requests_that_will_be_answered() -> None:
    budget = Budget(1_000)
    assert budget.take(900)
    senders = [Sender(budget) for _ in range(3)]
    for sender, size_bytes in zip(senders, (230, 50, 50), strict=True):
        sender.send(size_bytes)
    assert [sender.arrival.is_waiting for sender in senders] == [True, True, True]
    budget.give(900)
    assert [sender.arrival.is_waiting for sender in senders] == [False, False, False]
    assert budget.given_up == 0


def test_many_arrivals_stay_within_five_quarters_of_the_budget() -> None:
    budget = Budget(1_000)
    assert budget.take(1_000)
    senders = [Sender(budget) for _ in range(100)]
    for sender in senders:
        sender.send(20)
    assert budget.used_bytes <= 1_250
    assert [sender.gone for sender in senders[:10]] == [False] * 10


def test_a_slow_arrival_is_given_up_while_others_wait() -> None:
    budget = Budget(1_000_000)
    silent, busy, kept = Sender(budget), Sender(budget), Sender(budget)
    silent.send(900_000)
    busy.send(50_000)
    for second in range(10, 20):
        budget.drop_slow(float(second))
    assert not silent.gone  # Nobody waits.
    kept.send(100_000)
    assert kept.arrival.is_waiting
    for second in range(20, 23):
        if not busy.arrival.is_waiting:
            busy.send(RATE_BYTES)
        budget.drop_slow(float(second))
    assert (silent.gone, busy.gone, kept.gone) == (True, False, False)
    assert not kept.arrival.is_waiting


def test_unauthenticated_connections_cannot_take_the_main_budget() -> None:
    budget = Budget(100_000, 10_000)
    connections = [Sender(budget.unauthenticated) for _ in range(100)]
    for sender in connections:
        sender.send(1_000)
    assert budget.unauthenticated.used_bytes <= 12_500 + 1_000
    assert budget.take(100_000)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["send", "serve", "answer", "leave", "check"]))))
def test_the_eldest_arrival_always_advances(steps: list[tuple[int, str]]) -> None:
    """The budget counts exactly what is held, and while no request is served the eldest arrival does not wait."""
    budget = Budget(10_000)
    senders = [Sender(budget) for _ in range(10)]
    served: list[int] = []
    for number, (at, step) in enumerate(steps):
        sender = senders[at]
        if sender.gone:
            sender = senders[at] = Sender(budget)
        if step == "send" and not sender.arrival.is_waiting:
            sender.send(700 + 100 * at)
        elif step == "serve" and sender.arrival.held_bytes and not sender.arrival.is_waiting:
            served.append(sender.served())
        elif step == "answer" and served:
            budget.give(served.pop())
        elif step == "leave":
            budget.leave(sender.arrival)
        elif step == "check":
            budget.drop_slow(float(number))
        arriving = sum(one.arrival.held_bytes for one in senders)
        assert budget.arriving_bytes == arriving
        assert budget.used_bytes == arriving + sum(served)
        waiting = [one for one in senders if one.arrival.is_waiting]
        if waiting and not served:
            eldest = next(iter(budget._arrivals))
            assert not eldest.is_waiting
    for sender in senders:
        budget.leave(sender.arrival)
    assert budget.arriving_bytes == 0
    assert budget._waiting == 0


@given(st.lists(st.integers(0, 50_000)))
def test_the_budget_is_empty_when_everything_was_given_back(sizes: list[int]) -> None:
    budget = Budget(100_000)
    held = [size for size in sizes if budget.take(size)]
    assert budget.used_bytes == sum(held)
    for size in held:
        budget.give(size)
    assert budget.used_bytes == 0
