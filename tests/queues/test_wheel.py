"""The wheel gives out in order of due time, against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.queues.wheel import OFFSET_MASK, SLOTS_MAX, Wheel

steps = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, SLOTS_MAX - 1), st.integers(0, OFFSET_MASK), st.integers(0, 90)),
    max_size=60,
)


@given(steps, st.integers(1, 4), st.integers(0, 2**42))
def test_it_behaves_like_a_sorted_list(plan: list[tuple[int, int, int, int]], count_max: int, now_ms: int) -> None:
    wheel = Wheel()
    model: list[tuple[int, int, int]] = []
    for wait_ms, slot, offset, pause_ms in plan:
        wheel.add(now_ms + wait_ms, slot, offset)
        model.append((now_ms + wait_ms, slot, offset))
        now_ms += pause_ms
        model.sort()
        next_ms = wheel.next_ms(now_ms)
        assert next_ms <= model[0][0] if model else next_ms == -1
        taken = wheel.take(now_ms, count_max)
        expected = [entry for entry in model if entry[0] <= now_ms][:count_max]
        assert taken == [(slot, offset) for _, slot, offset in expected]
        model = model[len(expected) :]
        assert wheel.count == len(model)
    assert len(wheel.take(now_ms + 400, 1000)) == len(model)


def test_deadlines_are_early_at_worst() -> None:
    wheel = Wheel()
    assert wheel.next_ms(0) == -1
    wheel.add(1000, 1, 1)
    assert wheel.next_ms(0) == 960  # The start of its bucket,
    assert wheel.next_ms(960) == 1000  # and exact from then on.
    wheel.add(970, 1, 2)
    assert wheel.next_ms(960) == 970
