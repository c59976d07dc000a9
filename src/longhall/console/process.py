"""The process as the kernel sees it, under the names that every Prometheus client uses.

Reads /proc of the real machine, so the node registers it and the simulation does not. Where there is no /proc it shows
what `resource` knows.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import resource
import time
from collections.abc import Iterator
from typing import Final

from longhall.console.metrics import Family, counter, gauge, labels
from longhall.records import varint

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STARTED_AT: Final = time.time()


@functools.cache
def _build() -> tuple[str, ...]:
    """The labels of the build: version, Python, and whether the hot rooms are compiled."""
    compiled = (varint.__file__ or "").endswith((".so", ".pyd"))
    try:
        version = importlib.metadata.version("longhall")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return version, platform.python_version(), "compiled" if compiled else "plain"


def build_families() -> Iterator[Family]:
    """The build that runs, as labels of a metric with the value 1. A collector for `Registry.collect`."""
    names = ("version", "python", "hot_rooms")
    labelled = labels(*zip(names, _build(), strict=True))
    yield Family("longhall_build_info", "gauge", "The build that runs.", [("", labelled, 1)])


def process_families() -> Iterator[Family]:
    """Processor time, memory and descriptors. A collector for `Registry.collect`."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield counter("process_cpu_seconds_total", "Processor seconds, user and system.", usage.ru_utime + usage.ru_stime)
    yield gauge("process_max_fds", "The bound on open descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        yield from _from_proc()
    except (OSError, ValueError, IndexError):
        yield gauge("process_resident_memory_bytes", "The most resident memory there was.", usage.ru_maxrss * 1024)
        yield gauge("process_start_time_seconds", "When the process started.", _STARTED_AT)


def resident_bytes() -> int:
    """The resident memory of this process; its most where the present one is not known."""
    try:
        return _pages()[1] * _PAGE_BYTES
    except (OSError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def descriptors_open() -> int:
    """The open descriptors of this process; 0 if they are not known."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # Without the descriptor of the listing itself.
    except OSError:
        return 0


def version() -> str:
    """The version of the build that runs."""
    return _build()[0]


def _pages() -> tuple[int, int]:
    """Virtual and resident pages."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        virtual, resident = (int(word) for word in stream.read().split()[:2])
    return virtual, resident


def _from_proc() -> list[Family]:
    virtual_pages, resident_pages = _pages()
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
        # The second field is the name in brackets and may have any characters; fields are counted after it.
        words = stream.read().rpartition(")")[2].split()
    with open("/proc/stat", encoding="ascii") as stream:
        booted_at = next(int(line.split()[1]) for line in stream if line.startswith("btime "))
    descriptors = descriptors_open()
    started_at = booted_at + int(words[19]) / _TICKS_PER_SECOND
    return [
        gauge("process_virtual_memory_bytes", "Virtual memory.", virtual_pages * _PAGE_BYTES),
        gauge("process_resident_memory_bytes", "Resident memory.", resident_pages * _PAGE_BYTES),
        gauge("process_threads", "Threads.", int(words[17])),
        gauge("process_open_fds", "Open descriptors.", descriptors),
        gauge("process_start_time_seconds", "When the process started.", started_at),
    ]
