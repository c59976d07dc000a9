"""Message classes that declare the encoding of their fields, and the codecs that are made from them.

A message is declared as a table, one line a field: its type for the reader, its wire kind, the versions that carry it,
the versions in which it may be null, its default, its tag number. `structure_of` turns the table into a codec for one
version the first time that version is seen; nothing is parsed or built at import.

    class HeartbeatRequest(Message, flexible=4):
        group_id: str = string("0+")
        generation_id: int = int32("0+")
        member_id: str = string("0+")
        group_instance_id: str | None = string("3+", null="3+", default=None)
"""

from __future__ import annotations

from struct import error as StructError
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform, final

import msgspec

from longhall.doors.kafka.wire import codecs
from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.structure import Field, Optional, Structure, TaggedField

NO_ID: Final = bytes(16)
NEVER_FLEXIBLE: Final = 1 << 15
_SCALARS: Final[dict[str, codecs.Codec]] = {
    "int8": codecs.Int8(1),
    "int16": codecs.Int16(2),
    "uint16": codecs.Uint16(2),
    "int32": codecs.Int32(4),
    "uint32": codecs.Uint32(4),
    "int64": codecs.Int64(8),
    "float64": codecs.Float64(8),
    "boolean": codecs.Boolean(1),
    "uuid": codecs.Uuid(16),
}


@final
class Spec:
    """One line of a message's table, as written; versions stay text until a plan needs them."""

    __slots__ = ("default", "kind", "null", "of", "tag", "versions")

    def __init__(self, kind: str, versions: str, null: str, default: Any, tag: int | None, of: Any = None) -> None:
        self.kind = kind
        self.versions = versions
        self.null = null
        self.default = default
        self.tag = tag
        self.of = of  # Of an array or structure: a message class, or the kind of a scalar.


