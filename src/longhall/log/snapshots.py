"""Snapshots on disk: one file per shard, named after its position in the write-ahead log.

    0  u32  magic "LHSN"       8  u32  CRC-32C of the body
    4  u16  version           12  u32  size of the body
    6  u16  0                 16  body

A snapshot is written beside its predecessor, synced, and renamed to its name; then the old one is removed.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from longhall.errors import Code, LonghallError
from longhall.log.layout import shard_directory, snapshot_path
from longhall.world.ports import Disk

_MAGIC: Final = b"LHSN"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHII")


def write_snapshot(disk: Disk, shard: int, position: int, body: bytes) -> None:
    """Make `body` the newest snapshot of the shard. Waits for the disk."""
    directory = shard_directory(shard)
    path = snapshot_path(shard, position)
    new = not disk.exists(directory)
    disk.make_directory(directory)
    file = disk.open(path + ".new", create=True)
    try:
        file.truncate(0)
        file.write_at(0, (_HEADER.pack(_MAGIC, _VERSION, 0, crc32c(body), len(body)), body))
        disk.sync_now(file)
    finally:
        file.close()
    disk.rename(path + ".new", path)
    disk.sync_directory(directory)
    if new:
        disk.sync_directory(directory.rpartition("/")[0])
        disk.sync_directory("")
    for name in disk.list(directory):
        if f"{directory}/{name}" < path:
            disk.remove(f"{directory}/{name}")


def read_snapshot(disk: Disk, shard: int) -> tuple[int, bytes] | None:
    """Position and body of the newest snapshot, or None if the shard has none.

    A damaged snapshot is an error: the log before it is gone, so there is no older state to recover from.
    """
    directory = shard_directory(shard)
    names = [name for name in disk.list(directory) if name.endswith(".snapshot")]
    if not names:
        return None
    path = f"{directory}/{names[-1]}"
    file = disk.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    return int(names[-1].removesuffix(".snapshot")), open_snapshot(data, path)


def open_snapshot(data: bytes, path: str) -> bytes:
    """The body of a snapshot file with these bytes."""
    if len(data) < _HEADER.size:
        raise LonghallError(Code.STORAGE_DAMAGED, f"{path} is damaged: restore the data directory from a copy")
    magic, version, _, crc, size = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != _MAGIC or size != len(body) or crc32c(body) != crc:
        raise LonghallError(Code.STORAGE_DAMAGED, f"{path} is damaged: restore the data directory from a copy")
    if version > _VERSION:
        raise LonghallError(Code.UNSUPPORTED_VERSION, f"{path} was written by a newer Longhall: start that version")
    return body
