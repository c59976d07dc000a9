"""The bound of uncommitted entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.shards.backlog import ENTRY_BYTES, Backlog

WEIGHT_MAX = 80_000


def test_messages_are_refused_at_the_bound_and_accepted_again_at_three_quarters_of_it() -> None:
    backlog = Backlog(WEIGHT_MAX)
    backlog.add(WEIGHT_MAX - ENTRY_BYTES - 1, 1)
    assert not backlog.is_full
    backlog.add(1, 0)
    assert backlog.is_full
    assert not backlog.is_exhausted
    backlog.commit(WEIGHT_MAX // 4 - 1, 0)
    assert backlog.is_full
    backlog.commit(1, 0)
    assert not backlog.is_full


def test_small_entries_weigh_more_than_their_bytes() -> None:
    backlog = Backlog(WEIGHT_MAX)
    backlog.add(10 * (WEIGHT_MAX // ENTRY_BYTES), WEIGHT_MAX // ENTRY_BYTES)
    assert backlog.is_full


def test_other_entries_have_a_reserve() -> None:
    backlog = Backlog(WEIGHT_MAX)
    backlog.add(WEIGHT_MAX + WEIGHT_MAX // 8 - 1, 0)
    assert backlog.is_full
    assert not backlog.is_exhausted
    backlog.add(1, 0)
    assert backlog.is_exhausted
    backlog.commit(1, 0)
    assert not backlog.is_exhausted
    assert backlog.is_full


@given(st.lists(st.tuples(st.integers(1, 50_000), st.integers(1, 50)), max_size=50))
def test_the_backlog_is_empty_when_everything_is_committed(entries: list[tuple[int, int]]) -> None:
    backlog = Backlog(WEIGHT_MAX)
    for size_bytes, count in entries:
        backlog.add(size_bytes, count)
    for size_bytes, count in entries:
        backlog.commit(size_bytes, count)
    assert (backlog.weight, backlog.size_bytes, backlog.entries) == (0, 0, 0)
    assert not backlog.is_full
    assert not backlog.is_exhausted
