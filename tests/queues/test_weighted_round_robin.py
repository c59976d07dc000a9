"""Service follows the weights, and the lowest is served."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import LonghallError
from longhall.queues.weighted_round_robin import QUEUES_MAX, WEIGHT_MAX, WeightedRoundRobin

weightings = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1)


def test_turns_are_spread() -> None:
    service = WeightedRoundRobin({"a": 5, "b": 1, "c": 1})
    assert [service.choose("abc") for _ in range(7)] == ["a", "a", "b", "a", "c", "a", "a"]


@given(weightings, st.integers(1, 5))
def test_a_round_serves_each_by_its_weight(weights: dict[str, int], rounds: int) -> None:
    service = WeightedRoundRobin(weights)
    for _ in range(rounds):
        served = Counter(service.choose(weights) for _ in range(sum(weights.values())))
        assert served == weights


@given(weightings, st.lists(st.sets(st.sampled_from("abcdef")), max_size=60))
def test_only_ready_queues_are_served_and_none_starves(weights: dict[str, int], turns: list[set[str]]) -> None:
    service = WeightedRoundRobin(weights)
    waited = Counter[str]()
    for ready in turns:
        chosen = service.choose(ready)
        if not ready & set(weights):
            assert chosen is None
            continue
        assert chosen in ready
        for name in ready & set(weights):
            waited[name] = 0 if name == chosen else waited[name] + 1
            # Never longer than the credits of all the others allow.
            assert waited[name] <= 2 * sum(weights.values()) * len(weights)


def test_an_idle_queue_accumulates_no_credit() -> None:
    service = WeightedRoundRobin({"high": 3, "low": 1})
    for _ in range(1000):
        assert service.choose({"low"}) == "low"
    served = Counter(service.choose({"high", "low"}) for _ in range(40))
    assert served == {"high": 30, "low": 10}


def test_a_batch_is_served_like_its_messages() -> None:
    waiting = {"a": 3, "b": 100, "c": 0, "stranger": 9}
    service = WeightedRoundRobin({"a": 5, "b": 1, "c": 9})
    served = Counter[str]()
    for name, count in service.share(waiting, 8):
        served[name] += count
    assert served == {"a": 3, "b": 5}
    assert service.share({"c": 0}, 5) == []


def test_weights_can_change_in_use() -> None:
    service = WeightedRoundRobin({"a": 1, "b": 1})
    service.choose("ab")
    service.set_weights({"b": 1, "c": 2})
    assert Counter(service.choose("bc") for _ in range(30))["c"] >= 19


@pytest.mark.parametrize("weights", [{}, {"a": 0}, {"a": WEIGHT_MAX + 1}, {str(n): 1 for n in range(QUEUES_MAX + 1)}])
def test_bounds(weights: dict[str, int]) -> None:
    with pytest.raises(LonghallError):
        WeightedRoundRobin(weights)
