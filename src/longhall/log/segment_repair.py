"""Repair of segments in place: background jobs that find damage and replace it with batches of another replica.

A stretch is the damaged range between two valid batches. Its replacement has exactly the same size: whole batches with
the offsets that belong there. All other bytes keep their positions, so references into the segment stay valid. A
replacement that does not fit is not written. The caller finds the batches and checks that they are the right ones.
"""

from __future__ import annotations

from typing import Annotated, Final, final

import msgspec

from longhall.errors import LonghallError
from longhall.log.index import IndexBuilder
from longhall.log.index_files import publish_index
from longhall.log.layout import base_offset_of
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.log.segment_scan import AtRest, Damage, Found, scan_segment
from longhall.records.batch import BatchHeader, check_batch
from longhall.world.ports import Disk, File

STRETCH_BYTES_MAX: Final = 65 * 1024 * 1024  # The largest stretch repaired at once: room for the largest batch.

Natural = Annotated[int, msgspec.Meta(ge=0)]


class WrittenSegment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A segment: how many of its bytes count, and the offset after its last batch."""

    path: str
    size_bytes: Natural
    next_offset: Natural


class SegmentsArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Segments to check, and whether to rebuild their indexes."""

    segments: list[WrittenSegment]
    index: bool = False


class StretchArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A range of bytes of a segment with the batches from one offset up to another."""

    path: str
    first: Natural
    behind: Natural
    size_bytes: Natural


class PatchesArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A segment, the numbers of damaged stretches in it, and their replacements."""

    segment: WrittenSegment
    patches: list[tuple[list[Natural], bytes]]


@final
class Stretch:
    """A damaged range of bytes of a segment, and the offsets of the batches that belong there."""

    def __init__(self, position: int, size_bytes: int, first: int, behind: int) -> None:
        self.position = position
        self.size_bytes = size_bytes
        self.first = first
        self.behind = behind

    def numbers(self) -> list[int]:
        """The stretch as jobs report it."""
        return [self.position, self.size_bytes, self.first, self.behind]


