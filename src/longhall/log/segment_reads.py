"""Reads of whole batches from segment files, from memory where possible; else the result names the bytes to fetch.

Bytes of a file are verified against their CRC first: a damaged batch is never returned.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.log.files import OpenFiles
from longhall.log.segment import Segment
from longhall.records.batch import CRC_COVERS_FROM, HEADER_BYTES, BatchHeader, parse_header
from longhall.records.crc import crc_of
from longhall.world.ports import Buffer

JOIN_BUFFERS_MIN: Final = 8  # From this number on, joining small pieces is cheaper than sending them separately.
_BASE_OFFSET_BYTES: Final = 8
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"
_RESYNC_TRIES_MAX: Final = 4096


@final
class Cold:
    """Bytes that are not in memory: `size` of them at `position`. With `rebuild`, an index must be rebuilt first.

    `version` is that of the log's files: bytes that were read before a file was replaced do not fit the new index.
    """

    def __init__(self, path: str, position: int, size: int, rebuild: Segment | None = None) -> None:
        self.version = 0
        self.path = path
        self.position = position
        self.size = size
        self.rebuild = rebuild


@final
class Supplied:
    """The bytes fetched for a `Cold`. For a rebuilt index: that its file exists now, or its bytes if it has no file."""

    def __init__(self, path: str, position: int, data: bytes, rebuilt: bool = False, version: int = 0) -> None:
        self.version = version
        self.path = path
        self.position = position
        self.data = data
        self.rebuilt = rebuilt


@final
class Read:
    """The outcome of a read: batches, an error code, or bytes to fetch first."""

    def __init__(self, code: Code | None, cold: Cold | None = None) -> None:
        self.code = code
        self.cold = cold
        self.buffers: list[Buffer] = []
        self.size_bytes = 0
        self.wanted_at = 0  # Position in the chunk from which to read again,
        self.wanted_bytes = 0  # and how much, because the first batch was not complete in the chunk.
        self.expected = 0  # The lowest offset that is possible there, or behind the batches of the result.

    def take(self, buffers: list[Buffer], size_bytes: int) -> None:
        """Set the batches of the result."""
        self.buffers = buffers if len(buffers) < JOIN_BUFFERS_MIN else [b"".join(buffers)]
        self.size_bytes = size_bytes


def read_bytes(files: OpenFiles, path: str, position: int, size: int, supplied: Supplied | None) -> bytes | Cold:
    """Bytes of a file if they are in memory or were supplied."""
    if supplied is not None and supplied.path == path and not supplied.rebuilt:
        begin = position - supplied.position
        if begin >= 0 and begin + size <= len(supplied.data):
            return supplied.data if size == len(supplied.data) else supplied.data[begin : begin + size]
    data = files.get(path).read_at_nowait(position, size)
    return data if data is not None else Cold(path, position, size)


def cut_batches(
    chunk: bytes, offset: int, bytes_max: int, limit_offset: int, more: bool, expected: int, end_offset: int
) -> Read:
    """The whole batches in `chunk` from the one with `offset` on; `more` is True if the segment continues after it.

    The CRC does not cover a batch's own offset, so its neighbours verify it: `expected` is the lowest offset possible
    at the start of the chunk, `end_offset` the one after the segment.
    """
    result = Read(None)
    end = len(chunk)
    begin = -1
    position = 0
    passed = -1  # The position of the last batch that was skipped because of the offsets in its header.
    while end - position >= HEADER_BYTES:
        header = _header_at(chunk, position, more)
        if header is not None:
            size = header.size_bytes
            if header.base_offset != expected and _misplaced(header, chunk, expected, end_offset, position + size):
                header = None
            elif header.next_offset <= offset:
                passed = position
                position += size
                expected = header.next_offset
                continue
            elif header.base_offset >= limit_offset:
                break
            elif position + size > end:
                if begin >= 0:
                    break
                result.wanted_at = position
                result.wanted_bytes = size
                result.expected = expected
                return result
            elif begin >= 0 and position + size - begin > bytes_max:
                break
            elif crc_of(chunk, position + CRC_COVERS_FROM, position + size) != header.crc:
                header = None
        if header is None:
            if begin >= 0:
                break
            # The damage begins after the last trustworthy batch: the wanted batch may follow it.
            position = _resync(chunk, max(passed, 0) + 1, expected, end_offset)
            expected = _base_offset_at(chunk, position)
            if position < 0 or expected > offset:
                result.code = Code.STORAGE_DAMAGED
                break
            passed = position
            continue
        if begin < 0:
            if header.base_offset > offset and passed >= 0 and not _is_whole(chunk, passed):
                # Not a gap from cleaning: the offsets in the header of the batch before are wrong.
                result.code = Code.STORAGE_DAMAGED
                break
            begin = position
        position += header.size_bytes
        expected = header.next_offset
    if begin >= 0:
        whole = begin == 0 and position == end
        result.take([chunk if whole else memoryview(chunk)[begin:position]], position - begin)
        result.expected = expected
    elif more and result.code is None and end - position < HEADER_BYTES:
        result.wanted_at = position  # Only batches before `offset` so far: continue after them.
        result.wanted_bytes = HEADER_BYTES
        result.expected = expected
    return result


def _header_at(chunk: bytes, position: int, more: bool) -> BatchHeader | None:
    """The header at this position, without verification of its CRC."""
    try:
        header = parse_header(chunk, position)
    except LonghallError:
        return None
    return header if more or position + header.size_bytes <= len(chunk) else None


def _is_whole(chunk: bytes, position: int) -> bool:
    """True if the skipped batch at this position matches its checksum."""
    header = parse_header(chunk, position)
    return crc_of(chunk, position + CRC_COVERS_FROM, position + header.size_bytes) == header.crc


def _misplaced(header: BatchHeader, chunk: bytes, expected: int, end_offset: int, behind: int) -> bool:
    """True if a gap before this batch is an error in its offset and not a result of cleaning."""
    if header.base_offset < expected or header.next_offset > end_offset:
        return True
    following = _base_offset_at(chunk, behind)
    return 0 <= following < header.next_offset


def _resync(chunk: bytes, position: int, expected: int, end_offset: int) -> int:
    """The next valid batch after a damaged one, whose own length cannot be trusted; -1 if there is none."""
    for _ in range(_RESYNC_TRIES_MAX):  # A hostile message may contain many apparent batches.
        position = chunk.find(_MAGIC, position + _MAGIC_AT) - _MAGIC_AT
        if position < 0 or len(chunk) - position < HEADER_BYTES:
            return -1
        try:
            header = parse_header(chunk, position)
        except LonghallError:
            position += 1
            continue
        behind = position + header.size_bytes
        placed = behind <= len(chunk) and not _misplaced(header, chunk, expected, end_offset, behind)
        if placed and crc_of(chunk, position + CRC_COVERS_FROM, behind) == header.crc:
            return position
        position += 1
    return -1


def _base_offset_at(chunk: bytes, position: int) -> int:
    """The base offset in the header of the next batch; -1 if it is not in the chunk."""
    if position < 0 or position + _BASE_OFFSET_BYTES > len(chunk):
        return -1
    return int.from_bytes(chunk[position : position + _BASE_OFFSET_BYTES], "big", signed=True)
