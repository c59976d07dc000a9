"""`longhall topic placement`: move the partitions of a topic to other replication groups while clients go on."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.completion import complete_topic
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import ApiOptions
from longhall.cli.output import show_outcome
from longhall.cli.placement_change import change_placement, check_one


@with_option_groups
def placement(
    options: ApiOptions,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)],
    wanted: Annotated[
        str, typer.Argument(metavar="[PLACEMENT]", help="hall, share, parts, any-host, or wing:NAME.")
    ] = "",
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="NUMBER=GROUP", help="Only this partition, to this group; repeatable."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Leave the partitions where they are.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all partitions have moved.")] = False,
) -> None:
    """Change where a topic is: its partitions move to other replication groups while clients continue.

    `longhall cluster moves` shows the progress, `longhall cluster map` where partitions are.
    """
    check_one(wanted, bool(partition), cancel, "--partition NUMBER=GROUP")
    body: dict[str, object] = {"placement": wanted} if wanted else {"partitions": _groups(partition or [])}
    begun = change_placement(options, "topics", topic, None if cancel else body, wait)
    count = f"{begun.partitions} partition{'s' * (begun.partitions != 1)}"
    if cancel:
        said = f"the moves of {count} are cancelled"
    else:
        said = f"{count} of {topic} {'moved' if wait else 'begin to move'}"
    show_outcome({"topic": topic, "partitions": begun.partitions, "done": wait}, said, options.output)


def _groups(assignments: list[str]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for assignment in assignments:
        number, _, group = assignment.partition("=")
        if not (number.isascii() and number.isdigit() and group):
            raise CommandError(f"{assignment!r} is not NUMBER=GROUP, like 0=host-2", Exit.USAGE)
        groups[number] = group
    return groups
