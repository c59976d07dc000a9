"""Limits that several processes share: the sum of what they grant is the limit, and each gets what it can use."""

from __future__ import annotations

import pytest

from longhall.errors import Code, LonghallError
from longhall.front.rate_buckets import RateBuckets
from longhall.service import rate_division
from longhall.service.limit_operations import RateUse
from longhall.service.rate_division import EXPIRY_MS, WARM_UP_MS, RateDivision, shares_of

RATE = 1000
NAME = "requests_a_second tenant=acme"
STEP_MS = 10
REPORT_MS = 500


class Process:
    """A front end whose clients ask `wanted` times a second, and wait while they are in debt."""

    def __init__(self, name: str, wanted: int) -> None:
        self.name = name
        self.wanted = wanted
        self.buckets = RateBuckets()
        self.granted = 0
        self._due = 0.0

    def serve(self, now_ms: int) -> None:
        self._due += self.wanted * STEP_MS / 1000
        bucket = self.buckets.find(NAME, RATE)
        while self._due >= 1 and not bucket.debt_ms(now_ms):
            bucket.take(1, now_ms)
            self.granted += 1
            self._due -= 1
        self._due = min(self._due, self.wanted)  # Clients have a second's requests under way at most.

    def report(self, leader: RateDivision, now_ms: int) -> None:
        answer = leader.divide(self.name, self.buckets.take_report(now_ms, 100), now_ms)
        self.buckets.set_shares(answer.processes, answer.shares, now_ms)


def run(processes: list[Process], leader: RateDivision, from_ms: int, until_ms: int) -> int:
    """Serve for some time; what was granted in all."""
    before = sum(process.granted for process in processes)
    for now_ms in range(from_ms, until_ms, STEP_MS):
        for number, process in enumerate(processes):
            process.serve(now_ms)
            if (now_ms + 100 * number) % REPORT_MS == 0:
                process.report(leader, now_ms)
    return sum(process.granted for process in processes) - before


@pytest.mark.parametrize(
    "wanted",
    [
        [10_000, 10_000, 10_000],
        [10_000, 0, 0],
        [10_000, 100, 0],
        [600, 600, 100],
        [2_000, 50, 400],
    ],
)
def test_the_sum_over_three_processes_is_within_a_tenth_of_the_limit(wanted: list[int]) -> None:
    leader = RateDivision()
    processes = [Process(str(number), one) for number, one in enumerate(wanted)]
    run(processes, leader, 0, 6_000)
    granted = run(processes, leader, 6_000, 16_000)
    most = min(RATE, sum(wanted)) * 10
    assert 0.9 * most <= granted <= 1.1 * most


def test_a_process_that_does_not_need_its_share_leaves_it_to_others() -> None:
    leader = RateDivision()
    greedy, modest = Process("greedy", 10_000), Process("modest", 100)
    run([greedy, modest], leader, 0, 6_000)
    modest_before, greedy_before = modest.granted, greedy.granted
    run([greedy, modest], leader, 6_000, 16_000)
    assert modest.granted - modest_before >= 0.98 * 100 * 10  # Nobody made it wait.
    assert greedy.granted - greedy_before >= 0.75 * RATE * 10


def test_load_that_moves_to_another_process_takes_its_share_along() -> None:
    leader = RateDivision()
    one, other = Process("one", 10_000), Process("other", 0)
    run([one, other], leader, 0, 6_000)
    one.wanted, other.wanted = 0, 10_000
    run([one, other], leader, 6_000, 8_000)
    assert 0.9 * RATE * 10 <= run([one, other], leader, 8_000, 18_000) <= 1.1 * RATE * 10


def test_a_process_that_cannot_reach_the_leader_keeps_its_share() -> None:
    leader = RateDivision()
    processes = [Process(str(number), 10_000) for number in range(2)]
    run(processes, leader, 0, 6_000)
    lonely = processes[0]
    before = lonely.granted
    for now_ms in range(6_000, 16_000, STEP_MS):
        lonely.serve(now_ms)
    assert 0.45 * RATE * 10 <= lonely.granted - before <= 0.55 * RATE * 10


def test_a_new_leader_waits_until_it_has_heard_of_all_processes() -> None:
    processes = [Process(str(number), 10_000) for number in range(3)]
    run(processes, RateDivision(), 0, 6_000)
    granted = run(processes, RateDivision(), 6_000, 16_000)
    assert 0.9 * RATE * 10 <= granted <= 1.1 * RATE * 10


def test_shares_are_the_whole_together() -> None:
    for uses in ([(0.1, False)], [(0.9, True), (0.05, False)], [(0.0, False)] * 7, [(0.4, True)] * 3 + [(0.5, False)]):
        reports = {str(number): RateUse(NAME, used, short) for number, (used, short) in enumerate(uses)}
        shares = shares_of(reports)
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 for share in shares.values())


def test_a_process_that_is_gone_has_no_share_after_a_while() -> None:
    leader = RateDivision()
    use = [RateUse(NAME, 0.5, True)]
    leader.divide("a", use, 0)
    leader.divide("b", use, WARM_UP_MS)
    assert leader.divide("a", use, WARM_UP_MS).shares == {NAME: 0.5}
    leader.divide("a", use, EXPIRY_MS)
    assert leader.divide("a", use, WARM_UP_MS + EXPIRY_MS + 1).shares == {NAME: 1.0}


def test_reports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_division, "PROCESSES_MAX", 1)
    monkeypatch.setattr(rate_division, "BUCKETS_OF_PROCESS_MAX", 1)
    leader = RateDivision()
    leader.divide("a", [RateUse(NAME, 0.5, False)], 0)
    with pytest.raises(LonghallError) as refused:
        leader.divide("b", [], 0)
    assert refused.value.code is Code.OVERLOADED
    with pytest.raises(LonghallError):
        leader.divide("a", [RateUse(NAME, 0.5, False), RateUse("other", 0.5, False)], 0)
