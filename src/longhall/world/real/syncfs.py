"""Decides whether `syncfs` is reliable here: it must write everything and report failures.

Linux before 5.8 returned 0 from `syncfs` even if writes failed. Since then a file system remembers each failed write
until it was reported to every descriptor that was open at that time. That holds for file systems that write to a disk
of their own; one that passes its writes on (FUSE, NFS, 9p) may return before they are durable. Where `syncfs` is not
reliable, every file is synced separately.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Final

REPORTS_SINCE: Final = (5, 8)
FILE_SYSTEMS: Final = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0xF2F52010: "f2fs",
    0x01021994: "tmpfs",
}
_STATFS_BYTES: Final = 256  # More than any of its layouts; the type is the first word of each.


def obstacle_to_syncfs(path: str, release: str | None = None) -> str:
    """Why `syncfs` must not be used for the file system of this path; empty if it may."""
    release = os.uname().release if release is None else release
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None or (int(version[1]), int(version[2])) < REPORTS_SINCE:
        return f"Linux {release} does not report its errors"
    kind = _file_system_of(path)
    if kind not in FILE_SYSTEMS:
        return f"the file system of {path} ({kind:#x}) is not known to report its errors"
    return ""


def _file_system_of(path: str) -> int:
    buffer = (ctypes.c_ulong * (_STATFS_BYTES // ctypes.sizeof(ctypes.c_ulong)))()
    library = ctypes.CDLL(None, use_errno=True)
    if library.statfs(os.fsencode(path), ctypes.byref(buffer)) != 0:
        return 0
    return int(buffer[0]) & 0xFFFFFFFF
