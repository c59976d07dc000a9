"""Reads past the page cache: the bytes on the disk, not their copy in memory.

A page in memory hides a bit that has flipped on the disk below it, until the page is evicted. Direct reads are aligned
to blocks and need aligned memory. A file system without direct reads reports an error, and the caller reads normally.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Final

BLOCK_BYTES: Final = 4096
PIECE_BYTES: Final = 1024 * 1024


def read_direct(path: str, position: int, size: int) -> bytes | None:
    """Up to `size` bytes of a file, fewer only at its end; None if the file system has no direct reads."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_aligned(descriptor, position, size)
    finally:
        os.close(descriptor)


def _read_aligned(descriptor: int, position: int, size: int) -> bytes | None:
    first = position - position % BLOCK_BYTES
    behind = position + size + -(position + size) % BLOCK_BYTES
    parts: list[bytes] = []
    with mmap.mmap(-1, min(behind - first, PIECE_BYTES) or BLOCK_BYTES) as aligned:
        at = first
        while at < behind:
            wanted = min(len(aligned), behind - at)
            with memoryview(aligned) as view, view[:wanted] as piece:
                try:
                    got = os.preadv(descriptor, [piece], at)
                except OSError as error:
                    if error.errno == errno.EINVAL:  # The file system accepts O_DIRECT at open and not at read.
                        return None
                    raise
            parts.append(aligned[:got])
            at += got
            if got < wanted:
                break
    data = b"".join(parts)
    return data[position - first : position - first + size]
