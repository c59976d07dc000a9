"""Whether `syncfs` can be believed here: it must write everything and say so when it could not.

Linux before 5.8 returned 0 from `syncfs` whatever became of the pages. Since then a file system remembers each failed
write until every descriptor that was open at that time has been told. That holds for file systems that write to a disk
of their own; one that hands its writes to somebody else (FUSE, NFS, 9p) may return before they are durable. Where it
cannot be believed, every file is synced by itself.
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
_STATFS_BYTES: Final = 256  # More than any of its layouts; the type is the first word of all of them.


def obstacle_to_syncfs(path: str, release: str | None = None) -> str:
    """Why `syncfs` is not to be used for the file system of this path; nothing if it is."""
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
