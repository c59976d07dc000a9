"""`longhall send`: arguments, lines, files or standard input as messages of a queue."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import Format, print_note, show_json
from longhall.cli.produce import LineFormat, check_files
from longhall.node.quantities import parse_duration_ms

Fields = dict[str, object]


@with_option_groups
def send(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)],
    options: ApiOptions,
    messages: Annotated[
        list[str] | None, typer.Argument(metavar="[MESSAGE]...", help="Without any, every line of standard input.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", help="A whole file is one message, however large; - is standard input; repeatable."),
    ] = None,
    line_format: Annotated[
        LineFormat, typer.Option("--format", help="Lines are text, or json as `receive -o json` writes it.")
    ] = LineFormat.TEXT,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-A", metavar="NAME=VALUE", help="An attribute of every message; repeatable."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every message.")] = None,
    group: Annotated[str, typer.Option("--group", "-g", help="The group of every message.")] = "",
    deduplication_id: Annotated[
        str, typer.Option("--deduplication-id", help="The deduplication id of the messages.")
    ] = "",
    delay: Annotated[
        str | None, typer.Option("--delay", help="The delay of delivery, like 10min; by default that of the queue.")
    ] = None,
    time_to_live: Annotated[str | None, typer.Option("--time-to-live", help="How long the messages may wait.")] = None,
    priority: Annotated[int, typer.Option("--priority", min=0, max=254, help="0 is the lowest.")] = 0,
    reply_to: Annotated[str, typer.Option("--reply-to", help="The queue for replies.")] = "",
    correlation_id: Annotated[str, typer.Option("--correlation-id", help="The correlation id of the reply.")] = "",
    report_fate: Annotated[
        bool, typer.Option("--report-fate", help="Send delivery reports to the reply queue.")
    ] = False,
) -> None:
    """Send messages to a queue; what is acknowledged is on the disk."""
    from longhall.cli.sender import Sender

    fields: Fields = {
        "attributes": dict(_attribute(text) for text in attribute or []),
        "group": group,
        "deduplication_id": deduplication_id,
        "delay_ms": _duration("--delay", delay),
        "time_to_live_ms": _duration("--time-to-live", time_to_live),
        "priority": priority,
        "reply_to": reply_to,
        "correlation_id": correlation_id,
        "report_fate": report_fate,
    }
    if key is not None:
        fields["key"] = key
    if messages and files:
        raise CommandError("give messages or --file, not both", Exit.USAGE)
    check_files([file for file in files or [] if str(file) != "-"])
    started = time.monotonic()
    sender = Sender(options.open_client(), queue, fields)
    failure: CommandError | None = None
    try:
        if messages:
            sender.send_words(messages)
        elif files:
            for file in files:
                sender.send_file(None if str(file) == "-" else file)
        else:
            sender.send_lines(line_format is LineFormat.JSON)
    except CommandError as error:
        failure = error
    if failure is None or sender.ids:
        _report(sender.queue, sender.ids, time.monotonic() - started, options.output)
    if failure is not None:
        raise failure


def _report(queue: str, ids: list[str], seconds: float, output: Format) -> None:
    if output is Format.JSON:
        show_json({"queue": queue, "messages": len(ids), "message_ids": ids, "seconds": seconds})
    else:
        print_note(f"{len(ids)} message{'s' * (len(ids) != 1)} sent to {queue}")


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--attribute {text}: write NAME=VALUE", Exit.USAGE)
    return name, value


def _duration(option: str, words: str | None) -> int:
    if words is None:
        return -1
    try:
        return max(parse_duration_ms(words, unit_required=True), -1)
    except ValueError as failure:
        raise CommandError(f"{option}: {failure}", Exit.USAGE) from None