def int8(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("int8", versions, "", default, tag)


def int16(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("int16", versions, "", default, tag)


def uint16(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("uint16", versions, "", default, tag)


def int32(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("int32", versions, "", default, tag)


def uint32(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("uint32", versions, "", default, tag)


def int64(versions: str, *, default: int = 0, tag: int | None = None) -> Any:
    return Spec("int64", versions, "", default, tag)


def float64(versions: str, *, default: float = 0.0, tag: int | None = None) -> Any:
    return Spec("float64", versions, "", default, tag)


def boolean(versions: str, *, default: bool = False, tag: int | None = None) -> Any:
    return Spec("boolean", versions, "", default, tag)


def uuid(versions: str, *, tag: int | None = None) -> Any:
    return Spec("uuid", versions, "", NO_ID, tag)


def string(versions: str, *, null: str = "", default: str | None = "", tag: int | None = None) -> Any:
    return Spec("string", versions, null, default, tag)


def data(versions: str, *, null: str = "", default: bytes | None = b"", tag: int | None = None) -> Any:
    """Bytes, or record batches."""
    return Spec("data", versions, null, default, tag)


def array(
    versions: str, of: type[Message] | str, *, null: str = "", default: tuple[()] | None = (), tag: int | None = None
) -> Any:
    """Many of a message class, or of a scalar kind given by its name."""
    return Spec("array", versions, null, None if default is None else [], tag, of)


def structure(versions: str, of: type[Message], *, null: str = "", tag: int | None = None) -> Any:
    """One of a message class; without a value it is null if it may be, else the class's defaults."""
    return Spec("structure", versions, null, None if null else msgspec.field(default_factory=of), tag, of)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8, int16, uint16, int32, uint32, int64, float64, boolean, uuid, string, data, array, structure,
    ),
)  # fmt: skip
class MessageType(msgspec.StructMeta):
    """Keeps a class's table aside and leaves the plain defaults to msgspec."""

    TABLE: dict[str, Spec]
    FLEXIBLE: int

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], flexible: int = NEVER_FLEXIBLE
    ) -> MessageType:
        table = {name: value for name, value in namespace.items() if isinstance(value, Spec)}
        namespace.update({name: spec.default for name, spec in table.items()})
        made = super().__new__(mcls, name, bases, namespace, kw_only=True, gc=False)
        made.TABLE = table
        made.FLEXIBLE = flexible
        return made


class Message(msgspec.Struct, metaclass=MessageType):
    """Base of all messages and of the structures inside them."""

    TABLE: ClassVar[dict[str, Spec]]
    FLEXIBLE: ClassVar[int]


_M = TypeVar("_M", bound=Message)
_plans: dict[tuple[type[Message], int], Structure] = {}


def decode(cls: type[_M], version: int, buffer: bytes, at: int = 0) -> tuple[_M, int]:
    """One message, and the position behind it. Raises WireError, whatever the bytes are."""
    plan = _plans.get((cls, version)) or structure_of(cls, version)
    reader = Reader(buffer, at, len(buffer))
    message: _M = plan.read(reader)
    return message, reader.at


def encode(message: Message, version: int) -> bytes:
    """The message in this version, without the fields that the version does not have."""
    return bytes(encode_into(bytearray(), message, version))


def encode_into(out: bytearray, message: Message, version: int) -> bytearray:
    """Append the encoded message to `out`."""
    plan = _plans.get((type(message), version)) or structure_of(type(message), version)
    try:
        plan.write(out, message)
    except (StructError, UnicodeEncodeError) as failure:
        raise WireError(f"{type(message).__name__} {version} cannot carry a value: {failure}") from failure
    return out


def encode_element(cls: type[Message], field: str, element: Message, version: int) -> bytes:
    """One element of an array of a message, encoded in this version. The array accepts the bytes in place of it."""
    found = next(one for one in structure_of(cls, version).fields if one.name == field)
    assert isinstance(found.codec, codecs.Array)
    out = bytearray()
    found.codec.element.write(out, element)
    return bytes(out)


def structure_of(cls: type[Message], version: int) -> Structure:
    """The codec of a message in one version, made once."""
    key = (cls, version)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _build(cls, version, version >= cls.FLEXIBLE)
    return plan


def within(versions: str, version: int) -> bool:
    """True if "3+", "2-5" or "4" includes this version; the empty text includes none."""
    if not versions:
        return False
    if versions[-1] == "+":
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def _build(cls: type[Message], version: int, flexible: bool) -> Structure:
    fields: list[Field] = []
    tagged: list[TaggedField] = []
    for name, spec in cls.TABLE.items():
        if not within(spec.versions, version):
            continue
        codec = _codec(spec, version, flexible)
        if spec.tag is None:
            fields.append(Field(name, codec))
        else:
            tagged.append(TaggedField(spec.tag, name, codec, getattr(cls(), name)))
    tagged.sort(key=lambda field: field.tag)
    return Structure(cls, fields, tagged, flexible)


def _codec(spec: Spec, version: int, flexible: bool) -> codecs.Codec:
    nullable = within(spec.null, version)
    if spec.kind == "array":
        element = _element(spec.of, version, flexible)
        return codecs.Array(_length(flexible, nullable), element)
    if spec.kind == "structure":
        inner = _build(spec.of, version, flexible)
        return Optional(inner) if nullable else inner
    return _scalar(spec.kind, flexible, nullable)


def _element(of: type[Message] | str, version: int, flexible: bool) -> codecs.Codec:
    if isinstance(of, str):
        return _scalar(of, flexible, nullable=False)
    return _build(of, version, flexible)


def _scalar(kind: str, flexible: bool, nullable: bool) -> codecs.Codec:
    if kind == "string":
        return codecs.String(_length(flexible, nullable) if flexible else codecs.Length16(2, nullable))
    if kind == "data":
        return codecs.Data(_length(flexible, nullable))
    return _SCALARS[kind]


def _length(flexible: bool, nullable: bool) -> codecs.Length:
    return codecs.LengthCompact(1, nullable) if flexible else codecs.Length32(4, nullable)
