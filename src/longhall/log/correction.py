"""Corrects one flipped bit in a frame of the write-ahead log, found by its checksum.

The CRC of a frame is linear: a flipped bit changes it by a value, the syndrome, which depends only on the distance of
that bit from the end of the frame. A frame that a crash tore differs from the intended one in whole sectors, not in one
bit. So a frame that is intact but for one bit was written completely and decayed later. Its entries may have been
acknowledged, so the frame must be recovered.

A syndrome may match a bit by accident: for a frame of 64 KiB once in eight thousand. Therefore a corrected frame must
also be consistent: its entries fill it, and every batch in it matches its own checksum.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from longhall.errors import LonghallError
from longhall.log.frames import (
    BATCH,
    BATCH_CONTINUED,
    BATCH_CONTINUES,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC_BYTES,
    Frame,
    decode_frame,
    frame_size,
)
from longhall.records.batch import check_batch

CRC_AT: Final = 4
CRC_COVERS_FROM: Final = 8
SIZE_AT: Final = 8
SIZE_BITS: Final = 32
POSITION_AT: Final = 16

_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, reflected.


def correct_frame(buffer: bytes, at: int, position: int) -> tuple[bytes, int] | None:
    """The frame at `at` for log position `position` with one bit corrected, and the index of the byte that was wrong.

    None if the frame has more than one wrong bit.
    """
    if at + FRAME_HEADER_BYTES > len(buffer):
        return None
    header = bytearray(buffer[at : at + FRAME_HEADER_BYTES])
    known = FRAME_MAGIC_BYTES + bytes(header[CRC_AT:POSITION_AT]) + position.to_bytes(8, "big")
    wrong = [index for index in range(len(known)) if header[index] != known[index]]
    if len(wrong) > 1:
        return None  # Not a frame for this position.
    if wrong:
        index = wrong[0]
        if not _is_one_bit(header[index] ^ known[index]):
            return None
        header[index] = known[index]
        return _checked(bytes(header), buffer, at, position, index)
    return _by_syndrome(buffer, at, position) or _by_size(header, buffer, at, position)


def _by_syndrome(buffer: bytes, at: int, position: int) -> tuple[bytes, int] | None:
    """Correct one bit of the bytes that the checksum covers, or of the checksum itself."""
    size = frame_size(buffer, at, position)
    if size == 0 or at + size > len(buffer):
        return None
    frame = bytearray(buffer[at : at + size])
    stored = int.from_bytes(frame[CRC_AT:CRC_COVERS_FROM], "big")
    syndrome = stored ^ crc32c(memoryview(frame)[CRC_COVERS_FROM:])
    if syndrome == 0:
        return None  # More than one bit is wrong.
    if _is_one_bit(syndrome):
        index = CRC_AT + 3 - (syndrome.bit_length() - 1) // 8
        frame[index] ^= 1 << (syndrome.bit_length() - 1) % 8
        return _whole(bytes(frame), position, index)
    index, bit = find_bit(syndrome, size - CRC_COVERS_FROM)
    if index < 0:
        return None
    index += CRC_COVERS_FROM
    frame[index] ^= 1 << bit
    return _whole(bytes(frame), position, index)


def _by_size(header: bytearray, buffer: bytes, at: int, position: int) -> tuple[bytes, int] | None:
    """Correct one bit of the size field: the checksum was computed over another length."""
    size = int.from_bytes(header[SIZE_AT : SIZE_AT + 4], "big")
    for bit in range(SIZE_BITS):
        other = bytearray(header)
        other[SIZE_AT : SIZE_AT + 4] = (size ^ (1 << bit)).to_bytes(4, "big")
        found = _checked(bytes(other), buffer, at, position, SIZE_AT + 3 - bit // 8)
        if found is not None:
            return found
    return None


def _checked(header: bytes, buffer: bytes, at: int, position: int, index: int) -> tuple[bytes, int] | None:
    """The frame with this header, if it is valid."""
    size = frame_size(header, 0, position)
    if size == 0 or at + size > len(buffer):
        return None
    return _whole(header + buffer[at + FRAME_HEADER_BYTES : at + size], position, index)


def _whole(frame: bytes, position: int, index: int) -> tuple[bytes, int] | None:
    decoded = decode_frame(frame, 0, position)
    if decoded is None or not _batches_are_whole(decoded):
        return None
    return frame, index


def _batches_are_whole(frame: Frame) -> bool:
    for entry in frame.entries:
        if entry.kind == BATCH and not entry.flags & (BATCH_CONTINUED | BATCH_CONTINUES):
            batch = entry.batch()
            try:
                if check_batch(batch, 0, len(batch)).size_bytes != len(batch):
                    return False
            except LonghallError:
                return False
    return True


def find_bit(syndrome: int, size_bytes: int) -> tuple[int, int]:
    """The byte and the bit whose flip changes the CRC-32C of `size_bytes` bytes by `syndrome`; (-1, -1) if none does.

    The syndrome is shifted back byte by byte from the end until it equals that of a single bit.
    """
    table = _make_table()
    backwards = [0] * 256
    for value in range(256):
        backwards[table[value] >> 24] = value
    single = {table[1 << bit]: bit for bit in range(8)}
    for behind in range(size_bytes):
        if syndrome in single:
            return size_bytes - 1 - behind, single[syndrome]
        value = backwards[syndrome >> 24]
        syndrome = ((syndrome ^ table[value]) << 8 | value) & 0xFFFFFFFF
    return -1, -1


def _make_table() -> list[int]:
    table: list[int] = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


def _is_one_bit(difference: int) -> bool:
    return difference != 0 and difference & (difference - 1) == 0
