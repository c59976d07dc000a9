"""Durations and sizes as text for people: "10s", "2 weeks", "256 MiB".

Inside the node a duration is a whole number of milliseconds and a size a whole number of bytes. Text is parsed only at
the edge (settings, environment, flags). A bare number is in the unit that the name of a setting ends with; where the
name has no unit, as with most options of the command line, a number needs one. Nothing is rounded: "0.5 ms" is refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_WEEK_MS: Final = 7 * _DAY_MS

_DURATIONS: Final[dict[str, int]] = {
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), _SECOND_MS),
    **dict.fromkeys(("m", "min", "minute", "minutes"), _MINUTE_MS),
    **dict.fromkeys(("h", "hour", "hours"), _HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), _DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), _WEEK_MS),
}

# As in most tools: KiB is 1024, KB is 1000, and a bare letter means the binary unit.
_SIZES: Final[dict[str, int]] = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **{unit: 1024**power for power, letter in enumerate("kmgt", 1) for unit in (letter, letter + "ib")},
    **{letter + "b": 1000**power for power, letter in enumerate("kmgt", 1)},
}

_DURATION_WORDS: Final = (
    (_WEEK_MS, "weeks"),
    (_DAY_MS, "days"),
    (_HOUR_MS, "h"),
    (_MINUTE_MS, "min"),
    (_SECOND_MS, "s"),
)
_SIZE_WORDS: Final = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))

_FOREVER: Final = ("unlimited", "forever", "-1")


def parse_duration_ms(text: str, *, unit_required: bool = False) -> int:
    """A duration in milliseconds. Raises ValueError with examples of valid ones."""
    if unit_required:
        _require_unit(text, ("s", "ms"))
    return _parse(text, _DURATIONS, "a duration", '"500 ms", "10s", "2 weeks"')


def parse_size_bytes(text: str, *, unit_required: bool = False) -> int:
    """A size in bytes. Raises ValueError with examples of valid ones."""
    if unit_required:
        _require_unit(text, ("KiB", "B"))
    return _parse(text, _SIZES, "a size", '"64 KiB", "256 MiB", "1 GB"')


def _require_unit(text: str, units: tuple[str, str]) -> None:
    match = _AMOUNT.fullmatch(text)
    if match is not None and not match[2] and Decimal(match[1]) != 0:
        raise ValueError(f"{text!r} has no unit; write {match[1]}{units[0]} or {match[1]}{units[1]}")


def show_duration(amount_ms: int) -> str:
    """The shortest exact text for a duration; the inverse of `parse_duration_ms`."""
    words = _show(amount_ms, _DURATION_WORDS, "ms")
    return words.removesuffix("s") if words in ("1 weeks", "1 days") else words


def show_size(amount_bytes: int) -> str:
    """The shortest exact text for a size; the inverse of `parse_size_bytes`."""
    return _show(amount_bytes, _SIZE_WORDS, "B")


def _parse(text: str, units: dict[str, int], noun: str, examples: str) -> int:
    if text.strip().lower() in _FOREVER:
        return -1
    match = _AMOUNT.fullmatch(text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not {noun}; write it like {examples}")
    amount = Decimal(match[1]) * factor
    if amount != int(amount):
        raise ValueError(f"{text!r} is not a whole number of {'milliseconds' if units is _DURATIONS else 'bytes'}")
    return int(amount)


def _show(amount: int, units: tuple[tuple[int, str], ...], smallest: str) -> str:
    if amount < 0:
        return "unlimited"
    for factor, unit in units:
        if amount >= factor and amount % factor == 0:
            return f"{amount // factor} {unit}"
    return f"{amount} {smallest}"
