"""The log events of the directory: part of the catalogue. The meaning of a released event never changes."""

from __future__ import annotations

import msgspec


class DirectoryEntry(msgspec.Struct, array_like=True, frozen=True):
    """One entry: a kind, a name that is unique within the kind, and a value that only the owner of the kind reads."""

    kind: str
    name: str
    value: bytes


class DirectoryChanged(msgspec.Struct, kw_only=True, frozen=True, tag_field="event", tag="directory-changed"):
    """Entries were put, in place of those of the same kind and name, and others removed; all of it or nothing."""

    put: list[DirectoryEntry]
    removed: list[tuple[str, str]]  # By kind and name.
