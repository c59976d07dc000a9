"""Slices nest, sort by time, and stay few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.queues.slices import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SLICE_MS,
    Slice,
    begins_ms_of,
    end_ms_of,
    level_of,
    slice_at,
    slice_for,
    start_ms_of,
)

TEN_YEARS_MS = 10 * 365 * DAY_MS
moments = st.integers(1_500_000_000_000, 2_500_000_000_000)


@given(moments, st.integers(-DAY_MS, TEN_YEARS_MS))
def test_a_message_is_in_the_coarsest_slice_that_has_not_begun(now_ms: int, delay_ms: int) -> None:
    due_ms = max(now_ms + delay_ms, now_ms)
    key = slice_for(now_ms + delay_ms, now_ms)
    assert start_ms_of(key) <= due_ms < end_ms_of(key)
    level = level_of(key)
    assert level == 0 or begins_ms_of(key) > now_ms
    assert level == 3 or begins_ms_of(slice_at(level + 1, due_ms)) <= now_ms


def test_ten_years_of_delays_need_few_logs() -> None:
    now_ms = 1_800_000_000_123
    due = [now_ms + delay for delay in range(0, 3 * HOUR_MS, MINUTE_MS // 2)]
    due += [now_ms + delay for delay in range(0, 90 * DAY_MS, HOUR_MS // 2)]
    due += [now_ms + delay for delay in range(0, TEN_YEARS_MS, DAY_MS)]
    assert len({slice_for(due_ms, now_ms) for due_ms in due}) <= 250


def test_keys_sort_by_start() -> None:
    for level in range(4):
        keys = [slice_at(level, at) for at in range(0, 5 * SLICE_MS[level], SLICE_MS[level])]
        assert keys == sorted(keys)
        assert [start_ms_of(key) for key in keys] == [n * SLICE_MS[level] for n in range(5)]


@given(st.integers(0, 20), st.lists(st.tuples(st.integers(0, 70), st.integers(1, 40)), max_size=12))
def test_a_settled_message_is_counted_once(start: int, runs: list[tuple[int, int]]) -> None:
    one = Slice(0, 1, start)
    one.end = start + 64
    one.live = 64
    left: set[int] = set()
    for first, count in runs:
        one.settle(start + first, count)
        left.update(offset for offset in range(start + first, start + first + count) if offset < one.end)
        assert one.live == 64 - len(left)
        assert {offset for offset in range(start, one.end) if one.is_settled(offset)} == left
        assert one.floor == next((o for o in range(start, one.end) if o not in left), one.end)
    again = Slice(0, 1, start)
    again.restore(one.snapshot())
    assert again.snapshot() == one.snapshot()
    one.settle_all()
    assert (one.live, one.floor) == (0, one.end)
