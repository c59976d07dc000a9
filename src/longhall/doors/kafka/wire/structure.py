"""The fields of one structure in one version, in wire order, and its tagged fields.

A `Structure` is the codec that the others are composed into. It fills a message class through setattr and reads it
through getattr, so message classes need no methods of their own. Tagged fields that this version does not know are
skipped within their announced size; known ones must fill theirs exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from longhall.doors.kafka.wire.codecs import Codec
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.writer import write_varint


@final
class Field:
    """A field that stands at its fixed place."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.name = name
        self.codec = codec


@final
class TaggedField:
    """A field that stands behind its number, and only if it differs from its default."""

    def __init__(self, tag: int, name: str, codec: Codec, default: Any) -> None:
        self.tag = tag
        self.name = name
        self.codec = codec
        self.default = default


class Structure(Codec):
    """One version of one structure."""

    def __init__(self, make: Callable[[], Any], fields: list[Field], tagged: list[TaggedField], flexible: bool) -> None:
        size_min = 1 if flexible else 0
        for field in fields:
            size_min += field.codec.size_min
        super().__init__(max(size_min, 1))
        self.make = make
        self.fields = fields
        self.tagged = tagged
        self.flexible = flexible

    def read(self, reader: Reader) -> Any:
        message = self.make()
        for field in self.fields:
            setattr(message, field.name, field.codec.read(reader))
        if self.flexible:
            self._read_tagged(reader, message)
        return message

    def write(self, out: bytearray, value: Any) -> None:
        if isinstance(value, bytes):  # Encoded before, in this version.
            out += value
            return
        for field in self.fields:
            field.codec.write(out, getattr(value, field.name))
        if self.flexible:
            self._write_tagged(out, value)

    def _read_tagged(self, reader: Reader, message: Any) -> None:
        count = reader.varint()
        if count == 0:
            return
        reader.take_elements(count, 2)
        for _ in range(count):
            tag = reader.varint()
            size = reader.varint()
            begin = reader.skip(size)
            field = self._known(tag)
            if field is not None:
                inside = Reader(reader.buffer, begin, begin + size)
                inside.elements_left = reader.elements_left
                setattr(message, field.name, field.codec.read(inside))
                reader.elements_left = inside.elements_left
                if inside.at != inside.end:
                    raise WireError(f"Tagged field {tag} does not fill its {size} bytes.")

    def _known(self, tag: int) -> TaggedField | None:
        for field in self.tagged:
            if field.tag == tag:
                return field
        return None

    def _write_tagged(self, out: bytearray, message: Any) -> None:
        present = [field for field in self.tagged if getattr(message, field.name) != field.default]
        write_varint(out, len(present))
        for field in present:
            inside = bytearray()
            field.codec.write(inside, getattr(message, field.name))
            write_varint(out, field.tag)
            write_varint(out, len(inside))
            out += inside


class Optional(Codec):
    """A structure that may be null: one byte, negative for null, before it."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(1)
        self.structure = structure

    def read(self, reader: Reader) -> Any:
        return None if reader.int8() < 0 else self.structure.read(reader)

    def write(self, out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        self.structure.write(out, value)
