"""Processes held to a share of a core, by cgroups of Linux: what a small host is among large ones.

`with Quota("name", 0.33) as quota: quota.hold(pid)` moves a process and all its descendants; what they start later is
held too. The group ends with the context, when its processes have ended.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.measure.process import tree

_FIRST: Final = Path("/sys/fs/cgroup/cpu")  # Version 1; in version 2 every controller is in one tree.
_SECOND: Final = Path("/sys/fs/cgroup")
PERIOD_US: Final = 100_000
END_SECONDS_MAX: Final = 10.0


class QuotaMissing(RuntimeError):
    """This system permits no cgroups with a bound of processor time."""


class Quota:
    """One group of processes that have so much of a core together."""

    def __init__(self, name: str, cores: float) -> None:
        self._first = (_FIRST / "cpu.cfs_quota_us").exists() or (_FIRST / "cpu.shares").exists()
        self._path = (_FIRST if self._first else _SECOND) / f"longhall-bench-{os.getpid()}-{name}"
        self._quota_us = round(cores * PERIOD_US)

    def __enter__(self) -> Self:
        try:
            self._path.mkdir()
            if self._first:
                (self._path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self._path / "cpu.cfs_quota_us").write_text(str(self._quota_us))
            else:
                (self._path / "cpu.max").write_text(f"{self._quota_us} {PERIOD_US}")
        except OSError as error:
            raise QuotaMissing(f"no group of processes with a bound of processor time: {error}") from error
        return self

    def hold(self, pid: int) -> None:
        """Move a process and its descendants into the group, also those that it starts meanwhile."""
        held: set[int] = set()
        while (missing := set(tree(pid)) - held) != set():
            for each in missing:
                try:
                    (self._path / "cgroup.procs").write_text(str(each))
                except ProcessLookupError:
                    pass  # It has ended.
            held |= missing

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + END_SECONDS_MAX
        while self._path.exists():
            try:
                self._path.rmdir()
            except OSError:  # A process of the group still ends.
                if time.monotonic() > deadline:
                    return
                time.sleep(0.05)
