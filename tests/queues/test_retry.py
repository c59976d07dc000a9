"""Waits grow, and stop growing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.queues.retry import retry_delay_ms
from longhall.queues.settings import RetryPolicy


def test_delays_grow_up_to_the_bound() -> None:
    policy = RetryPolicy(first_ms=100, factor=2.0, longest_ms=1000)
    assert [retry_delay_ms(policy, attempt) for attempt in range(1, 7)] == [100, 200, 400, 800, 1000, 1000]
    assert retry_delay_ms(policy, 10**9) == 1000


def test_without_a_policy_there_is_no_delay() -> None:
    assert retry_delay_ms(None, 3) == 0
    assert retry_delay_ms(RetryPolicy(), 3) == 0
    assert retry_delay_ms(RetryPolicy(first_ms=5, factor=1.0), 10**12) == 5


@given(st.integers(1, 10**10), st.floats(1.0, 100.0), st.integers(0, 10**11), st.integers(1, 2000))
def test_delays_never_decrease(first_ms: int, factor: float, longest_ms: int, attempt: int) -> None:
    policy = RetryPolicy(first_ms=first_ms, factor=factor, longest_ms=longest_ms)
    assert 0 <= retry_delay_ms(policy, attempt) <= retry_delay_ms(policy, attempt + 1) <= longest_ms
