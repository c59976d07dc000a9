"""Verification of stored data, one slice at a time: background jobs for the scrub.

    segment    every batch: checksum, size, ascending offsets                       (`log.segment_scan`)
    index      checksum, and that it covers its segment
    snapshot   checksum of the newest one of a shard
    log        every durable frame: checksum, position, entries                     (`log.frames`)

A slice is short, because other jobs of the janitor wait for it. Bytes are read from the disk, past the page cache.
These jobs repair nothing and do not know what is being written: the caller names a range that no longer changes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from longhall.errors import LonghallError
from longhall.log.frames import ENTRY_BYTES_MAX, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, decode_frame
from longhall.log.index import decode_index
from longhall.log.layout import base_offset_of, shard_directory
from longhall.log.segment_scan import AtRest, Found, scan_segment
from longhall.log.snapshots import open_snapshot
from longhall.log.wal import FILE_HEADER_BYTES, read_file_header
from longhall.world.ports import Disk

Natural = Annotated[int, msgspec.Meta(ge=0)]


class SliceArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a segment of `size_bytes`: from `position` on, where offsets from `expected` on follow."""

    path: str
    size_bytes: Natural
    next_offset: Natural
    position: Natural
    expected: Natural
    bytes_max: Natural


class IndexArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The index of a closed segment, by the path of the segment."""

    path: str


class ShardsArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Shards whose newest snapshot is verified."""

    shards: list[Natural]


class LogArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a file of the write-ahead log that begins at `start`: the frames from `position` on that end before
    `until`.
    """

    path: str
    start: Natural
    position: Natural
    until: Natural
    bytes_max: Natural


def verify_slice(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Check the batches of a slice. Returns where the next slice begins (`position`, `expected`), and in `damaged` the
    first offset that cannot be trusted, or -1.
    """
    task = msgspec.convert(arguments, SliceArguments)
    position, expected = task.position, task.expected
    damaged = -1
    if not disk.exists(task.path):
        return {"position": task.size_bytes, "expected": task.next_offset, "damaged": expected}
    file = disk.open(task.path)
    try:
        for one in scan_segment(AtRest(file), base_offset_of(task.path), task.size_bytes, position, expected):
            if not isinstance(one, Found) or one.header.next_offset > task.next_offset:
                damaged = expected
                break
            position, expected = one.position + one.header.size_bytes, one.header.next_offset
            if position - task.position >= task.bytes_max:
                break
    finally:
        file.close()
    return {"position": position, "expected": expected, "damaged": damaged}


def verify_index(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """The number of bytes of the segment that its index `covers`, -1 if the index is damaged; its own `size_bytes`, -1
    if it does not exist; and the size of the segment (`segment_bytes`), -1 if it does not exist.
    """
    segment = msgspec.convert(arguments, IndexArguments).path
    segment_bytes = -1
    if disk.exists(segment):
        file = disk.open(segment)
        segment_bytes = file.size()
        file.close()
    path = segment.removesuffix(".log") + ".index"
    if not disk.exists(path):
        return {"covers": -1, "size_bytes": -1, "segment_bytes": segment_bytes}
    data = _read_all(disk, path)
    try:
        covers = decode_index(data)[1].size_bytes
    except LonghallError:
        covers = -1
    return {"covers": covers, "size_bytes": len(data), "segment_bytes": segment_bytes}


def verify_snapshots(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """The shards whose newest snapshot is `damaged`, and the total `size_bytes` of these snapshots."""
    damaged: list[int] = []
    size_bytes = 0
    for shard in msgspec.convert(arguments, ShardsArguments).shards:
        directory = shard_directory(shard)
        names = [name for name in disk.list(directory) if name.endswith(".snapshot")]
        if not names:
            continue
        try:
            data = _read_all(disk, f"{directory}/{names[-1]}")
            size_bytes += len(data)
            open_snapshot(data, names[-1])
        except FileNotFoundError:
            continue  # A newer snapshot has just replaced it.
        except LonghallError:
            damaged.append(shard)
    return {"damaged": damaged, "size_bytes": size_bytes}


def verify_log(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Check the frames of a slice of the write-ahead log. Returns where the next slice begins (`position`; at or after
    `until` when there is none), and in `damaged` the position of the first invalid frame, or -1.
    """
    task = msgspec.convert(arguments, LogArguments)
    file = disk.open(task.path)
    try:
        if task.position == task.start:
            if read_file_header(file)[0] != task.start:
                return {"position": task.until, "damaged": task.start}
            task.position += FILE_HEADER_BYTES
        return _verify_frames(AtRest(file), task)
    finally:
        file.close()


def _verify_frames(file: AtRest, task: LogArguments) -> dict[str, object]:
    position = window_at = task.position
    window = b""
    while position < task.until and position - task.position < task.bytes_max:
        frame = decode_frame(window, position - window_at, position)
        if frame is None and window_at + len(window) < task.until and (window_at < position or not window):
            window_at = position
            most = max(task.bytes_max, FRAME_HEADER_BYTES + FRAME_BYTES_MAX + ENTRY_BYTES_MAX)
            window = file.read_at(position - task.start, min(most, task.until - position))
            continue
        if frame is None:
            return {"position": task.until, "damaged": position}
        position = task.until if frame.is_last else position + frame.size_bytes
    return {"position": position, "damaged": -1}


def _read_all(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read_from_disk(0, file.size())
    finally:
        file.close()
