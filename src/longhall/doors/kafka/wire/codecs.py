"""The encoding of each kind of value: one small class a kind, both directions.

A codec knows its bytes and nothing of versions; `schema` picks the codecs for one version of one message. Every codec
has the fewest bytes it can take (`size_min`), which bounds arrays. Reading raises WireError alone (see `reader`);
writing raises it for values that the encoding cannot express.

    kind          old encoding            compact (flexible) encoding
    string        int16 length, bytes     varint length + 1, bytes
    bytes         int32 length, bytes     varint length + 1, bytes
    array         int32 count, elements   varint count + 1, elements
    null          length or count -1      length or count 0
    structure     fields                  fields, then tagged fields
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.reader import STRING_BYTES_MAX, Reader
from longhall.doors.kafka.wire.writer import write_varint

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_UINT16: Final = Struct(">H")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")
_FLOAT64: Final = Struct(">d")


class Codec:
    """One kind of value."""

    def __init__(self, size_min: int) -> None:
        self.size_min = size_min

    def read(self, reader: Reader) -> Any:
        raise NotImplementedError

    def write(self, out: bytearray, value: Any) -> None:
        raise NotImplementedError


class Int8(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int8()

    def write(self, out: bytearray, value: Any) -> None:
        out += _INT8.pack(value)


class Int16(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int16()

    def write(self, out: bytearray, value: Any) -> None:
        out += _INT16.pack(value)


class Uint16(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int16() & 0xFFFF

    def write(self, out: bytearray, value: Any) -> None:
        out += _UINT16.pack(value)


class Int32(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int32()

    def write(self, out: bytearray, value: Any) -> None:
        out += _INT32.pack(value)


class Uint32(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int32() & 0xFFFFFFFF

    def write(self, out: bytearray, value: Any) -> None:
        out += _UINT32.pack(value)


class Int64(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int64()

    def write(self, out: bytearray, value: Any) -> None:
        out += _INT64.pack(value)


class Float64(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.float64()

    def write(self, out: bytearray, value: Any) -> None:
        out += _FLOAT64.pack(value)


class Boolean(Codec):
    def read(self, reader: Reader) -> Any:
        return reader.int8() != 0

    def write(self, out: bytearray, value: Any) -> None:
        out.append(1 if value else 0)


class Uuid(Codec):
    """Sixteen bytes as they are."""

    def read(self, reader: Reader) -> Any:
        return reader.slice(16)

    def write(self, out: bytearray, value: Any) -> None:
        if len(value) != 16:
            raise WireError(f"An id has 16 bytes, not {len(value)}.")
        out += value


class Length(Codec):
    """The length before a string, bytes or an array; -1 for null where the version allows it."""

    def __init__(self, size_min: int, nullable: bool) -> None:
        super().__init__(size_min)
        self.nullable = nullable

    def check_null(self, at: int) -> None:
        if not self.nullable:
            raise WireError(f"Null at {at}, where this version has none.")


class Length16(Length):
    def read(self, reader: Reader) -> int:
        size = reader.int16()
        if size < 0:
            self.check_null(reader.at)
            return -1
        return size

    def write(self, out: bytearray, value: int) -> None:
        out += _INT16.pack(value)


class Length32(Length):
    def read(self, reader: Reader) -> int:
        size = reader.int32()
        if size < 0:
            self.check_null(reader.at)
            return -1
        return size

    def write(self, out: bytearray, value: int) -> None:
        out += _INT32.pack(value)


class LengthCompact(Length):
    def read(self, reader: Reader) -> int:
        size = reader.varint() - 1
        if size < 0:
            self.check_null(reader.at)
        return size

    def write(self, out: bytearray, value: int) -> None:
        write_varint(out, value + 1)


class Sized(Codec):
    """A value behind its length."""

    def __init__(self, length: Length) -> None:
        super().__init__(length.size_min)
        self.length = length

    def write_null(self, out: bytearray) -> None:
        if not self.length.nullable:
            raise WireError("This version has no null here.")
        self.length.write(out, -1)


class String(Sized):
    def read(self, reader: Reader) -> Any:
        size: int = self.length.read(reader)
        return None if size < 0 else reader.text(size)

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            self.write_null(out)
            return
        encoded: bytes = value.encode("utf-8")
        if len(encoded) > STRING_BYTES_MAX:
            raise WireError(f"A string of {len(encoded)} bytes is longer than the protocol allows.")
        self.length.write(out, len(encoded))
        out += encoded


class Data(Sized):
    """Bytes, and record batches: to this layer they are the same."""

    def read(self, reader: Reader) -> Any:
        size: int = self.length.read(reader)
        return None if size < 0 else reader.slice(size)

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            self.write_null(out)
            return
        self.length.write(out, len(value))
        out += value


class Array(Sized):
    def __init__(self, length: Length, element: Codec) -> None:
        super().__init__(length)
        self.element = element

    def read(self, reader: Reader) -> Any:
        count: int = self.length.read(reader)
        if count < 0:
            return None
        element = self.element
        reader.take_elements(count, element.size_min)
        values: list[Any] = []
        for _ in range(count):
            values.append(element.read(reader))
        return values

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            self.write_null(out)
            return
        self.length.write(out, len(value))
        element = self.element
        for each in value:
            element.write(out, each)
