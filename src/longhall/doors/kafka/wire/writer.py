"""Variable length numbers, counts and short texts, as the tables and the handwritten codecs write them."""

from __future__ import annotations

from struct import Struct
from typing import Final

from longhall.doors.kafka.wire.reader import STRING_BYTES_MAX

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


def write_varint(out: bytearray, value: int) -> None:
    """Seven bits a byte, the lowest first, the top bit set while more follow."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_count(out: bytearray, count: int, flexible: bool) -> None:
    """Of an array or of bytes; -1 is null."""
    if flexible:
        write_varint(out, count + 1)
    else:
        out += _INT32.pack(count)


def write_text(out: bytearray, text: str | None, flexible: bool) -> None:
    """A text or null. A text that is longer than the protocol allows is cut."""
    if text is None:
        out += b"\0" if flexible else b"\xff\xff"
        return
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > STRING_BYTES_MAX:
        encoded = encoded[:STRING_BYTES_MAX].decode("utf-8", "ignore").encode()
    if flexible:
        write_varint(out, len(encoded) + 1)
    else:
        out += _INT16.pack(len(encoded))
    out += encoded
