"""Hall time: it neither jumps nor goes back, and followers use the time of the leader."""

from __future__ import annotations

from longhall.broker.hall_time import BELIEVED_MS, HallTime


class SetClock:
    """A clock that tests set."""

    def __init__(self, wall_ms: int) -> None:
        self.wall = wall_ms
        self.monotonic = 5

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def monotonic_us(self) -> int:
        return self.monotonic * 1000

    def go_on(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.monotonic += milliseconds


def test_setting_the_wall_clock_changes_nothing() -> None:
    clock = SetClock(1_000_000)
    time = HallTime(clock)
    clock.wall += 3_600_000
    clock.go_on(10)
    assert time.now_ms() == 1_000_010
    clock.wall -= 7_200_000
    assert time.now_ms() == 1_000_010


def test_time_continues_after_the_last_time_in_the_log() -> None:
    clock = SetClock(1_000_000)
    time = HallTime(clock)
    time.not_before(2_000_000)
    clock.go_on(10)
    assert time.now_ms() == 2_000_010
    time.not_before(1_500_000)
    assert time.now_ms() == 2_000_010


def test_a_follower_uses_the_time_of_the_leader() -> None:
    for wall_ms in (1_000_000, 1_000_000 + 3_600_000, 1_000_000 - 900_000):
        clock = SetClock(wall_ms)
        time = HallTime(clock)
        time.follow(1_000_000)
        clock.go_on(500)
        time.follow(1_000_480)  # Late by the way it took, so the first one counts.
        assert time.now_ms() == 1_000_500


def test_a_follower_is_never_before_its_log() -> None:
    clock = SetClock(1_000_000)
    time = HallTime(clock)
    time.not_before(1_200_000)
    time.follow(1_100_000)
    assert time.now_ms() == 1_200_000


def test_clock_drift_is_corrected() -> None:
    """The follower's clock gains a tenth; after an hour it is still at its leader's time, but for the last while."""
    clock = SetClock(1_000_000)
    time = HallTime(clock)
    leader_ms = 1_000_000
    for _ in range(7_200):
        clock.go_on(550)
        leader_ms += 500
        time.follow(leader_ms)
    assert abs(time.now_ms() - leader_ms) <= 2 * BELIEVED_MS // 10 + 550
