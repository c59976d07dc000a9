"""`longhall queue ...`: create, inspect, alter, empty, pause and delete queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli import queue_browse, queue_rewind
from longhall.cli.completion import complete_queue
from longhall.cli.confirmation import confirm
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import (
    Column,
    Format,
    Row,
    columns,
    short_age,
    short_size,
    show_facts,
    show_json,
    show_outcome,
)
from longhall.cli.queue_placement import placement
from longhall.cli.queue_settings import (
    Fields,
    nest_settings,
    refused_by_option,
    show_settings,
    unset_settings,
    with_new_settings,
    with_settings,
)
from longhall.cli.timestamps import show_timestamp
from longhall.cli.watch import WatchOption, show, watch

if TYPE_CHECKING:
    from longhall.cli.api_client import ApiClient
    from longhall.console.api.queues import QueueRow, QueueShape

app = typer.Typer(
    name="queue",
    help="Queues: create, list, describe, alter, delete, purge, pause, resume, peek, search, rewind, fork, placement.",
    no_args_is_help=True,
)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)]
NewQueueArgument = Annotated[str, typer.Argument(metavar="QUEUE")]

_LIST = columns(
    "queue available in_flight delayed oldest size kind",
    right="available in_flight delayed oldest size",
    people="oldest size kind",
)
_FACTS = (Column("fact", "queue"), Column("value", "value"))

app.command()(placement)


@app.command("list")
@with_option_groups
def list_queues(
    options: ApiOptions,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only queues whose names have this prefix.")] = "",
    watching: WatchOption = False,
) -> None:
    """List queues with their messages: available, in flight, delayed, and the age of the oldest that waits."""

    client = options.open_client()
    nothing = "there are no queues; `longhall queue create NAME` makes one"
    show(lambda: (_rows(client, prefix), _LIST), options.output, nothing, watching)


def _rows(client: ApiClient, prefix: str) -> list[Row]:
    from longhall.console.api.queues import PAGE_MAX, QueuePage

    pages = client.pages("queues", QueuePage, {"prefix": prefix, "limit": PAGE_MAX})
    return [_row(queue) for page in pages for queue in page.queues]


def _row(queue: QueueRow) -> Row:
    depth = queue.depth
    return {
        "queue": queue.name,
        "available": depth.available,
        "in_flight": depth.in_flight,
        "delayed": depth.delayed,
        "oldest_age_ms": depth.oldest_age_ms,
        "oldest": short_age(depth.oldest_age_ms),
        "size_bytes": depth.bytes,
        "size": short_size(depth.bytes),
        "fifo": queue.fifo,
        "paused": queue.paused,
        "kind": " ".join(word for word, is_so in (("fifo", queue.fifo), ("paused", queue.paused)) if is_so),
    }


@app.command()
@with_option_groups
def describe(
    queue: QueueArgument,
    options: ApiOptions,
    watching: WatchOption = False,
) -> None:
    """Show the messages of a queue, its counters and its settings."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    client = options.open_client()
    if watching:
        output = options.output
        watch(lambda: (_fact_rows(client.ask("GET", queue_path(queue), QueueShape), output), _FACTS), output, "")
        return
    described = client.ask("GET", queue_path(queue), QueueShape)
    if options.output is Format.JSON:
        show_shape(described)
        return
    show_facts(_facts(described), options.output)
    print()
    show_facts(show_settings(described.settings), options.output)


def show_shape(described: QueueShape) -> None:
    """Print a queue as JSON, as the API has it."""
    import msgspec

    show_json(msgspec.to_builtins(described))


def _fact_rows(described: QueueShape, output: Format) -> Sequence[Row]:
    if output is Format.JSON:
        import msgspec

        builtins: Row = msgspec.to_builtins(described)
        return [builtins]
    return [{"fact": name.replace("_", " "), "value": value} for name, value in _facts(described).items()]


