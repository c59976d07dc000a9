"""What the disk itself costs: write and sync on a bare file, with no broker in between.

A broker that syncs before it acknowledges cannot answer faster than this; the figure stands beside every latency.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


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
