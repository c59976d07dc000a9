"""`longhall queue placement`: move a queue to another replication group while clients continue."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import show_outcome
from longhall.cli.placement_change import change_placement, check_one


@with_option_groups
def placement(
    options: ApiOptions,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)],
    wanted: Annotated[str, typer.Argument(metavar="[PLACEMENT]", help="hall, share, or wing:NAME.")] = "",
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="To this group, like host-2.")] = "",
    cancel: Annotated[bool, typer.Option("--cancel", help="Leave the queue where it is.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the queue has moved.")] = False,
) -> None:
    """Change where a queue is: it moves to another replication group while clients continue.

    `longhall cluster moves` shows the progress, `longhall cluster map` where queues are.
    """
    check_one(wanted, bool(group), cancel, "--group GROUP")
    body = {"placement": wanted} if wanted else {"group": group}
    begun = change_placement(options, "queues", queue, None if cancel else body, wait)
    if cancel:
        said = f"the move of {queue} is cancelled" if begun.partitions else f"{queue} does not move, or has moved"
    elif not begun.partitions:
        said = f"{queue} is there already"
    else:
        said = f"{queue} {'has moved' if wait else 'begins to move'}"
    show_outcome({"queue": queue, "moves": bool(begun.partitions), "done": wait}, said, options.output)