def _facts(described: QueueShape) -> dict[str, object]:
    depth, counts = described.depth, described.counts
    facts: dict[str, object] = {
        "queue": described.name,
        "queue_id": described.queue_id,
        "created": show_timestamp(described.created_ms),
        "paused": described.paused,
        "available": depth.available,
        "in_flight": depth.in_flight,
        "delayed": depth.delayed,
        "oldest": short_age(depth.oldest_age_ms),
        "size": short_size(depth.bytes),
        "parts": f"{depth.parts}, and {depth.parts_going} being drained" if depth.parts_going else depth.parts,
        "sent": counts.sends,
        "delivered": counts.deliveries,
        "leases_outlived": counts.outlived,
        "dead_letters": ", ".join(f"{count} {reason}" for reason, count in counts.deaths.items()),
        "dead_letters_of": described.dead_letters_of,
    }
    if counts.safe_lease_ms:
        facts["safe_lease"] = short_age(counts.safe_lease_ms)
    return facts


@app.command()
@with_new_settings
@with_option_groups
def create(
    queue: NewQueueArgument,
    settings: Fields,
    options: ApiOptions,
    topic: Annotated[str, typer.Option("--topic", help="Consume an existing topic as a queue.")] = "",
    if_missing: Annotated[bool, typer.Option("--if-missing", help="No error if it exists.")] = False,
) -> None:
    """Create a queue. Durations and sizes may be words: "30s", "2 weeks", "256 KiB"."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueuePage, QueueShape

    client = options.open_client()
    value = {"name": queue, "topic": topic, "settings": nest_settings(settings)}
    if if_missing:
        page = client.ask("GET", "queues", QueuePage, query={"prefix": queue, "limit": 1})
        if page.queues and page.queues[0].name == queue:
            there = client.ask("GET", queue_path(queue), QueueShape)
            _changed(there, f"{queue} exists already", options.output)
            return
    with refused_by_option():
        made = client.ask("POST", "queues", QueueShape, value)
    _changed(made, f"created {queue}", options.output)


@app.command()
@with_settings
@with_option_groups
def alter(
    queue: QueueArgument,
    settings: Fields,
    options: ApiOptions,
    back: Annotated[
        list[str] | None, typer.Option("--unset", "-u", metavar="NAME", help="Reset to the default; repeatable.")
    ] = None,
) -> None:
    """Change a queue's settings; settings that are not given stay as they are."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    removed = unset_settings(back or [])
    if not settings and not removed:
        raise CommandError("nothing to change: give a setting, or --unset NAME", Exit.USAGE)
    client = options.open_client()
    current = client.ask("GET", queue_path(queue), QueueShape).settings
    value = {"settings": {**nest_settings(settings, current), **removed}}
    with refused_by_option():
        altered = client.ask("PATCH", queue_path(queue), QueueShape, value)
    _changed(altered, f"altered {queue}", options.output)


@app.command()
@with_option_groups
def delete(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", autocompletion=complete_queue)],
    options: ApiOptions,
    yes: YesOption = False,
) -> None:
    """Delete queues with everything in them."""
    from longhall.cli.api_client import queue_path

    confirm(f"delete {', '.join(queues)} with everything in {'it' if len(queues) == 1 else 'them'}?", yes)
    client = options.open_client()
    for queue in queues:
        client.ask("DELETE", queue_path(queue), dict[str, str])
    show_outcome({"deleted": queues}, f"deleted {', '.join(queues)}", options.output)


@app.command()
@with_option_groups
def purge(
    queue: QueueArgument,
    options: ApiOptions,
    yes: YesOption = False,
) -> None:
    """Delete every message that is in a queue now."""
    confirm(f"delete every message of {queue}?", yes)
    _changed(_post(options, queue, "purge"), f"purged {queue}", options.output)


@app.command()
@with_option_groups
def pause(
    queue: QueueArgument,
    options: ApiOptions,
) -> None:
    """Stop deliveries until the queue is resumed; sending continues."""
    _changed(_post(options, queue, "pause"), f"paused {queue}", options.output)


@app.command()
@with_option_groups
def resume(
    queue: QueueArgument,
    options: ApiOptions,
) -> None:
    """Deliver messages again."""
    _changed(_post(options, queue, "resume"), f"resumed {queue}", options.output)


app.command()(queue_browse.peek)
app.command()(queue_browse.search)
app.command()(queue_rewind.rewind)
app.command()(queue_rewind.fork)


def _post(options: ApiOptions, queue: str, verb: str) -> QueueShape:
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    return options.open_client().ask("POST", queue_path(queue, verb), QueueShape)


def _changed(described: QueueShape, sentence: str, output: Format) -> None:
    if output is Format.JSON:
        show_shape(described)
    else:
        show_outcome({}, sentence, output)
