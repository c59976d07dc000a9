"""`longhall queue ...`: queues made, looked at, changed, emptied, stopped, removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli import queue_again, queue_looking
from longhall.cli.completing import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.moments import show_moment
from longhall.cli.options import HttpOption, OutputOption, ProfileOption
from longhall.cli.output import Column, Format, Row, age_of, show_facts, show_json, show_rows, size_of, tell
from longhall.cli.queue_settings import Fields, nested, shown, unset, with_settings
from longhall.cli.topic import confirm
from longhall.cli.watching import WatchOption, watch

if TYPE_CHECKING:
    from longhall.cli.desk import Desk
    from longhall.console.api.queues import QueueRow, QueueShape

app = typer.Typer(
    name="queue",
    help="Queues: create, list, describe, alter, delete, purge, pause, resume, peek, search, rewind, fork.",
    no_args_is_help=True,
)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)]
NewQueueArgument = Annotated[str, typer.Argument(metavar="QUEUE")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_LIST = (
    Column("queue", "queue"),
    Column("available", "available", right=True),
    Column("in_flight", "in flight", right=True),
    Column("delayed", "delayed", right=True),
    Column("oldest", "oldest", right=True),
    Column("size", "size", right=True),
    Column("kind", "kind"),
)
_FACTS = (Column("fact", "queue"), Column("value", "value"))


@app.command("list")
def list_queues(
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only queues whose names begin so.")] = "",
    watching: WatchOption = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List queues with what is in them: available, in flight, delayed, and the age of the oldest that waits."""
    from longhall.cli.desk import open_desk

    desk = open_desk(address, profile)
    nothing = "there are no queues; `longhall queue create NAME` makes one"
    if watching:
        watch(lambda: (_rows(desk, prefix), _LIST), output, nothing)
    else:
        show_rows(_rows(desk, prefix), _LIST, output, nothing)


def _rows(desk: Desk, prefix: str) -> list[Row]:
    from longhall.console.api.queues import PAGE_MAX, QueuePage

    rows: list[Row] = []
    after = ""
    while True:
        query = {"prefix": prefix, "limit": PAGE_MAX, "after": after}
        page = desk.ask("GET", "queues", QueuePage, query=query)
        rows += [_row(queue) for queue in page.queues]
        if not page.next:
            return rows
        after = page.next


def _row(queue: QueueRow) -> Row:
    depth = queue.depth
    return {
        "queue": queue.name,
        "available": depth.available,
        "in_flight": depth.in_flight,
        "delayed": depth.delayed,
        "oldest_age_ms": depth.oldest_age_ms,
        "oldest": age_of(depth.oldest_age_ms),
        "size_bytes": depth.bytes,
        "size": size_of(depth.bytes),
        "fifo": queue.fifo,
        "paused": queue.paused,
        "kind": " ".join(word for word, is_so in (("fifo", queue.fifo), ("paused", queue.paused)) if is_so),
    }