def find_damage(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Check every batch of some segments. `damaged` has for each segment the list of (position, size, first offset,
    offset after the last); a missing file is damaged as a whole.
    """
    task = msgspec.convert(arguments, SegmentsArguments)
    return {
        "damaged": [[one.numbers() for one in _check_segment(disk, segment, task.index)] for segment in task.segments]
    }


def read_stretch(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """The batches of these offsets if they are valid and have this size; else nothing."""
    task = msgspec.convert(arguments, StretchArguments)
    if not disk.exists(task.path):
        return {"data": b""}
    found: list[bytes] = []
    file = disk.open(task.path)
    try:
        for one in scan_segment(file, base_offset_of(task.path), file.size()):
            if (
                isinstance(one, Found)
                and task.first <= one.header.base_offset
                and one.header.next_offset <= task.behind
            ):
                found.append(one.batch)
    finally:
        file.close()
    size = sum(len(batch) for batch in found)
    return {"data": b"".join(found) if size == task.size_bytes <= STRETCH_BYTES_MAX else b""}


def mend_segment(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Overwrite damaged stretches durably. A stretch is written only if it is still damaged and its replacement fits.
    `mended` says for each stretch whether it is valid now.

    The file is opened once: if another file replaces it meanwhile, the write has no effect.
    """
    task = msgspec.convert(arguments, PatchesArguments)
    segment = task.segment
    base_offset = base_offset_of(segment.path)
    file = disk.open(segment.path)
    try:
        before = [one.numbers() for one in stretches(file, base_offset, segment.size_bytes, segment.next_offset)]
        for numbers, data in task.patches:
            if numbers in before and _fits(numbers, data):
                file.write_at(numbers[0], (data,))
        disk.sync_now(file)
        left = stretches(file, base_offset, segment.size_bytes, segment.next_offset)
    finally:
        file.close()
    return {"mended": [numbers in before and not _touched(numbers, left) for numbers, _ in task.patches]}


def restore_from_memory(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Write the intact copy in memory over stretches that are damaged on the disk, durably. `damaged` has the stretches
    that memory could not restore.
    """
    segment = msgspec.convert(arguments, WrittenSegment)
    base_offset = base_offset_of(segment.path)
    if not disk.exists(segment.path):
        return {"damaged": [[0, segment.size_bytes, base_offset, segment.next_offset]]}
    file = disk.open(segment.path)
    try:
        damaged = stretches(file, base_offset, segment.size_bytes, segment.next_offset)
        restored = False
        for one in damaged:
            data = file.read_at(one.position, one.size_bytes) if one.size_bytes <= STRETCH_BYTES_MAX else b""
            if _fits(one.numbers(), data):
                file.write_at(one.position, (data,))
                restored = True
        if restored:
            disk.sync_now(file)
            damaged = stretches(file, base_offset, segment.size_bytes, segment.next_offset)
    finally:
        file.close()
    return {"damaged": [one.numbers() for one in damaged]}


def _fits(numbers: list[int], data: bytes) -> bool:
    _, size, first, behind = numbers
    return len(data) == size and valid_headers(data, first, behind) is not None


def _touched(numbers: list[int], damaged: list[Stretch]) -> bool:
    end = numbers[0] + numbers[1]
    return any(one.position < end and numbers[0] < one.position + one.size_bytes for one in damaged)


def valid_headers(data: bytes, first: int, behind: int) -> list[BatchHeader] | None:
    """The headers of the batches in `data`; None unless all are valid, ascend and have exactly these offsets."""
    headers: list[BatchHeader] = []
    at = 0
    expected = first
    try:
        while at < len(data):
            header = check_batch(data, at, len(data))
            if header.base_offset < expected or header.next_offset > behind:
                return None
            headers.append(header)
            expected = header.next_offset
            at += header.size_bytes
    except LonghallError:
        return None
    return headers


def stretches(file: File, base_offset: int, size_bytes: int, next_offset: int) -> list[Stretch]:
    """The damaged stretches in the first `size_bytes` of a segment that ends before `next_offset`."""
    return _scan(file, base_offset, size_bytes, next_offset, IndexBuilder(base_offset, INDEX_INTERVAL_BYTES))


def _check_segment(disk: Disk, segment: WrittenSegment, index: bool) -> list[Stretch]:
    base_offset = base_offset_of(segment.path)
    if not disk.exists(segment.path):
        return [Stretch(0, segment.size_bytes, base_offset, segment.next_offset)] if segment.size_bytes else []
    built = IndexBuilder(base_offset, INDEX_INTERVAL_BYTES)
    file = disk.open(segment.path)
    try:
        found = _scan(file, base_offset, segment.size_bytes, segment.next_offset, built)
    finally:
        file.close()
    if index and not found:
        publish_index(disk, segment.path, built.encode(segment.size_bytes))
    return found


def _scan(file: File, base_offset: int, size_bytes: int, next_offset: int, built: IndexBuilder) -> list[Stretch]:
    found: list[Stretch] = []
    end = min(size_bytes, file.size())
    last: Found | None = None
    before = base_offset  # The offset after the batch before the last one.
    for one in scan_segment(AtRest(file), base_offset, end):
        if isinstance(one, Damage):
            behind = one.next_offset_hint if one.next_offset_hint >= 0 else next_offset
            found.append(Stretch(one.position, one.size_bytes, one.first_offset, behind))
            continue
        before = built.next_offset
        built.note(one.position, one.header)
        last = one
    if last is not None and last.header.next_offset > next_offset:
        # The checksum does not cover a batch's own offset, and no successor contradicts that of the last batch.
        found = [one for one in found if one.position < last.position]
        found.append(Stretch(last.position, size_bytes - last.position, before, next_offset))
    elif end < size_bytes:
        if found and found[-1].position + found[-1].size_bytes == end:
            found[-1].size_bytes = size_bytes - found[-1].position
        else:
            found.append(Stretch(end, size_bytes - end, built.next_offset, next_offset))
    return found
