"""Heart-beats, with a loop whose time the tests move."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import cast

import pytest

from longhall.doors.stomp.heart_beat import SILENT_INTERVALS_MAX, HeartBeats


class Timers:
    """The timers of an event loop, and its time."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now_s + delay_s, self._count, call))

    def run_until(self, end_s: float) -> None:
        while self._due and self._due[0][0] <= end_s:
            self.now_s, _, call = heapq.heappop(self._due)
            call()
        self.now_s = end_s


@pytest.mark.parametrize("last_s", [0.0, 0.1, 0.6, 0.9, 3.2])
def test_a_silent_client_is_lost_after_two_and_a_half_intervals(last_s: float) -> None:
    timers, lost_s = Timers(), []
    loop = cast(asyncio.AbstractEventLoop, timers)
    beats = HeartBeats(loop, lambda: None, lambda: lost_s.append(timers.now_s))
    beats.start(0, 1000)
    for at_s in (0.0, 1.0, 2.0, 3.0, last_s):
        if at_s <= last_s:
            timers.run_until(100.0 + at_s)
            beats.received_s = timers.now_s
    timers.run_until(110.0)
    assert lost_s == [pytest.approx(100.0 + last_s + SILENT_INTERVALS_MAX)]


def test_the_silence_of_a_connection_that_is_not_read_means_nothing() -> None:
    timers, lost_s = Timers(), []
    beats = HeartBeats(cast(asyncio.AbstractEventLoop, timers), lambda: None, lambda: lost_s.append(timers.now_s))
    beats.start(0, 1000)
    beats.is_paused = True
    timers.run_until(120.0)
    assert lost_s == []
    beats.is_paused, beats.received_s = False, timers.now_s
    timers.run_until(121.0)
    assert lost_s == []
    timers.run_until(130.0)
    assert lost_s == [pytest.approx(122.5, abs=1.0)]
