"""Small jobs that a checkpoint needs done and that wait for the disk: run by the janitor, like the chores."""

from __future__ import annotations

import msgspec

from longhall.log.snapshots import write_snapshot
from longhall.world.ports import Disk


class OfSnapshot(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a shard knew at a position of the write-ahead log."""

    shard: int
    position: int
    body: bytes


class OfPaths(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Files or directories."""

    paths: list[str]


def publish_snapshot(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Make this the newest snapshot of its shard, durably."""
    task = msgspec.convert(arguments, OfSnapshot)
    write_snapshot(disk, task.shard, task.position, task.body)
    return {}


def sync_directories(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Make the names in these directories durable; one that is gone needs none."""
    disk.sync_directories(msgspec.convert(arguments, OfPaths).paths)
    return {}


def remove(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Remove what is still there of these."""
    for path in msgspec.convert(arguments, OfPaths).paths:
        if disk.exists(path):
            disk.remove(path)
    return {}
