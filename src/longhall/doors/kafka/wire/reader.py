"""A cursor over bytes from the network that never moves past their end.

Each length is compared with the bytes that are left before anything is allocated, every count with the bytes that so
many elements need at least, and all elements of one message draw on one budget, so that a small frame cannot become a
large heap. Bytes that do not fit raise WireError and nothing else.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, final

from mypy_extensions import i64

from longhall.doors.kafka.wire.malformed import WireError

ELEMENTS_MAX: Final = 1_000_000  # In all arrays of one message together.
STRING_BYTES_MAX: Final = 0x7FFF  # The old encoding has no larger length; the compact one must not use one.

_FLOAT64: Final = Struct(">d")


@final
class Reader:
    """`at` is the position of the next byte, `end` that of the first byte behind the message."""

    def __init__(self, buffer: bytes, at: int, end: int) -> None:
        if at < 0 or end > len(buffer) or at > end:
            raise WireError("The message begins outside its frame.")
        self.buffer = buffer
        self.at = at
        self.end = end
        self.elements_left: int = ELEMENTS_MAX

    def skip(self, size: int) -> int:
        """Move past `size` bytes and return where they begin."""
        at = self.at
        if size < 0 or size > self.end - at:
            raise WireError(f"{size} bytes are announced at {at}, but only {self.end - at} follow.")
        self.at = at + size
        return at

    def int8(self) -> int:
        value: i64 = self.buffer[self.skip(1)]
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        buffer = self.buffer
        at: i64 = self.skip(2)
        value: i64 = buffer[at] << 8 | buffer[at + 1]
        return value - 0x10000 if value > 0x7FFF else value

    def int32(self) -> int:
        at: i64 = self.skip(4)
        value: i64 = self._uint32(at)
        return value - 0x100000000 if value > 0x7FFFFFFF else value

    def int64(self) -> int:
        at: i64 = self.skip(8)
        high: i64 = self._uint32(at)
        low: i64 = self._uint32(at + 4)
        if high > 0x7FFFFFFF:
            high -= 0x100000000  # Signed before it is shifted: compiled and plain code must agree.
        return high << 32 | low

    def _uint32(self, at: i64) -> i64:
        buffer = self.buffer
        byte0: i64 = buffer[at]
        byte1: i64 = buffer[at + 1]
        byte2: i64 = buffer[at + 2]
        byte3: i64 = buffer[at + 3]
        return byte0 << 24 | byte1 << 16 | byte2 << 8 | byte3

    def float64(self) -> float:
        return float(_FLOAT64.unpack_from(self.buffer, self.skip(8))[0])

    def varint(self) -> int:
        """An unsigned number of at most 32 bits, seven of them a byte, the lowest first."""
        at: i64 = self.at
        end: i64 = self.end
        value: i64 = 0
        shift: i64 = 0
        while at < end and shift < 35:
            byte: i64 = self.buffer[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                self.at = at
                return value
            shift += 7
        raise WireError(f"The variable length number at {self.at} does not end within 32 bits.")

    # Null is -1 in the old encoding and 0 in the compact one; both are -1 here.

    def string_size(self, flexible: bool) -> int:
        return self.varint() - 1 if flexible else self.int16()

    def size(self, flexible: bool) -> int:
        return self.varint() - 1 if flexible else self.int32()

    def skip_tagged(self) -> None:
        """Move past tagged fields, whatever they are."""
        count = self.varint()
        if count != 0:
            self.take_elements(count, 2)
            for _ in range(count):
                self.varint()
                self.skip(self.varint())

    def slice(self, size: int) -> bytes:
        at = self.skip(size)
        return self.buffer[at : at + size]

    def text(self, size: int) -> str:
        if size > STRING_BYTES_MAX:
            raise WireError(f"A string of {size} bytes is longer than the protocol allows.")
        taken = self.slice(size)
        try:
            return taken.decode("utf-8")
        except UnicodeDecodeError:
            raise WireError(f"The string that ends at {self.at} is not UTF-8.") from None

    def count(self, flexible: bool, size_min: int) -> int:
        """The number of elements of an array that may not be null; each takes `size_min` bytes at least."""
        count = self.size(flexible)
        if count < 0:
            raise WireError(f"Null at {self.at}, where an array is required.")
        self.take_elements(count, size_min)
        return count

    def take_elements(self, count: int, size_min: int) -> None:
        """Refuse an array that its bytes cannot hold, before anything is allocated for it."""
        if count > (self.end - self.at) // size_min:
            raise WireError(f"{count} elements are announced at {self.at}, but only {self.end - self.at} bytes follow.")
        if count > self.elements_left:
            raise WireError(f"More than {ELEMENTS_MAX} elements in one message.")
        self.elements_left -= count
