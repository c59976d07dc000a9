"""The division of limits between the processes that serve clients: the leader gives each its share of every bucket.

A process reports what it has used of a bucket, as a part of the whole rate, and whether clients had to wait. The leader
divides by max-min fairness, so that the shares of a bucket are 1 together:

    a process whose clients did not wait    gets what it uses, and a little to grow
    a process whose clients had to wait     gets an equal part of what is left
    nobody had to wait                      what is left is divided equally

A process that does not report for EXPIRY_MS has no share any more. A leader that is new answers nothing for WARM_UP_MS:
until it has heard of all processes, each keeps the share that the leader before it gave. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.service.limit_operations import RateShares, RateUse

EXPIRY_MS: Final = 5_000
WARM_UP_MS: Final = 2_000
PROCESSES_MAX: Final = 1_000
BUCKETS_OF_PROCESS_MAX: Final = 2_000  # Of one report: those that were used most.
GROWTH: Final = 1.25  # A process may use so much more than it did,
GROWTH_MIN: Final = 0.02  # and at least this part of the whole.


@final
class _Process:
    """The last report of one process."""

    __slots__ = ("at_ms", "uses")

    def __init__(self, at_ms: int, uses: dict[str, RateUse]) -> None:
        self.at_ms = at_ms
        self.uses = uses


@final
class RateDivision:
    """What all processes have reported. Invariant: `_users` has the processes of each bucket in `_processes`."""

    def __init__(self) -> None:
        self._processes: dict[str, _Process] = {}
        self._users: dict[str, dict[str, RateUse]] = {}  # By bucket and process.
        self._began_ms = -1

    def divide(self, process: str, uses: Sequence[RateUse], now_ms: int) -> RateShares:
        """Take the report of a process, and return its shares of the buckets in the report. OVERLOADED beyond the
        bounds on processes and buckets.
        """
        if len(uses) > BUCKETS_OF_PROCESS_MAX:
            raise LonghallError(Code.OVERLOADED, f"a report has at most {BUCKETS_OF_PROCESS_MAX} buckets")
        self._expire(now_ms)
        if not self._processes:
            self._began_ms = now_ms
        if process not in self._processes and len(self._processes) >= PROCESSES_MAX:
            raise LonghallError(Code.OVERLOADED, f"limits are divided between at most {PROCESSES_MAX} processes")
        self._forget(process)
        self._processes[process] = _Process(now_ms, {use.bucket: use for use in uses})
        for use in uses:
            self._users.setdefault(use.bucket, {})[process] = use
        shares: dict[str, float] = {}
        if now_ms - self._began_ms >= WARM_UP_MS:
            shares = {use.bucket: shares_of(self._users[use.bucket])[process] for use in uses}
        return RateShares(len(self._processes), shares)

    def _expire(self, now_ms: int) -> None:
        for name in [name for name, one in self._processes.items() if now_ms - one.at_ms > EXPIRY_MS]:
            self._forget(name)

    def _forget(self, process: str) -> None:
        before = self._processes.pop(process, None)
        for bucket in before.uses if before is not None else ():
            users = self._users[bucket]
            del users[process]
            if not users:
                del self._users[bucket]


def shares_of(uses: Mapping[str, RateUse]) -> dict[str, float]:
    """The share of each process of one bucket. Their sum is 1."""
    wanted = {
        process: 1.0 if use.is_short else min(1.0, use.used * GROWTH + GROWTH_MIN) for process, use in uses.items()
    }
    left, shares = 1.0, {}
    for place, process in enumerate(sorted(wanted, key=lambda one: (wanted[one], one))):
        shares[process] = min(wanted[process], left / (len(wanted) - place))
        left -= shares[process]
    return {process: share + left / len(shares) for process, share in shares.items()}
