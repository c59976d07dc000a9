"""CRC32C over a range of bytes, the checksum of everything stored."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

_COPIED_BYTES_MAX: Final = 4096  # Up to this size a copy is cheaper than the two views that would avoid it.


def crc_of(buffer: bytes, start: int, end: int) -> int:
    """CRC32C of `buffer[start:end]`."""
    if end - start <= _COPIED_BYTES_MAX:
        return crc32c(buffer[start:end])
    return crc32c(memoryview(buffer)[start:end])


def crc_of_parts(*parts: bytes | bytearray | memoryview) -> int:
    """CRC32C of the concatenation of several buffers."""
    crc = 0
    for part in parts:
        crc = crc32c(part, crc)
    return crc
