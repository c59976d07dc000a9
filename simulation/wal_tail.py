"""The position of the last frame of a write-ahead log on a simulated disk."""

from __future__ import annotations

from longhall.log.frames import decode_frame
from longhall.log.wal import FILE_HEADER_BYTES
from simulation.platter import Inode, Platter

_START_AT = 8  # Offset of the log position in a file's header: see `log.wal`.


def last_frame(platter: Platter) -> tuple[Inode, int, int] | None:
    """The file with the newest frame, and the frame's start and end in it; None if there is no frame."""
    newest: tuple[int, Inode, int, int] | None = None
    for path, inode in platter.inodes():
        if not path.lstrip("/").startswith("wal/") or inode.content[:4] != b"LHWL":
            continue
        content = bytes(inode.content)
        start = int.from_bytes(content[_START_AT : _START_AT + 8], "big")
        at = FILE_HEADER_BYTES
        frame = decode_frame(content, at, start + at)
        while frame is not None:
            if newest is None or frame.position > newest[0]:
                newest = (frame.position, inode, at, at + frame.size_bytes)
            at += frame.size_bytes
            frame = decode_frame(content, at, start + at)
    return newest[1:] if newest is not None else None
