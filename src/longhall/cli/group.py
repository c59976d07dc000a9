"""`longhall group ...`: inspect, reset and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.completion import complete_group
from longhall.cli.confirmation import confirm, delete_by_name
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import KafkaOptions, YesOption
from longhall.cli.output import Format, Row, columns, print_note, show_facts, show_json, show_rows

if TYPE_CHECKING:
    from longhall.client.groups import Place
    from longhall.client.hall import Hall
    from longhall.doors.kafka.wire.messages.group_admin import DescribeGroupsResponseGroup

app = typer.Typer(name="group", help="Consumer groups: list, describe, reset, delete.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)]

_LIST = columns("group state protocol")
_MEMBERS = columns("member instance client host partitions")
_OFFSETS = columns(
    "topic partition committed end_offset lag client",
    right="partition committed end_offset lag",
    titles={"end_offset": "end", "client": "read by"},
)
_RESET = columns(
    "topic partition committed target", right="partition committed target", titles={"committed": "now", "target": "new"}
)


@app.command("list")
@with_option_groups
def list_groups(
    options: KafkaOptions,
    state: Annotated[
        list[str] | None, typer.Option(help="Only groups in this state (Stable, Empty, ...); repeatable.")
    ] = None,
) -> None:
    """List all consumer groups."""

    async def ask(hall: Hall) -> list[Row]:
        return [
            {"group": group.group_id, "state": group.group_state, "protocol": group.protocol_type}
            for group in await hall.groups.list(state)
        ]

    show_rows(options.call_hall(ask), _LIST, options.output, "there are no groups")


@app.command()
@with_option_groups
def describe(
    group: GroupArgument,
    options: KafkaOptions,
) -> None:
    """Show a group's members, their partitions, and the lag."""

    async def ask(hall: Hall) -> tuple[dict[str, object], list[Row], list[Row]]:
        return await _describe(hall, group)

    facts, members, offsets = options.call_hall(ask)
    if options.output is Format.JSON:
        show_json({**facts, "members": members, "offsets": offsets})
        return
    show_facts({**facts, "members": len(members)}, options.output)
    if members:
        print()
        show_rows(members, _MEMBERS, options.output, "")
    print()
    show_rows(offsets, _OFFSETS, options.output, "nothing is committed, so the lag is not known")


async def _describe(hall: Hall, name: str) -> tuple[dict[str, object], list[Row], list[Row]]:
    group = await hall.groups.describe(name)
    members, readers = _members(group)
    lags = await hall.groups.lag(name)
    offsets: list[Row] = []
    for place in sorted(set(lags) | set(readers)):
        committed, end = lags.get(place, (None, None))
        at = None if committed is None else committed.offset
        offsets.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": at,
                "end_offset": end,
                "lag": None if at is None or end is None else max(end - at, 0),
                "metadata": None if committed is None else committed.metadata,
                "client": readers.get(place),
            }
        )
    facts: dict[str, object] = {
        "group": name,
        "state": group.group_state,
        "assignor": group.protocol_data,
        # Without a committed offset nobody knows where its consumers will begin.
        "lag": sum(max(end - committed.offset, 0) for committed, end in lags.values()) if lags else None,
        "partitions_without_offset": len(set(readers) - set(lags)),
    }
    return facts, members, offsets


def _members(group: DescribeGroupsResponseGroup) -> tuple[list[Row], dict[Place, str]]:
    """The members, and which of them reads which partition."""
    from longhall.client.groups import assignment_of
    from longhall.errors import LonghallError

    members: list[Row] = []
    readers: dict[Place, str] = {}
    for member in group.members:
        places: list[Place] = []
        try:
            for topic in assignment_of(member).assigned_partitions:
                places += [(topic.topic, number) for number in topic.partitions]
        except LonghallError:
            pass  # A group may use a protocol of its own (Kafka Connect does), which cannot be decoded here.
        readers.update(dict.fromkeys(places, member.client_id))
        members.append(
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [f"{topic}-{number}" for topic, number in sorted(places)],
            }
        )
    return members, readers


@app.command()
@with_option_groups
def reset(
    group: GroupArgument,
    options: KafkaOptions,
    to: Annotated[
        str | None, typer.Option(help="start, end, an offset, -10 for the last ten, or a time like '2h ago'.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(help="Move from the committed offset forward, or back if negative.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="TOPIC or TOPIC:0,1; repeatable. By default all topics with committed offsets."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Commit the new offsets; without it they are only shown.")
    ] = False,
) -> None:
    """Move the offsets of a group without members. Without --yes it only shows the plan."""
    from longhall.cli.offset_reset import plan_reset

    if (to is None) == (shift_by is None):
        raise CommandError("give either --to or --shift-by", Exit.USAGE)

    async def ask(hall: Hall) -> list[Row]:
        plan = await plan_reset(hall, group, topic or [], to, shift_by)
        if yes and plan:
            from longhall.client.groups import Committed

            await hall.groups.commit(group, {place: Committed(target) for place, (_, target) in plan.items()})
        return [
            {"topic": place[0], "partition": place[1], "committed": now, "target": target}
            for place, (now, target) in sorted(plan.items())
        ]

    rows = options.call_hall(ask)
    if not rows:
        raise CommandError(f"{group} has committed nothing; name the topics with --topic")
    if options.output is Format.JSON:
        show_json({"group": group, "executed": yes, "offsets": rows})
        return
    show_rows(rows, _RESET, options.output, "")
    if rows and not yes:
        print_note("nothing was changed; --yes commits the new offsets")


@app.command()
@with_option_groups
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_group)],
    options: KafkaOptions,
    yes: YesOption = False,
) -> None:
    """Delete groups without members, with their offsets."""

    confirm(f"delete {', '.join(groups)} with the offsets?", yes)

    delete_by_name(groups, lambda hall, group: hall.groups.delete(group), options)
