"""When a replay sends: never before its time, in order, and no more than the rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.pipeline.replay.pace import STEP_S, Pace


def play(pace: Pace, times_ms: list[int], began_s: float = 100.0) -> list[float]:
    """The times at which messages go out, in seconds since the first."""
    now = began_s
    sent: list[float] = []
    times = np.array(times_ms, dtype=np.int64)
    for _ in range(1_000_000):
        if len(sent) == len(times):
            return sent
        count, wait_s = pace.next(times[len(sent) :], now)
        sent += [now - began_s] * count
        now += wait_s
        assert count or wait_s > 0, "it neither sends nor waits"
    raise AssertionError("it never ends")


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0])
def test_messages_are_as_far_apart_as_they_were(speed: float) -> None:
    sent = play(Pace(speed), [5_000, 5_000, 6_000, 9_000])
    assert sent == pytest.approx([0, 0, 1 / speed, 4 / speed], abs=0.01)


def test_what_is_older_than_its_forerunner_goes_with_it() -> None:
    assert play(Pace(1.0), [1_000, 3_000, 2_000, 4_000]) == pytest.approx([0, 2, 2, 3], abs=0.01)


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=60), st.floats(1, 50), st.floats(0.5, 500))
def test_nothing_goes_early_and_no_second_has_more_than_the_rate(times: list[int], speed: float, rate: float) -> None:
    sent = play(Pace(speed, rate), times)
    latest = times[0]
    for number, (at, time_ms) in enumerate(zip(sent, times, strict=True)):
        latest = max(latest, time_ms)
        assert at >= (latest - times[0]) / 1000 / speed - 0.001
        assert number < at * rate + max(1, rate * STEP_S) + 1
    assert sent == sorted(sent)


def test_without_a_pace_nothing_waits() -> None:
    assert not Pace().waits
    assert Pace(rate=5).waits
