"""AMQP 0-9-1 field tables: typed names and values, as bytes and as Python values.

    table     long (bytes that follow), then fields
    field     short string (name), type octet, value
    array     long (bytes that follow), then typed values without names

    octet  Python value                       octet  Python value
    t      bool                               S      str; `bytes` if it is not UTF-8 (written back as `x`)
    b B    int, 8 bits                        x      bytes
    s u    int, 16 bits (U reads as s)        A      list
    I i    int, 32 bits                       F      dict
    l L    int, 64 bits, both signed          T      Timestamp, seconds
    f d    float                              V      None
    D      Decimal

Tables that only pass through keep their bytes: `split_table` and `join_table` change single fields without decoding the
others. Reading raises `MalformedTable`, whatever the bytes are; tables nest at most DEPTH_MAX deep.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any, Final, final

DEPTH_MAX: Final = 16
SHORT_BYTES_MAX: Final = 255
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
EMPTY_TABLE: Final = b"\0\0\0\0"

Table = dict[str, Any]

_FIXED: Final = {
    ord("b"): struct.Struct(">b"),
    ord("B"): struct.Struct(">B"),
    ord("s"): struct.Struct(">h"),
    ord("U"): struct.Struct(">h"),
    ord("u"): struct.Struct(">H"),
    ord("I"): struct.Struct(">i"),
    ord("i"): struct.Struct(">I"),
    ord("l"): struct.Struct(">q"),
    ord("L"): struct.Struct(">q"),
    ord("f"): struct.Struct(">f"),
    ord("d"): struct.Struct(">d"),
}
_TYPE_NAMES: Final = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "U": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "A": "array",
    "F": "table",
    "T": "timestamp",
    "V": "void",
}


class MalformedTable(ValueError):
    """Bytes that are no field table, or a value that none can hold."""


@final
class Timestamp(int):
    """Seconds since 1970, as AMQP writes a time."""


# Reading


def decode_table(data: bytes, at: int = 0, depth: int = 0) -> tuple[Table, int]:
    """The table at this position, and where it ends. Of two fields with one name the last counts."""
    table: Table = {}
    end, at = _bounds(data, at, depth)
    while at < end:
        name, at = decode_short(data, at, end)
        table[name], at = _decode_value(data, at, end, depth)
    return table, end


def decode_short(data: bytes, at: int, end: int) -> tuple[str, int]:
    """A short string, and where it ends."""
    if at >= end:
        raise MalformedTable("a name is cut off")
    stop = at + 1 + data[at]
    if stop > end:
        raise MalformedTable("a short string is cut off")
    try:
        return data[at + 1 : stop].decode(), stop
    except UnicodeDecodeError:
        raise MalformedTable("a short string is not UTF-8") from None


def split_table(data: bytes, at: int = 0) -> tuple[list[tuple[str, bytes]], int]:
    """The fields with the bytes of each value, its type included, and where the table ends."""
    fields: list[tuple[str, bytes]] = []
    end, at = _bounds(data, at, 0)
    while at < end:
        name, at = decode_short(data, at, end)
        stop = _skip_value(data, at, end, 0)
        fields.append((name, data[at:stop]))
        at = stop
    return fields, end


def join_table(fields: list[tuple[str, bytes]]) -> bytes:
    """The table of such fields."""
    body = b"".join([encode_short(name) + value for name, value in fields])
    return len(body).to_bytes(4, "big") + body


def decode_value(value: bytes) -> Any:
    """The Python value of a field as `split_table` returns it."""
    return _decode_value(value, 0, len(value), 0)[0]


def type_name(value: bytes) -> str:
    """RabbitMQ's name for the type of such a field."""
    return _TYPE_NAMES.get(chr(value[0]), "unknown") if value else "unknown"


def _bounds(data: bytes, at: int, depth: int) -> tuple[int, int]:
    if depth >= DEPTH_MAX:
        raise MalformedTable(f"tables nest deeper than {DEPTH_MAX}")
    if at + 4 > len(data):
        raise MalformedTable("the size of a table is cut off")
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if end > len(data):
        raise MalformedTable("a table is cut off")
    return end, at + 4


def _long_bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    if at + 4 > end:
        raise MalformedTable("the size of a string is cut off")
    stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if stop > end:
        raise MalformedTable("a string is cut off")
    return data[at + 4 : stop], stop


