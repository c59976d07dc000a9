"""`longhall produce`: lines of files or of standard input as messages."""

from __future__ import annotations

import enum
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.completion import complete_topic
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import KafkaOptions
from longhall.cli.output import Format, print_note, show_json

if TYPE_CHECKING:
    from longhall.cli.line_producer import Outcome
    from longhall.cli.message_lines import LineStyle, Message
    from longhall.client.hall import Hall


class LineFormat(enum.StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


LineOutputOption = Annotated[LineFormat, typer.Option("--output", "-o", help="text, or one JSON object a line.")]


class Compression(enum.StrEnum):
    """The compression of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(enum.StrEnum):
    """Which replicas must acknowledge."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


ACKS: Final = {Acks.ALL: -1, Acks.LEADER: 1, Acks.NONE: 0}


@with_option_groups
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)],
    options: KafkaOptions,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Read these instead of standard input.")
    ] = None,
    line_format: Annotated[
        LineFormat, typer.Option("--format", "-f", help="text, or json as `consume -o json` writes it.")
    ] = LineFormat.TEXT,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="The separator between key and value.")
    ] = None,
    headers: Annotated[
        bool, typer.Option("--headers", help="Lines begin with headers, NAME=VALUE,NAME=VALUE and a tab.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for every message; repeatable."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every message that has none.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-P", min=0, help="The partition; by default the key decides.")
    ] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Send JSON lines to the partition that they name.")
    ] = False,
    compression: Annotated[Compression, typer.Option("--compression", "-z")] = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(help="Wait until it is durable (all), until the leader has it (1), or not at all (0).")
    ] = Acks.ALL,
) -> None:
    """Produce a message for every line of the files, or of standard input."""
    from longhall.cli.line_producer import produce_lines
    from longhall.cli.message_lines import LineStyle, parse_header, parse_json_line, parse_text_line
    from longhall.client.producer import Options
    from longhall.records import compression as codecs

    style = LineStyle(unescape(key_separator), headers)
    _check_style(line_format, style)
    fixed = tuple(parse_header(text) for text in header or [])
    producer_options = Options(
        acks=ACKS[acks], idempotent=acks is Acks.ALL, compression=getattr(codecs, compression.name)
    )
    check_files(files or [])

    def understand(line: bytes, number: int) -> Message:
        message = (
            parse_json_line(line, number) if line_format is LineFormat.JSON else parse_text_line(line, style, number)
        )
        return message._replace(
            key=message.key if message.key is not None or key is None else key.encode(),
            headers=message.headers + fixed,
            partition=message.partition if partition is None and keep_partitions else partition,
        )

    async def ask(hall: Hall) -> Outcome:
        return await produce_lines(hall, topic, files or [], understand, producer_options)

    started = time.monotonic()
    outcome = options.call_hall(ask)
    _report(outcome, time.monotonic() - started, options.output)


def _report(outcome: Outcome, seconds: float, output: Format) -> None:
    if output is Format.JSON:
        show_json({"topic": outcome.topic, "messages": outcome.messages, "bytes": outcome.bytes, "seconds": seconds})
    else:
        print_note(f"{outcome.messages} message{'s' * (outcome.messages != 1)} produced to {outcome.topic}")
    if outcome.failure is not None:
        raise CommandError(outcome.failure)


def _check_style(line_format: LineFormat, style: LineStyle) -> None:
    if line_format is LineFormat.JSON and (style.key_separator is not None or style.with_headers):
        raise CommandError(
            "a JSON line has its own key and headers: leave --key-separator and --headers out", Exit.USAGE
        )
    if style.key_separator == b"":
        raise CommandError("--key-separator cannot be empty", Exit.USAGE)


def check_files(files: list[Path]) -> None:
    """Open every file before the first message is sent, so that a misspelt name does not stop the work half done."""
    for file in files:
        try:
            file.open("rb").close()
        except OSError as failure:
            raise CommandError(f"{file}: {failure.strerror}", Exit.USAGE) from None


def unescape(text: str | None) -> bytes | None:
    """A separator with its escapes resolved: `\\t` in a shell's quotes is two characters."""
    if text is None:
        return None
    return text.replace("\\t", "\t").replace("\\0", "\0").encode()
