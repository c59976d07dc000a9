"""Quotas: over any time a topic gets its rate and one burst."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.topics.quota import BURST_MS, DEBT_MS_MAX, UNLIMITED, Bucket, Quota


def test_one_second_of_burst_is_free_and_then_debt_accrues() -> None:
    quota = Quota(1000, UNLIMITED)
    assert quota.debt_ms(5) == 0
    quota.charge(1000, 1, 5)
    assert quota.debt_ms(5) == 0
    quota.charge(500, 1, 5)
    assert quota.debt_ms(5) == 500
    assert quota.debt_ms(405) == 100
    assert quota.debt_ms(505) == 0


def test_messages_count_as_well_as_bytes() -> None:
    quota = Quota(1_000_000, 10)
    quota.charge(20, 20, 0)
    assert quota.debt_ms(0) == 1000
    assert Quota(UNLIMITED, UNLIMITED).debt_ms(0) == 0


def test_unused_tokens_are_bounded_by_the_burst() -> None:
    bucket = Bucket(100)
    bucket.take(1, 0)
    bucket.take(100, 3_600_000)
    assert bucket.debt_ms(3_600_000) == 0
    bucket.take(50, 3_600_000)
    assert bucket.debt_ms(3_600_000) == 500


def test_time_that_stops_or_goes_back_adds_no_tokens() -> None:
    bucket = Bucket(10)
    bucket.take(20, 1000)
    assert bucket.debt_ms(1000) == bucket.debt_ms(0) == 1000


def test_debt_is_bounded() -> None:
    bucket = Bucket(1)
    bucket.take(1 << 40, 0)
    assert bucket.debt_ms(0) == DEBT_MS_MAX
    assert bucket.debt_ms(DEBT_MS_MAX) == 0


@given(st.integers(100, 10_000), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5_000)), max_size=60))
def test_a_sender_that_waits_as_asked_gets_the_rate_and_one_burst(a_second: int, sends: list[tuple[int, int]]) -> None:
    bucket = Bucket(a_second)
    now_ms = taken = last = 0
    for pause_ms, count in sends:
        now_ms += pause_ms + bucket.debt_ms(now_ms + pause_ms)
        bucket.take(count, now_ms)
        taken += count
        last = count
    assert (taken - last) * 1000 <= a_second * (now_ms + BURST_MS) + a_second * len(sends)


@given(st.integers(1, 10_000), st.integers(1, 60_000))
def test_a_debt_is_paid_at_the_predicted_time(a_second: int, count: int) -> None:
    bucket = Bucket(a_second)
    bucket.take(count, 0)
    debt_ms = bucket.debt_ms(0)
    if debt_ms > 1:
        assert bucket.debt_ms(debt_ms - 1) == 1
    assert bucket.debt_ms(debt_ms) == 0