def _decode_value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    if at >= end:
        raise MalformedTable("a value is cut off")
    kind = data[at]
    at += 1
    if kind == 0x53:  # S
        raw, at = _long_bytes(data, at, end)
        try:
            return raw.decode(), at
        except UnicodeDecodeError:
            return raw, at
    fixed = _FIXED.get(kind)
    if fixed is not None:
        if at + fixed.size > end:
            raise MalformedTable("a number is cut off")
        return fixed.unpack_from(data, at)[0], at + fixed.size
    if kind == 0x46:  # F
        stop, _ = _bounds(data, at, depth + 1)
        if stop > end:
            raise MalformedTable("a table is cut off")
        return decode_table(data, at, depth + 1)
    if kind == 0x41:  # A
        return _decode_array(data, at, end, depth + 1)
    if kind == 0x78:  # x
        return _long_bytes(data, at, end)
    return _decode_rest(data, at, end, kind)


def _decode_rest(data: bytes, at: int, end: int, kind: int) -> tuple[Any, int]:
    if kind == 0x56:  # V
        return None, at
    size = {0x74: 1, 0x54: 8, 0x44: 5}.get(kind)
    if size is None:
        raise MalformedTable(f"unknown field type {kind}")
    if at + size > end:
        raise MalformedTable("a value is cut off")
    if kind == 0x74:  # t
        return data[at] != 0, at + 1
    if kind == 0x54:  # T
        return Timestamp(int.from_bytes(data[at : at + 8], "big")), at + 8
    scale = data[at]
    number = int.from_bytes(data[at + 1 : at + 5], "big", signed=True)
    return Decimal(number).scaleb(-scale), at + 5


def _decode_array(data: bytes, at: int, end: int, depth: int) -> tuple[list[Any], int]:
    stop, at = _bounds(data, at, depth)
    if stop > end:
        raise MalformedTable("an array is cut off")
    values: list[Any] = []
    while at < stop:
        value, at = _decode_value(data, at, stop, depth)
        values.append(value)
    return values, stop


def _skip_value(data: bytes, at: int, end: int, depth: int) -> int:
    """The position after a value. Nested values are checked when they are decoded."""
    return _decode_value(data, at, end, depth)[1]


# Writing


def encode_short(text: str) -> bytes:
    """A short string."""
    raw = text.encode()
    if len(raw) > SHORT_BYTES_MAX:
        raise MalformedTable("a short string has at most 255 bytes")
    return bytes((len(raw),)) + raw


def encode_table(table: Table) -> bytes:
    """The bytes of a table."""
    return join_table([(name, encode_value(value)) for name, value in table.items()])


def encode_value(value: Any) -> bytes:
    """The bytes of a value, its type included."""
    if isinstance(value, str):
        raw = value.encode()
        return b"S" + len(raw).to_bytes(4, "big") + raw
    if isinstance(value, bool):
        return b"t\1" if value else b"t\0"
    if isinstance(value, Timestamp):
        return b"T" + (value & ((1 << 64) - 1)).to_bytes(8, "big")
    if isinstance(value, int):
        return _encode_int(value)
    if value is None:
        return b"V"
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"x" + len(value).to_bytes(4, "big") + value
    if isinstance(value, dict):
        return b"F" + encode_table(value)
    if isinstance(value, list | tuple):
        body = b"".join([encode_value(one) for one in value])
        return b"A" + len(body).to_bytes(4, "big") + body
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    raise MalformedTable(f"a field cannot hold a {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if -INT32_MAX - 1 <= value <= INT32_MAX:
        return b"I" + value.to_bytes(4, "big", signed=True)
    if -INT64_MAX - 1 <= value <= INT64_MAX:
        return b"l" + value.to_bytes(8, "big", signed=True)
    raise MalformedTable(f"{value} does not fit 64 bits")


def _encode_decimal(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise MalformedTable("a decimal must be finite")
    scale = max(0, -exponent)
    number = int(value.scaleb(scale))
    if scale > 255 or not -INT32_MAX - 1 <= number <= INT32_MAX:
        raise MalformedTable(f"{value} does not fit a decimal")
    return b"D" + bytes((scale,)) + number.to_bytes(4, "big", signed=True)


def encode_long(value: int) -> bytes:
    """A 64-bit integer field, whatever its size."""
    return b"l" + value.to_bytes(8, "big", signed=True)
