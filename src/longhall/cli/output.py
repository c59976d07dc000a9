"""The output of commands: a table for people, plain columns for pipes, JSON for programs.

Results go to standard output and everything else to standard error. On a terminal a table has rules and colours; into a
pipe go plain columns, never coloured and never wrapped, so that grep, awk and diff see whole lines.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table


_NO_TITLES: Final[Mapping[str, str]] = {}


class Format(enum.StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"


class Column(NamedTuple):
    """One column: the key of its value in a row, its title, its alignment, and whether it is for people alone."""

    key: str
    title: str
    right: bool = False
    people: bool = False


def columns(keys: str, right: str = "", titles: Mapping[str, str] = _NO_TITLES, people: str = "") -> tuple[Column, ...]:
    """The columns of a table, by their keys with spaces between.

    The columns in `right` are aligned to the right. A title is the key in words unless `titles` has another one. The
    columns in `people` say in words what other keys of the row have as values; JSON leaves them out.
    """
    numbers, words = right.split(), people.split()
    return tuple(
        Column(key, titles.get(key, key.replace("_", " ")), key in numbers, key in words) for key in keys.split()
    )


Row = Mapping[str, object]


def show_rows(rows: Sequence[Row], columns: Sequence[Column], output: Format, nothing: str) -> None:
    """Print rows. A table has the columns; without rows it is the note `nothing`. JSON has every key of a row, except
    those in words for people.
    """
    if output is Format.JSON:
        show_json(values_of(rows, columns))
    elif not rows:
        print_note(nothing)
    elif sys.stdout.isatty():
        _show_ruled(rows, columns)
    else:
        _show_plain(rows, columns)


def values_of(rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """The rows without what is in words for people."""
    words = {column.key for column in columns if column.people}
    return [{key: value for key, value in row.items() if key not in words} for row in rows]


def show_facts(facts: Row, output: Format) -> None:
    """Print one object: JSON, or a line for each fact."""
    if output is Format.JSON:
        show_json(facts)
        return
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        print(f"{key.replace('_', ' '):<{width}}  {text_of(value)}")


def show_json(value: object) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=text_of))


def show_outcome(facts: Row, sentence: str, output: Format) -> None:
    """Report what was done: facts as JSON, or a sentence for people."""
    if output is Format.JSON:
        show_json(facts)
    else:
        print_note(sentence)


def short_size(size_bytes: int) -> str:
    """A size in about three digits."""
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def short_age(age_ms: int) -> str:
    """A time span in its two largest units."""
    if age_ms < 1000:
        return f"{age_ms} ms" if age_ms > 0 else "-"
    left = age_ms // 1000
    words: list[str] = []
    for seconds, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= seconds or words:
            words.append(f"{left // seconds} {unit}")
            left %= seconds
    return " ".join(word for word in words[:2] if not word.startswith("0 "))


def print_note(message: str) -> None:
    """Print a line for people, on standard error."""
    print(message, file=sys.stderr)


def text_of(value: object) -> str:
    """The text of a value in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(each) for each in value) or "-"
    text = str(value)
    # A name may hold anything that a client once sent; what could steer the terminal is shown, not done.
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _show_plain(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    cells = [[column.title.upper() for column in columns]]
    cells += [[text_of(row.get(column.key)) for column in columns] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    for line in cells:
        aligned = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        print("  ".join(aligned).rstrip())


def _show_ruled(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    from rich.console import Console

    Console().print(render_rows(rows, columns))


def render_rows(rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    """A table with rules for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        # Text, so that brackets in a name are not taken for markup.
        table.add_row(*(Text(text_of(row.get(column.key))) for column in columns))
    return table
