"""Small background jobs of a checkpoint, which wait for the disk. The janitor runs them."""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.log.snapshots import write_snapshot
from longhall.world.ports import Disk

SMALL_FILE: Final = "write_small_file"


class SnapshotArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The state of a shard at a position of the write-ahead log."""

    shard: int
    position: int
    body: bytes


class SmallFileArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A file that is replaced as a whole, and its new content."""

    path: str
    data: bytes


class PathsArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Paths of files or directories."""

    paths: list[str]


class RemovalArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Paths of files or directories to remove, and how many bytes one call may remove; 0 for all."""

    paths: list[str]
    bytes_max: int = 0


def publish_snapshot(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Make this the newest snapshot of its shard, durably."""
    task = msgspec.convert(arguments, SnapshotArguments)
    write_snapshot(disk, task.shard, task.position, task.body)
    return {}


def write_small_file(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Replace a file as a whole. Its name is not synced: after a crash the old file may be there again."""
    task = msgspec.convert(arguments, SmallFileArguments)
    file = disk.open(task.path + ".new", create=True)
    try:
        file.truncate(0)
        file.write_at(0, (task.data,))
        disk.sync_now(file)
    finally:
        file.close()
    disk.rename(task.path + ".new", task.path)
    return {}


def sync_directories(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Make the names in these directories durable; a directory that no longer exists is skipped."""
    disk.sync_directories(msgspec.convert(arguments, PathsArguments).paths)
    return {}


def remove(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Remove these paths, as far as they exist, and return those that are left.

    A file system that frees a gigabyte delays every sync meanwhile, so large files are truncated in steps from their
    end. A reader with an old reference to such a file gets an error.
    """
    task = msgspec.convert(arguments, RemovalArguments)
    room = task.bytes_max or 1 << 62
    for at, path in enumerate(task.paths):
        if not disk.exists(path):
            continue
        inner = [path] if "." in path.rpartition("/")[2] else [f"{path}/{name}" for name in disk.list(path)]
        for one in inner:
            room -= _shorten(disk, one, room)
            if room <= 0:
                return {"left": task.paths[at:]}
        disk.remove(path)
    return {"left": []}


def _shorten(disk: Disk, path: str, bytes_max: int) -> int:
    """Truncate a file by at most `bytes_max`; returns by how much."""
    file = disk.open(path)
    try:
        size = file.size()
        taken = min(size, bytes_max)
        if taken < size:
            file.truncate(size - taken)
        return taken
    finally:
        file.close()
