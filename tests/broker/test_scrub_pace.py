"""How fast the scrub may read, and when it has to begin again."""

from __future__ import annotations

from longhall.broker.scrub_pace import ScrubPace

DAY_MS = 86_400_000
MIB = 1 << 20


def test_the_rest_is_spread_over_the_rest_of_half_the_interval() -> None:
    pace = ScrubPace(7 * DAY_MS, 32 * MIB)
    whole = 1 << 40
    assert pace.bytes_a_second(whole, 0, 0) == whole / (3.5 * 86_400)
    assert pace.bytes_a_second(whole // 2, 0, 7 * DAY_MS // 4) == whole / (3.5 * 86_400)
    assert pace.bytes_a_second(10 * MIB, 0, 3 * DAY_MS) < 300


def test_the_bound_holds_for_a_late_pass() -> None:
    pace = ScrubPace(7 * DAY_MS, 32 * MIB)
    assert pace.bytes_a_second(1 << 50, 0, 0) == 32 * MIB
    assert pace.bytes_a_second(1 << 40, 0, 30 * DAY_MS) == 32 * MIB
    assert pace.is_too_slow(1 << 50)
    assert not pace.is_too_slow(1 << 40)


def test_a_requested_pass_runs_at_the_bound() -> None:
    pace = ScrubPace(7 * DAY_MS, 32 * MIB)
    pace.hurried = True
    assert pace.bytes_a_second(1, 0, 0) == 32 * MIB
    assert pace.is_due(0, 1)


def test_a_pass_is_due_after_half_the_interval_or_a_clock_set_back() -> None:
    pace = ScrubPace(DAY_MS, MIB)
    assert not pace.is_due(1000, 1000 + DAY_MS // 2 - 1)
    assert pace.is_due(1000, 1000 + DAY_MS // 2)
    assert pace.is_due(1000, 500)


def test_a_late_pass_continues_at_the_bound() -> None:
    pace = ScrubPace(20_000, 32 * MIB)
    assert pace.bytes_a_second(1_000, 0, 9_500) == 1_000
    assert pace.bytes_a_second(1_000, 0, 10_000) == 32 * MIB