@app.command()
def describe(
    queue: QueueArgument,
    watching: WatchOption = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what is in a queue, what has happened to its messages, and its settings."""
    from longhall.cli.desk import of_queue, open_desk
    from longhall.console.api.queues import QueueShape

    desk = open_desk(address, profile)
    if watching:
        watch(lambda: (_fact_rows(desk.ask("GET", of_queue(queue), QueueShape), output), _FACTS), output, "")
        return
    described = desk.ask("GET", of_queue(queue), QueueShape)
    if output is Format.JSON:
        show_shape(described)
        return
    show_facts(_facts(described), output)
    print()
    show_facts(shown(described.settings), output)


def show_shape(described: QueueShape) -> None:
    """A queue for programs, as the API has it."""
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
        "created": show_moment(described.created_ms),
        "paused": described.paused,
        "available": depth.available,
        "in_flight": depth.in_flight,
        "delayed": depth.delayed,
        "oldest": age_of(depth.oldest_age_ms),
        "size": size_of(depth.bytes),
        "parts": f"{depth.parts}, and {depth.parts_going} being drained" if depth.parts_going else depth.parts,
        "sent": counts.sends,
        "delivered": counts.deliveries,
        "leases_outlived": counts.outlived,
        "dead_letters": ", ".join(f"{count} {reason}" for reason, count in counts.deaths.items()),
        "dead_letters_of": described.dead_letters_of,
    }
    if counts.safe_lease_ms:
        facts["safe_lease"] = age_of(counts.safe_lease_ms)
    return facts


@app.command()
@with_settings
def create(
    queue: NewQueueArgument,
    settings: Fields,
    topic: Annotated[str, typer.Option("--topic", help="Consume a topic that is there already as a queue.")] = "",
    if_missing: Annotated[bool, typer.Option("--if-missing", help="No error if it is there already.")] = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create a queue. Durations and sizes may be words: "30s", "2 weeks", "256 KiB"."""
    from longhall.cli.desk import of_queue, open_desk
    from longhall.console.api.queues import QueuePage, QueueShape

    desk = open_desk(address, profile)
    value = {"name": queue, "topic": topic, "settings": nested(settings)}
    if if_missing:
        page = desk.ask("GET", "queues", QueuePage, query={"prefix": queue, "limit": 1})
        if page.queues and page.queues[0].name == queue:
            there = desk.ask("GET", of_queue(queue), QueueShape)
            _changed(there, f"{queue} is there already", output)
            return
    made = desk.ask("POST", "queues", QueueShape, value)
    _changed(made, f"created {queue}", output)


@app.command()
@with_settings
def alter(
    queue: QueueArgument,
    settings: Fields,
    back: Annotated[
        list[str] | None, typer.Option("--unset", "-u", metavar="NAME", help="Back to its default; repeatable.")
    ] = None,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Change a queue's settings; those that are not said stay as they are."""
    from longhall.cli.desk import of_queue, open_desk
    from longhall.console.api.queues import QueueShape

    removed = unset(back or [])
    if not settings and not removed:
        raise CommandError("nothing to change: say a setting, or --unset NAME", Exit.USAGE)
    desk = open_desk(address, profile)
    current = desk.ask("GET", of_queue(queue), QueueShape).settings
    value = {"settings": {**nested(settings, current), **removed}}
    _changed(desk.ask("PATCH", of_queue(queue), QueueShape, value), f"altered {queue}", output)


@app.command()
def delete(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", autocompletion=complete_queue)],
    yes: YesOption = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete queues with everything in them."""
    from longhall.cli.desk import of_queue, open_desk

    confirm(f"delete {', '.join(queues)} with everything in {'it' if len(queues) == 1 else 'them'}?", yes)
    desk = open_desk(address, profile)
    for queue in queues:
        desk.ask("DELETE", of_queue(queue), dict[str, str])
    tell({"deleted": queues}, f"deleted {', '.join(queues)}", output)


@app.command()
def purge(
    queue: QueueArgument,
    yes: YesOption = False,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete every message that is in a queue now."""
    confirm(f"delete every message of {queue}?", yes)
    _changed(_post(address, profile, queue, "purge"), f"purged {queue}", output)


@app.command()
def pause(
    queue: QueueArgument,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give out nothing until the queue is resumed; sending goes on meanwhile."""
    _changed(_post(address, profile, queue, "pause"), f"paused {queue}", output)


@app.command()
def resume(
    queue: QueueArgument,
    address: HttpOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give out messages again."""
    _changed(_post(address, profile, queue, "resume"), f"resumed {queue}", output)


app.command()(queue_looking.peek)
app.command()(queue_looking.search)
app.command()(queue_again.rewind)
app.command()(queue_again.fork)


def _post(address: str | None, profile: str | None, queue: str, verb: str) -> QueueShape:
    from longhall.cli.desk import of_queue, open_desk
    from longhall.console.api.queues import QueueShape

    return open_desk(address, profile).ask("POST", of_queue(queue, verb), QueueShape)


def _changed(described: QueueShape, sentence: str, output: Format) -> None:
    if output is Format.JSON:
        show_shape(described)
    else:
        tell({}, sentence, output)
