"""`longhall consume`: print messages as lines."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.completion import complete_topic
from longhall.cli.exits import CommandError, Exit
from longhall.cli.options import AddressOption, ProfileOption
from longhall.cli.produce import LineFormat, LineOutputOption, unescape

if TYPE_CHECKING:
    from longhall.cli.message_lines import LineStyle
    from longhall.client.hall import Hall
    from longhall.client.reader import Consumed
    from longhall.queues.filters import Filter


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="start, end, an offset, -10 for the last ten, or a time like 2026-01-31T12:00 or '2h ago'.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Print messages as they arrive, from the end unless --from says otherwise."
        ),
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-P", min=0, help="Only these; repeatable.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Read as a member of this group from its committed offsets, and commit."),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print keys before values.")] = False,
    key_separator: Annotated[str, typer.Option("--key-separator", "-K", help="Between key and value.")] = "\\t",
    headers: Annotated[bool, typer.Option("--headers", "-H", help="Print headers.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", "-t", help="Print timestamps.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Print PARTITION:OFFSET.")] = False,
    filter: Annotated[
        str,
        typer.Option(help="Only messages whose headers match: \"city = 'Oslo' AND price > 10\", or a policy in JSON."),
    ] = "",
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Show messages of open and aborted transactions as well.")
    ] = False,
    address: AddressOption = None,
    profile: ProfileOption = None,
    output: LineOutputOption = LineFormat.TEXT,
) -> None:
    """Print messages up to the current end, or as they arrive (--follow)."""
    from longhall.cli.consumer import ConsumeOptions, consume_as_member, consume_partitions
    from longhall.cli.kafka_client import call_hall
    from longhall.cli.message_lines import LineStyle
    from longhall.cli.start_position import parse_start_position

    if group is not None and partition:
        raise CommandError("a group assigns partitions itself: leave --partition or --group out", Exit.USAGE)
    place = parse_start_position(start or ("end" if follow and group is None else "start"), int(time.time() * 1000))
    options = ConsumeOptions(topics, place, follow, count, partition, uncommitted, filter, _compiled(filter))
    style = LineStyle(unescape(key_separator) if keys else None, headers, timestamps, offsets)
    write = _LineWriter(output, style)

    async def ask(hall: Hall) -> None:
        if group is None:
            await consume_partitions(hall, options, write)
        else:
            await consume_as_member(hall, group, options, write)

    call_hall(address, profile, ask)


def _compiled(filter: str) -> Filter | None:
    """Compile the filter before connecting, so that an error in it is reported first."""
    from longhall.errors import LonghallError
    from longhall.queues.selector import compile_filter

    try:
        return compile_filter(filter) if filter else None
    except LonghallError as error:
        raise CommandError(str(error), Exit.USAGE) from None


class _LineWriter:
    """Writes records to standard output and flushes them before their offsets are committed."""

    def __init__(self, output: LineFormat, style: LineStyle) -> None:
        from longhall.cli.message_lines import json_line, printable, text_line

        self._json = json_line if output is LineFormat.JSON else None
        self._text = text_line
        self._style = style
        self._printable = printable if sys.stdout.isatty() and self._json is None else None

    def __call__(self, consumed: list[Consumed]) -> None:
        out = sys.stdout.buffer
        for topic, partition, record in consumed:
            if self._json is not None:
                line = self._json(record, topic, partition)
            else:
                line = self._text(record, partition, self._style)
            out.write(line if self._printable is None else self._printable(line))
        out.flush()
