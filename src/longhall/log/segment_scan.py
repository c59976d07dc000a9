"""Scans a whole segment file batch by batch, verifies each, and continues after damage.

A scan yields everything in the file without a gap: `Found` batches and `Damage` between them. The CRC does not cover a
batch's offset and length, so these are compared with the neighbours: offsets ascend, and a batch whose offset is higher
than that of its successor is the wrong one. This module only reads, and does not know which offsets were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from longhall.errors import LonghallError
from longhall.log.index import UINT32_MAX
from longhall.records.batch import HEADER_BYTES, BatchHeader, check_batch, parse_header
from longhall.world.ports import File, Readable

CHUNK_BYTES: Final = 1024 * 1024
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"
_SEARCH_BYTES_MIN: Final = 64 * 1024 * 1024


@final
class Found:
    """A valid batch: complete, with the right checksum."""

    def __init__(self, position: int, header: BatchHeader, batch: bytes) -> None:
        self.position = position
        self.header = header
        self.batch = batch


@final
class Damage:
    """A range of the file without a trustworthy batch.

    The records of the range begin at `first_offset`; `next_offset_hint` is the offset of the next valid batch, or -1
    when none follows.
    """

    def __init__(self, position: int, size_bytes: int, first_offset: int, next_offset_hint: int) -> None:
        self.position = position
        self.size_bytes = size_bytes
        self.first_offset = first_offset
        self.next_offset_hint = next_offset_hint

    def numbers(self) -> list[int]:
        """The damage as jobs report it."""
        return [self.position, self.size_bytes, self.first_offset, self.next_offset_hint]


@final
class AtRest:
    """A file that is read from the disk and not from the page cache."""

    def __init__(self, file: File) -> None:
        self._file = file

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes."""
        return self._file.read_from_disk(position, size)


def scan_segment(
    file: Readable, base_offset: int, size_bytes: int, position: int = 0, expected: int = -1
) -> Iterator[Found | Damage]:
    """Everything in the first `size_bytes` of a segment file, in order; or everything from `position` on, where an
    earlier scan stopped and where offsets from `expected` on follow.
    """
    scan = _Scan(file, base_offset, size_bytes)
    expected = max(expected, base_offset)
    while position < size_bytes:
        found = scan.batch_at(position, expected)
        if found is None or scan.has_wrong_offset(found, expected):
            behind, hint = scan.resume(position, expected)
            yield Damage(position, behind - position, expected, hint)
            position = behind
            continue
        yield found
        position += found.header.size_bytes
        expected = found.header.next_offset


@final
class _Scan:
    """A window of bytes over the file, with the checks of a scan."""

    def __init__(self, file: Readable, base_offset: int, end: int) -> None:
        self._file = file
        self._end = end
        self._offset_max = base_offset + UINT32_MAX
        self._window = b""
        self._window_start = 0

    def batch_at(self, position: int, expected: int) -> Found | None:
        """The batch at `position` if it is complete and its offset is possible."""
        header = self._header_at(position)
        if header is None or not expected <= header.base_offset <= self._offset_max:
            return None
        if header.size_bytes > self._end - position:
            return None
        at = self._load(position, header.size_bytes)
        if at < 0:
            return None
        try:
            check_batch(self._window, at, at + header.size_bytes)
        except LonghallError:
            return None
        return Found(position, header, self._window[at : at + header.size_bytes])

    def has_wrong_offset(self, found: Found, expected: int) -> bool:
        """True if a batch after a gap has a higher offset than its successor: then its own offset is wrong."""
        if found.header.base_offset == expected:
            return False
        successor = self._header_at(found.position + found.header.size_bytes)
        return successor is not None and expected <= successor.base_offset < found.header.next_offset

    def resume(self, position: int, expected: int) -> tuple[int, int]:
        """The position of the next valid batch after `position`, and its offset; the end and -1 if there is none.

        The position that follows from the damaged batch's own length is tried first: a message may contain an apparent
        batch.
        """
        header = self._header_at(position)
        if header is not None and header.size_bytes < self._end - position:
            found = self.batch_at(position + header.size_bytes, expected)
            if found is not None:
                return found.position, found.header.base_offset
        # The cost of failed candidates is bounded, since a hostile message may contain many.
        budget = _SEARCH_BYTES_MIN + 4 * (self._end - position)
        at = position + 1
        while self._end - at >= HEADER_BYTES and budget > 0:
            data = self._file.read_at(at, min(CHUNK_BYTES + HEADER_BYTES, self._end - at))
            if len(data) < HEADER_BYTES:
                break
            index = data.find(_MAGIC, _MAGIC_AT) - _MAGIC_AT
            while 0 <= index <= len(data) - HEADER_BYTES and budget > 0:
                candidate = _plausible(data, index)
                if candidate is not None and expected <= candidate.base_offset <= self._offset_max:
                    found = self.batch_at(at + index, expected)
                    if found is not None:
                        return found.position, found.header.base_offset
                    budget -= min(candidate.size_bytes, self._end - at)
                index = data.find(_MAGIC, index + _MAGIC_AT + 1) - _MAGIC_AT
            at += len(data) - HEADER_BYTES + 1
        return self._end, -1

    def _header_at(self, position: int) -> BatchHeader | None:
        if self._end - position < HEADER_BYTES:
            return None
        at = self._load(position, HEADER_BYTES)
        return None if at < 0 else _plausible(self._window, at)

    def _load(self, position: int, size: int) -> int:
        """Read these bytes into the window and return their index there; -1 if the file ends before."""
        at = position - self._window_start
        if at < 0 or at + size > len(self._window):
            self._window = self._file.read_at(position, min(max(size, CHUNK_BYTES), self._end - position))
            self._window_start = position
            at = 0
        return at if at + size <= len(self._window) else -1


def _plausible(data: bytes, at: int) -> BatchHeader | None:
    try:
        return parse_header(data, at)
    except LonghallError:
        return None
