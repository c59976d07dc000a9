"""The cost of the disk itself: write and sync on a bare file, without a broker.

A broker that syncs before it acknowledges cannot answer faster than this; every latency is reported beside this figure.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_BLOCK_BYTES = 1 << 20
_STILL_SECONDS = 0.2
_KAFKA_DELETED = "-delete"  # Suffix of a directory that Kafka will remove.


def sync_latencies_ns(directory: Path, *, size_bytes: int, seconds: float) -> list[int]:
    """Append blocks to a new file, each followed by fdatasync, for the given time."""
    path = directory / f"sync-probe-{os.getpid()}"
    block = os.urandom(size_bytes)
    samples: list[int] = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        position = 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            began = time.monotonic_ns()
            os.pwrite(descriptor, block, position)
            os.fdatasync(descriptor)
            samples.append(time.monotonic_ns() - began)
            position += size_bytes
    finally:
        os.close(descriptor)
        path.unlink()
    return samples


def drop_cache(directory: Path) -> int:
    """Evict every file below a directory from the page cache; returns the evicted bytes.

    Only clean pages can be evicted, so each file is synced first.
    """
    dropped = 0
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            dropped += os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    return dropped


def fill_cache(directory: Path) -> int:
    """Read every file below a directory into the page cache; returns the bytes read. A broker may remove the files of
    a deleted topic meanwhile.
    """
    read = 0
    for path in filter(Path.is_file, _found_below(directory)):
        with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                read += len(block)
    return read


def wait_until_still(directories: list[Path], *, seconds_max: float) -> None:
    """Wait until no file below the directories changes or vanishes any more, and sync the disk.

    A broker removes a deleted topic's files in the background, some of them a minute later, and the disk's journal
    makes all syncs wait for that: it would be charged to the next measurement.
    """
    deadline = time.monotonic() + seconds_max
    before = -1
    while time.monotonic() < deadline:
        os.sync()
        paths = [path for directory in directories for path in _found_below(directory)]
        now = sum(map(_size_of, paths))
        if now == before and not any(path.name.endswith(_KAFKA_DELETED) for path in paths):
            return
        before = now
        time.sleep(_STILL_SECONDS)


def _found_below(directory: Path) -> list[Path]:
    """Every file and directory that exists when it is visited; `rglob` would fail on one that was just removed."""
    return [Path(place) / name for place, inner, files in os.walk(directory) for name in (*inner, *files)]


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
