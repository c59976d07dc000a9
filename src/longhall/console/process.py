"""The process as the kernel sees it, under the names that every Prometheus client uses.

Reads /proc of the real machine, so the node registers it and the simulation does not. Where there is no /proc it shows
what `resource` knows.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import Final

from longhall.console.metrics import Family

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STARTED_AT: Final = time.time()


def process_families() -> Iterator[Family]:
    """Processor time, memory and descriptors. A collector for `Registry.collect`."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = Family("process_cpu_seconds_total", "counter", "Processor seconds, user and system.")
    yield cpu.add(usage.ru_utime + usage.ru_stime)
    yield Family("process_max_fds", "gauge", "The bound on open descriptors.").add(
        resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    )
    try:
        yield from _from_proc()
    except (OSError, ValueError, IndexError):
        peak = Family("process_resident_memory_bytes", "gauge", "The most resident memory there was.")
        yield peak.add(usage.ru_maxrss * 1024)
        yield Family("process_start_time_seconds", "gauge", "When the process started.").add(_STARTED_AT)


def _from_proc() -> Iterator[Family]:
    with open("/proc/self/statm", encoding="ascii") as stream:
        virtual_pages, resident_pages = (int(word) for word in stream.read().split()[:2])
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
        # The second field is the name in brackets and may hold anything; what counts from the third on follows it.
        words = stream.read().rpartition(")")[2].split()
    with open("/proc/stat", encoding="ascii") as stream:
        booted_at = next(int(line.split()[1]) for line in stream if line.startswith("btime "))
    descriptors = len(os.listdir("/proc/self/fd")) - 1  # Without the one that lists them.
    yield Family("process_virtual_memory_bytes", "gauge", "Virtual memory.").add(virtual_pages * _PAGE_BYTES)
    yield Family("process_resident_memory_bytes", "gauge", "Resident memory.").add(resident_pages * _PAGE_BYTES)
    yield Family("process_threads", "gauge", "Threads.").add(int(words[17]))
    yield Family("process_open_fds", "gauge", "Open descriptors.").add(descriptors)
    yield Family("process_start_time_seconds", "gauge", "When the process started.").add(
        booted_at + int(words[19]) / _TICKS_PER_SECOND
    )
