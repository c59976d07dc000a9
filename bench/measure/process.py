"""The CPU time and memory of a broker: its whole process tree, not only the process that was started.

CPU counts living processes and, through the parents' accounts, children that have ended. Memory is given twice: the
sum of resident sets, which counts pages that processes share once for each, and the proportional set, which counts
them once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU seconds used so far, in all and by thread."""

    cpu_seconds: float
    thread_seconds: dict[int, float]

    def since(self, earlier: Usage) -> tuple[float, float]:
        """CPU seconds of the tree, and of its busiest thread, since an earlier measurement."""
        by_thread = [used - earlier.thread_seconds.get(thread, 0.0) for thread, used in self.thread_seconds.items()]
        return self.cpu_seconds - earlier.cpu_seconds, max(by_thread, default=0.0)


@dataclass(frozen=True)
class Memory:
    resident_bytes: int
    proportional_bytes: int


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    root = psutil.Process(pid)
    return [root.pid, *(child.pid for child in root.children(recursive=True))]


def usage(pid: int) -> Usage:
    total = 0.0
    threads: dict[int, float] = {}
    for each in tree(pid):
        account = _account(Path(f"/proc/{each}/stat"))
        total += sum(account)
        for task in Path(f"/proc/{each}/task").glob("*/stat"):
            own = _account(task)
            threads[int(task.parent.name)] = own[0] + own[1]
    return Usage(cpu_seconds=total, thread_seconds=threads)


def machine_cpu_seconds() -> float:
    """CPU seconds that the whole machine has used, without idle and waiting time."""
    fields = [int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = fields[:7]
    return (user + nice + system + interrupts + soft_interrupts) / _TICKS_PER_SECOND


def memory(pid: int) -> Memory:
    resident = proportional = 0
    for each in tree(pid):
        try:
            rows = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except (ProcessLookupError, FileNotFoundError):
            continue  # It has just ended, as a process that cleans does when it is idle.
        for line in rows:
            field, _, rest = line.partition(":")
            if field == "Rss":
                resident += int(rest.split()[0]) * 1024
            elif field == "Pss":
                proportional += int(rest.split()[0]) * 1024
    return Memory(resident_bytes=resident, proportional_bytes=proportional)


def _account(path: Path) -> list[float]:
    """User and kernel seconds, and the same two of ended children; zeros for a process that has just ended."""
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return [0.0] * 4
    return [int(ticks) / _TICKS_PER_SECOND for ticks in fields[11:15]]
