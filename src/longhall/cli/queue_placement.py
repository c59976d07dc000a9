"""`longhall queue placement`: move a queue to another replication group while clients go on."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer

from longhall.cli.completion import complete_queue
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import show_outcome

LOOK_S: Final = 0.3


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
    if sum((bool(wanted), bool(group), cancel)) != 1:
        raise CommandError("give a placement, --group GROUP, or --cancel", Exit.USAGE)
    from longhall.cli.cluster.partition_moves import moves_under_way
    from longhall.cli.cluster.status import ask
    from longhall.console.api.partition_moves import MovesBegun

    client = options.open_client()
    ask(client.place.address)  # Says so if the node is alone.
    path = f"queues/{queue}/placement"
    if cancel:
        begun = client.ask("DELETE", path, MovesBegun)
    else:
        begun = client.ask("PUT", path, MovesBegun, {"placement": wanted} if wanted else {"group": group})
    while wait and any(move["topic"] == queue for move in moves_under_way(client)):
        time.sleep(LOOK_S)
    if cancel:
        said = f"the move of {queue} is cancelled" if begun.partitions else f"{queue} does not move, or has moved"
    elif not begun.partitions:
        said = f"{queue} is there already"
    else:
        said = f"{queue} {'has moved' if wait else 'begins to move'}"
    show_outcome({"queue": queue, "moves": bool(begun.partitions), "done": wait}, said, options.output)
