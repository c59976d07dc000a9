"""Movable deadlines in one heap."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.topics.timers import Timer, Timers
from tests.examples import examples


def fired(timers: Timers, now_ms: int) -> list[str]:
    names = []
    while (timer := timers.due(now_ms)) is not None:
        names.append(timer.key)
    return names


def test_timers_are_due_once_and_in_order() -> None:
    timers = Timers()
    one, two = Timer(None, 0, "one"), Timer(None, 0, "two")
    timers.set(two, 20)
    timers.set(one, 10)
    assert timers.next_deadline_ms() == 10
    assert fired(timers, 9) == []
    assert fired(timers, 25) == ["one", "two"]
    assert fired(timers, 99) == []
    assert timers.next_deadline_ms() is None


def test_heartbeats_do_not_grow_the_heap() -> None:
    timers = Timers()
    timer = Timer(None, 0)
    for now_ms in range(10_000):
        timers.set(timer, now_ms + 45_000)
    assert len(timers._heap) == 1


def test_moved_and_cancelled_timers_do_not_accumulate() -> None:
    timers = Timers()
    for _ in range(20_000):
        timer = Timer(None, 0)
        timers.set(timer, 300_000)
        timers.set(timer, 100)
        timers.cancel(timer)
    assert len(timers._heap) < 3_000


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 30)), st.integers(0, 5)), max_size=40))
def test_timers_behave_like_a_dictionary_of_deadlines(steps: list[tuple[int, int | None, int]]) -> None:
    timers = Timers()
    known = [Timer(None, 0, str(index)) for index in range(4)]
    model: dict[str, int] = {}
    now_ms = 0
    for index, wait_ms, pause_ms in steps:
        if wait_ms is None:
            timers.cancel(known[index])
            model.pop(str(index), None)
        else:
            timers.set(known[index], now_ms + wait_ms)
            model[str(index)] = now_ms + wait_ms
        deadline_ms = timers.next_deadline_ms()
        if model:
            assert deadline_ms is not None
            assert deadline_ms <= min(model.values())
        now_ms += pause_ms
        expected = {name for name, due_ms in model.items() if due_ms <= now_ms}
        assert set(fired(timers, now_ms)) == expected
        for name in expected:
            del model[name]
