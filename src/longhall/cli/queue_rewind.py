"""`longhall queue rewind` and `fork`: deliver kept messages again, in the same queue or a new one."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.confirmation import confirm
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions, YesOption
from longhall.cli.output import Format, show_json, show_outcome
from longhall.cli.queue_settings import Fields, nest_settings, with_settings
from longhall.cli.timestamps import parse_timestamp_ms

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)]
OffsetOption = Annotated[
    list[str] | None,
    typer.Option("--offset", metavar="LANE:OFFSET", help="The position as an offset of a lane; repeatable."),
]


@with_option_groups
def rewind(
    queue: QueueArgument,
    options: ApiOptions,
    place: Annotated[str, typer.Option("--to", help="start, or a time like 2026-01-31T12:00 or '2h ago'.")] = "start",
    offsets: OffsetOption = None,
    yes: YesOption = False,
) -> None:
    """Deliver everything from a position on again, settled or not; for queues that keep settled messages."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    destination = _destination(place, offsets)
    confirm(f"deliver the messages of {queue} again, settled or not?", yes)
    described = options.open_client().ask("POST", queue_path(queue, "rewind"), QueueShape, destination)
    available = described.depth.available
    show_outcome(
        {"queue": queue, "available": available}, f"rewound {queue}: {available} available now", options.output
    )


@with_settings
@with_option_groups
def fork(
    queue: QueueArgument,
    name: Annotated[str, typer.Argument(metavar="NEW", help="The name of the new queue.")],
    settings: Fields,
    options: ApiOptions,
    place: Annotated[str, typer.Option("--from", help="start, or a time like 2026-01-31T12:00 or '2h ago'.")] = "start",
    offsets: OffsetOption = None,
) -> None:
    """Create a second queue over the same messages, with its own cursor and the same settings except those given."""
    from longhall.cli.api_client import queue_path
    from longhall.console.api.queues import QueueShape

    client = options.open_client()
    current = client.ask("GET", queue_path(queue), QueueShape).settings if settings else {}
    value = {"name": name, "settings": nest_settings(settings, current), **_destination(place, offsets)}
    described = client.ask("POST", queue_path(queue, "fork"), QueueShape, value)
    if options.output is Format.JSON:
        import msgspec

        show_json(msgspec.to_builtins(described))
    else:
        show_outcome({}, f"forked {queue} into {name}: {described.depth.available} available", options.output)


def _destination(place: str, offsets: list[str] | None) -> dict[str, object]:
    if offsets:
        return {"offsets": dict(_offset(text) for text in offsets)}
    if place.strip().lower() in ("start", "beginning"):
        return {}
    return {"to_ms": parse_timestamp_ms(place, int(time.time() * 1000))}


def _offset(text: str) -> tuple[str, int]:
    lane, _, offset = text.rpartition(":")
    try:
        int(lane)
        return lane, int(offset)
    except ValueError:
        raise CommandError(f"--offset {text}: write LANE:OFFSET, like 0:1500", Exit.USAGE) from None
