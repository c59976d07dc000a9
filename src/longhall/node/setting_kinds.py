"""The kinds of settings: numbers with a unit and addresses, with their bounds and their meaning.

`extra` of an annotation has the kind (duration, size, address), for parsing and printing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Meta

DURATION: Final = "duration"
SIZE: Final = "size"
ADDRESS: Final = "address"

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE
YEAR: Final = 365 * DAY


def duration(meaning: str, least: int = 0, most: int = 100 * YEAR) -> Meta:
    """A time in milliseconds."""
    return Meta(ge=least, le=most, description=meaning, extra={"kind": DURATION})


def size(meaning: str, least: int = 0, most: int = 1 << 60) -> Meta:
    """A number of bytes."""
    return Meta(ge=least, le=most, description=meaning, extra={"kind": SIZE})


def address(meaning: str) -> Meta:
    """HOST:PORT."""
    return Meta(min_length=3, max_length=300, description=meaning, extra={"kind": ADDRESS})
