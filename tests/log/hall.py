"""A partition directory for tests: segments written from batches, and what a reader sees of them."""

from __future__ import annotations

from collections.abc import Sequence

from longhall.log.segment_rewrite import install_segment
from longhall.log.segment_scan import Found, scan_segment
from longhall.records.batch import BatchHeader, Record, read_records
from longhall.records.control import parse_marker
from longhall.world.ports import Disk

DIRECTORY = "partitions/0000000000000001"


def segment_path(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def write_segment(disk: Disk, base_offset: int, batches: Sequence[bytes]) -> tuple[int, int]:
    """Write a segment and return its base offset and size, as compaction wants them."""
    disk.make_directory(DIRECTORY)
    data = b"".join(batches)
    write_file(disk, segment_path(base_offset), data)
    return base_offset, len(data)


def write_file(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, (data,))
    file.close()


def read_file(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    data = file.read_at(0, file.size())
    file.close()
    return data


def batches_of(disk: Disk, base_offset: int) -> list[tuple[BatchHeader, bytes]]:
    """All batches of a segment; none may be damaged."""
    file = disk.open(segment_path(base_offset))
    out: list[tuple[BatchHeader, bytes]] = []
    for found in scan_segment(file, base_offset, file.size()):
        assert isinstance(found, Found)
        out.append((found.header, found.batch))
    file.close()
    return out


def committed_records(
    disk: Disk, segments: Sequence[int], aborted: Sequence[tuple[int, int, int]] = ()
) -> list[Record]:
    """What a read-committed reader sees of these segments."""
    out: list[Record] = []
    for base_offset in segments:
        for header, batch in batches_of(disk, base_offset):
            if header.is_control:
                continue
            if header.is_transactional and any(
                header.producer_id == producer and first <= header.base_offset <= marker
                for producer, first, marker in aborted
            ):
                continue
            out += read_records(batch, 0)
    return out


def latest(records: Sequence[Record]) -> dict[bytes, bytes]:
    """The table that a reader builds: the last value of each key, without deleted ones."""
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def open_transactions(disk: Disk, segments: Sequence[int]) -> set[int]:
    """Producers with an open transaction according to these headers."""
    producers: set[int] = set()
    for base_offset in segments:
        for header, batch in batches_of(disk, base_offset):
            if header.is_control and parse_marker(batch, 0, header) is not None:
                producers.discard(header.producer_id)
            elif header.is_transactional and not header.is_control:
                producers.add(header.producer_id)
    return producers


def last_sequences(disk: Disk, segments: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Producer to its newest epoch and last sequence, rebuilt from headers."""
    table: dict[int, tuple[int, int]] = {}
    for base_offset in segments:
        for header, _ in batches_of(disk, base_offset):
            if header.producer_id < 0:
                continue
            sequence = table.get(header.producer_id, (-1, -1))[1] if header.is_control else header.last_sequence
            table[header.producer_id] = (header.producer_epoch, sequence)
    return table


def install_all(disk: Disk, segments: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Install the rewritten segments and return all with their new sizes."""
    out: list[tuple[int, int]] = []
    for base_offset, _ in segments:
        install_segment(disk, segment_path(base_offset))
        out.append((base_offset, len(read_file(disk, segment_path(base_offset)))))
    return out
