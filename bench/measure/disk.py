"""What the disk itself costs: write and sync on a bare file, with no broker in between.

A broker that syncs before it acknowledges cannot answer faster than this; the figure stands beside every latency.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_BLOCK_BYTES = 1 << 20
_STILL_SECONDS = 0.2
_KAFKA_DELETED = "-delete"  # So it names a directory that it will remove.


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
    """Put every file below a directory out of the page cache; the bytes that were dropped.

    Only clean pages can be dropped, so each file is synced first.
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
    """Read every file below a directory into the page cache; the bytes that were read."""
    read = 0
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                read += len(block)
    return read


def wait_until_still(directories: list[Path], *, seconds_max: float) -> None:
    """Wait until nothing below them grows, shrinks or vanishes any more, and the disk has all of it.

    A broker removes a deleted topic's files in the background, some of them a minute later, and the disk's journal
    makes everybody's syncs wait for that: it would be charged to whoever is measured then.
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
    """Every file and directory that is still there when it is looked at; `rglob` would stumble over one that is not."""
    return [Path(place) / name for place, inner, files in os.walk(directory) for name in (*inner, *files)]


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
