"""Saving a segment's index beside it, and having it again, by reading or by scanning what it does not cover."""

from __future__ import annotations

from typing import Final

from longhall.errors import LonghallError
from longhall.log.files import OpenFiles
from longhall.log.index import Index, Summary, decode_index
from longhall.log.layout import index_path, partition_directory, segment_path
from longhall.log.segment import INDEX_INTERVAL_BYTES, Segment
from longhall.records.batch import HEADER_BYTES, parse_header
from longhall.world.ports import Disk

_SCAN_BYTES: Final = 4 * 1024 * 1024


def save_index(files: OpenFiles, partition: int, segment: Segment) -> None:
    """Write the index of a segment as it stands; it is checked when it is read, so it need not be synced."""
    assert segment.index is not None
    _write_index(files, partition, segment, segment.index)


def publish_index(disk: Disk, path: str, encoded: bytes) -> None:
    """Put an index beside the segment at `path`. Readers see the old one or the new one whole. It is not synced: one
    that a crash tore has the wrong checksum.
    """
    target = path.removesuffix(".log") + ".index"
    file = disk.open(target + ".new", create=True)
    try:
        file.truncate(0)
        file.write_at(0, (encoded,))
    finally:
        file.close()
    disk.rename(target + ".new", target)


def discard_index(files: OpenFiles, partition: int, segment: Segment) -> None:
    """Where an index of another segment of the same name is left, an empty one takes its place."""
    if files.disk.exists(index_path(partition, segment.base_offset)):
        _replace_index(files, partition, segment, Index())


def _replace_index(files: OpenFiles, partition: int, segment: Segment, index: Index) -> None:
    """Instead of what is there, which is larger; should the disk not take it, none at all."""
    try:
        _write_index(files, partition, segment, index)
    except OSError:
        path = index_path(partition, segment.base_offset)
        files.forget(path)
        files.disk.remove(path)


def _write_index(files: OpenFiles, partition: int, segment: Segment, index: Index) -> None:
    path = index_path(partition, segment.base_offset)
    file = files.make(partition_directory(partition), path)
    summary = Summary(segment.size_bytes, segment.next_offset, segment.max_timestamp_ms)
    data = index.encode(summary)
    file.write_at(0, (data,))
    file.truncate(len(data))
    files.forget(path)


def load_index(files: OpenFiles, partition: int, segment: Segment) -> tuple[Index, int]:
    """The index and how far into the segment it reaches. Waits for the disk: not for readers."""
    index, covered = _saved_index(files, partition, segment)
    position = covered
    indexed = covered
    path = segment_path(partition, segment.base_offset)
    while position < segment.written_bytes:
        chunk = files.get(path).read_at(position, min(_SCAN_BYTES, segment.written_bytes - position))
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            try:
                header = parse_header(chunk, at)
            except LonghallError:
                return index, indexed  # Damage; readers will meet it and say so.
            if position + at == 0 or position + at >= indexed + INDEX_INTERVAL_BYTES:
                index.append(header.base_offset - segment.base_offset, position + at, segment.max_timestamp_ms)
                indexed = position + at
            at += header.size_bytes
        if at == 0:
            break
        position += at
    return index, indexed


def _saved_index(files: OpenFiles, partition: int, segment: Segment) -> tuple[Index, int]:
    path = index_path(partition, segment.base_offset)
    if segment.written_bytes == 0 or not files.disk.exists(path):
        return Index(), 0
    file = files.get(path)
    data = file.read_at(0, file.size())
    files.forget(path)
    try:
        index, summary = decode_index(data)
    except LonghallError:
        return Index(), 0
    if summary.size_bytes > segment.written_bytes:
        # Saved after the snapshot that the segment was restored from. Other batches may come to stand where those stood
        # that it knows and that are gone, so what is on the disk must not be believed later either.
        index.cut(segment.written_bytes)
        _replace_index(files, partition, segment, index)
    return index, min(summary.size_bytes, segment.written_bytes)
