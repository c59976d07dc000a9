"""The budget for what clients have sent: bounded, fair to small requests, and never lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.front.admission import SMALL_BYTES_MAX, Budget


def test_small_requests_pass_when_the_budget_is_spent() -> None:
    budget = Budget(100_000)
    assert budget.take(90_000)
    assert not budget.take(20_000)
    assert budget.take(SMALL_BYTES_MAX)
    assert budget.refusals == 1


def test_one_request_larger_than_the_budget_is_let_in_alone() -> None:
    budget = Budget(1_000)
    assert budget.take(1_000_000)
    assert not budget.take(5_000)
    budget.give(1_000_000)
    assert budget.take(5_000)


def test_who_waits_is_called_once_when_there_is_room() -> None:
    budget = Budget(100)
    called: list[str] = []
    budget.take(100)
    budget.wait(1, lambda: called.append("first"))
    budget.wait(2, lambda: called.append("second"))
    budget.wait(3, lambda: called.append("gone"))
    budget.forget(3)
    budget.give(20)
    assert called == []  # Not yet: it would be full again at once.
    budget.give(10)
    assert called == ["first", "second"]
    budget.give(70)
    assert called == ["first", "second"]


def test_who_still_finds_no_room_waits_again() -> None:
    budget = Budget(10_000)
    turns: list[int] = []

    def resume(number: int) -> None:
        turns.append(number)
        if not budget.take(8_000):
            budget.wait(number, lambda: resume(number))

    budget.take(10_000)
    for number in range(3):
        budget.wait(number, lambda number=number: resume(number))  # type: ignore[misc]
    budget.give(10_000)
    assert budget.used_bytes == 8_000
    budget.give(8_000)
    budget.give(8_000)
    assert turns == [0, 1, 2, 1, 2, 2]
    assert budget.used_bytes == 8_000


@given(st.lists(st.integers(0, 50_000)))
def test_what_is_taken_and_given_back_leaves_nothing(sizes: list[int]) -> None:
    budget = Budget(100_000)
    held = [size for size in sizes if budget.take(size)]
    assert budget.used_bytes == sum(held)
    for size in held:
        budget.give(size)
    assert budget.used_bytes == 0
