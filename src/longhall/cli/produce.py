"""`longhall produce`: lines of files or of standard input as messages."""

from __future__ import annotations

import enum
import secrets
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
    """The replicas that must acknowledge a batch."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


CompressionOption = Annotated[Compression, typer.Option("--compression", "-z", help="The compression of batches.")]

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
    compression: CompressionOption = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(help="Wait until it is durable (all), until the leader has it (1), or not at all (0).")
    ] = Acks.ALL,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if there is none.")] = False,
    linger: Annotated[
        str | None,
        typer.Option(help="How long a batch waits for more messages; by default the topic's profile decides."),
    ] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for the acknowledgement of a message.")] = "30s",
) -> None:
    """Produce a message for every line of the files, or of standard input."""
    from longhall.cli.line_producer import Outcome, produce_lines
    from longhall.cli.message_lines import LineStyle, parse_header, parse_json_line, parse_text_line
    from longhall.client.batching import with_profile
    from longhall.client.producer import Options
    from longhall.records import compression as codecs

    style = LineStyle(unescape(key_separator), headers)
    _check_style(line_format, style)
    fixed = tuple(parse_header(text) for text in header or [])
    producer_options = Options(
        acks=ACKS[acks],
        idempotent=acks is Acks.ALL,
        compression=getattr(codecs, compression.name),
        delivery_timeout_ms=_duration_ms("--timeout", timeout, 1),
        create_topics=create,
        first_partition=secrets.randbelow(1 << 20),  # Not 0, or short runs would fill one partition.
    )
    linger_ms = None if linger is None else _duration_ms("--linger", linger, 0)
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

    outcome = Outcome(topic)

    async def ask(hall: Hall) -> None:
        if not create:
            await hall.topics.describe(topic)
        batched = await with_profile(hall, topic, producer_options, linger_ms)
        await produce_lines(hall, outcome, files or [], understand, batched)

    started = time.monotonic()
    try:
        options.call_hall(ask)
    except (CommandError, typer.Exit):
        if outcome.sent:
            _report_acknowledged(outcome, time.monotonic() - started, options.output)
        raise
    _report(outcome, time.monotonic() - started, options.output)


def _report_acknowledged(outcome: Outcome, seconds: float, output: Format) -> None:
    """Report what is stored for certain, after the node or the user has stopped the work."""
    if output is Format.JSON:
        _show_result(outcome, seconds)
        return
    open_count = outcome.sent - outcome.messages
    print_note(
        f"{outcome.messages} message{'s' * (outcome.messages != 1)} acknowledged by {outcome.topic}; "
        f"{open_count} sent without an acknowledgement, which may be stored or not"
    )


def _show_result(outcome: Outcome, seconds: float) -> None:
    facts = {"topic": outcome.topic, "messages": outcome.messages, "sent": outcome.sent}
    show_json({**facts, "bytes": outcome.bytes, "seconds": seconds})


def _duration_ms(option: str, words: str, least_ms: int) -> int:
    from longhall.node.quantities import parse_duration_ms

    try:
        amount_ms = parse_duration_ms(words, unit_required=True)
    except ValueError as failure:
        raise CommandError(f"{option}: {failure}", Exit.USAGE) from None
    if amount_ms < least_ms:
        raise CommandError(f"{option}: give at least {least_ms} ms, and not unlimited", Exit.USAGE)
    return amount_ms


def _report(outcome: Outcome, seconds: float, output: Format) -> None:
    if outcome.failure is not None and outcome.sent > outcome.messages:
        _report_acknowledged(outcome, seconds, output)
    elif output is Format.JSON:
        _show_result(outcome, seconds)
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
