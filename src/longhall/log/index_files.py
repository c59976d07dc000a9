"""Index files of segments: saving, loading, and scanning the part of a segment that its index does not cover."""

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
    """Write the current index of a segment to its file. The checksum is verified on load, so no sync is needed."""
    assert segment.index is not None
    _write_index(files, partition, segment, segment.index)


def publish_index(disk: Disk, path: str, encoded: bytes) -> None:
    """Write the index file of the segment at `path`. Readers see the old or the new file as a whole. It is not synced:
    the checksum of a file that a crash tore is wrong.
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
    """Replace the index file of an earlier segment with the same name by an empty one."""
    if files.disk.exists(index_path(partition, segment.base_offset)):
        _replace_index(files, partition, segment, Index())


def _replace_index(files: OpenFiles, partition: int, segment: Segment, index: Index) -> None:
    """Replace the existing index file, which is larger; if the disk does not accept the new one, remove it."""
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
    """The index and how many bytes of the segment it covers. Waits for the disk: not for readers."""
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
                return index, indexed  # Damage: readers that reach it get an error.
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
        # The index was saved after the snapshot that restored the segment. New batches may take the positions of lost
        # ones that this index still lists, so the file on the disk is invalid as well.
        index.cut(segment.written_bytes)
        _replace_index(files, partition, segment, index)
    return index, min(summary.size_bytes, segment.written_bytes)
