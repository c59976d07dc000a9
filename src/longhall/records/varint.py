"""Variable-length integers of record bodies and flexible requests.

Seven bits per byte, the lowest first; the high bit says that more follow. Signed ones are zigzag encoded: the lowest
bit is the sign. Readers take `(buffer, offset)` and return `(value, size)`; they refuse numbers that run past the
buffer or do not fit their type, so no value ever wraps in compiled code.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from longhall.errors import Code, LonghallError

UINT32_MAX: Final = 0xFFFFFFFF
INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def read_unsigned(buffer: bytes, offset: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    at: i64 = offset
    end: i64 = len(buffer)
    if at < 0 or at >= end:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a varint runs past the end")
    byte: i64 = buffer[at]
    if byte < 0x80:
        return byte, 1
    value: i64 = byte & 0x7F
    shift: i64 = 7
    at += 1
    while shift < 35:
        if at >= end:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a varint runs past the end")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > UINT32_MAX:
                break
            return value, at - offset
        shift += 7
    raise LonghallError(Code.CORRUPT_MESSAGE, "a varint does not fit 32 bits")


def read_signed(buffer: bytes, offset: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits."""
    value, size = read_unsigned(buffer, offset)
    raw: i64 = value
    return (raw >> 1) ^ -(raw & 1), size


def read_signed_long(buffer: bytes, offset: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits."""
    at: i64 = offset
    end: i64 = len(buffer)
    if at < 0 or at >= end:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a varint runs past the end")
    byte: i64 = buffer[at]
    # The sign is separate from the other 63 bits, so that the sum below never needs a 64th.
    negative: i64 = byte & 1
    magnitude: i64 = (byte & 0x7F) >> 1
    shift: i64 = 6
    at += 1
    while byte >= 0x80:
        if at >= end:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a varint runs past the end")
        byte = buffer[at]
        at += 1
        if shift >= 62 and byte > 1:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a varint does not fit 64 bits")
        magnitude |= (byte & 0x7F) << shift
        shift += 7
    if negative != 0:
        return -1 - magnitude, at - offset
    return magnitude, at - offset


def append_unsigned(out: bytearray, value: int) -> None:
    """Write an unsigned varint of at most 32 bits."""
    if value < 0 or value > UINT32_MAX:
        raise LonghallError(Code.INVALID_REQUEST, "a number does not fit an unsigned varint")
    _append(out, value)


def append_signed(out: bytearray, value: int) -> None:
    """Write a zigzag varint of at most 32 bits."""
    if value < INT32_MIN or value > INT32_MAX:
        raise LonghallError(Code.INVALID_REQUEST, "a number does not fit a varint")
    _append(out, (value << 1) if value >= 0 else -(value << 1) - 1)


def append_signed_long(out: bytearray, value: int) -> None:
    """Write a zigzag varint of at most 64 bits."""
    if value < INT64_MIN or value > INT64_MAX:
        raise LonghallError(Code.INVALID_REQUEST, "a number does not fit a long varint")
    _append(out, (value << 1) if value >= 0 else -(value << 1) - 1)


def _append(out: bytearray, value: int) -> None:
    if value < 0x80:  # True for most fields of a record.
        out += _ONE_BYTE[value]
        return
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
