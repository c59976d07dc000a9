"""`longhall topic ...`: create, inspect, alter, truncate and delete topics."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.completion import complete_topic
from longhall.cli.confirmation import confirm, delete_by_name
from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import KafkaOptions, YesOption
from longhall.cli.output import (
    Column,
    Format,
    Row,
    columns,
    short_size,
    show_facts,
    show_json,
    show_outcome,
    show_rows,
    values_of,
)
from longhall.cli.topic_placement import placement

if TYPE_CHECKING:
    from longhall.client.hall import Hall

app = typer.Typer(name="topic", help="Topics: create, list, describe, alter, truncate, delete.", no_args_is_help=True)

NewTopicArgument = Annotated[str, typer.Argument(metavar="TOPIC")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A configuration, like retention.ms='2 weeks'; repeatable."),
]

_LIST = columns("topic partitions size", right="partitions size", people="size")
_PARTITIONS = columns(
    "partition leader replicas in_sync start_offset end_offset messages size",
    right="partition leader start_offset end_offset messages size",
    titles={"start_offset": "start", "end_offset": "end"},
    people="size",
)


app.command()(placement)


@app.command("list")
@with_option_groups
def list_topics(
    options: KafkaOptions,
    internal: Annotated[bool, typer.Option("--internal", help="Show internal topics as well.")] = False,
) -> None:
    """List all topics with their partitions and size."""

    async def ask(hall: Hall) -> list[Row]:
        topics = await hall.topics.list()
        sizes = await hall.topics.sizes()
        totals: dict[str, int] = {}
        for (name, _), size in sizes.items():
            totals[name] = totals.get(name, 0) + size
        return [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "size_bytes": totals.get(topic.name or "", 0),
                "size": short_size(totals.get(topic.name or "", 0)),
                "internal": topic.is_internal,
            }
            for topic in topics
            if internal or not topic.is_internal
        ]

    rows = options.call_hall(ask)
    show_rows(rows, _LIST, options.output, "there are no topics; `longhall topic create NAME` makes one")


@app.command()
@with_option_groups
def describe(
    topic: TopicArgument,
    options: KafkaOptions,
) -> None:
    """Show a topic's partitions, offsets, sizes and configuration."""

    async def ask(hall: Hall) -> tuple[dict[str, object], list[Row], dict[str, str | None]]:
        return await _describe(hall, topic)

    facts, partitions, settings = options.call_hall(ask)
    if options.output is Format.JSON:
        show_json({**facts, "partitions": values_of(partitions, _PARTITIONS), "settings": settings})
        return
    show_facts({**facts, **{f"set {name}": value for name, value in settings.items()}}, options.output)
    print()
    show_rows(partitions, _PARTITIONS, options.output, "")


async def _describe(hall: Hall, name: str) -> tuple[dict[str, object], list[Row], dict[str, str | None]]:
    from longhall.client.records import EARLIEST, LATEST

    topic = await hall.topics.describe(name)
    numbers = [partition.partition_index for partition in topic.partitions]
    starts = await hall.records.list_offsets(name, dict.fromkeys(numbers, EARLIEST))
    ends = await hall.records.list_offsets(name, dict.fromkeys(numbers, LATEST))
    sizes = await hall.topics.sizes()
    rows: list[Row] = []
    for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
        number = partition.partition_index
        start, end = starts[number].offset, ends[number].offset
        size = sizes.get((name, number), 0)
        rows.append(
            {
                "partition": number,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replica_nodes,
                "in_sync": partition.isr_nodes,
                "start_offset": start,
                "end_offset": end,
                "messages": end - start,
                "size_bytes": size,
                "size": short_size(size),
            }
        )
    changed = [setting for setting in await hall.topics.settings(name) if not setting.is_default]
    facts: dict[str, object] = {
        "topic": name,
        "topic_id": base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
        "internal": topic.is_internal,
    }
    return facts, rows, {setting.name: setting.value for setting in changed}


@app.command()
@with_option_groups
def create(
    topic: NewTopicArgument,
    options: KafkaOptions,
    partitions: Annotated[
        int, typer.Option("--partitions", "-n", help="The number of partitions; -1: the node's default.")
    ] = -1,
    replication: Annotated[int, typer.Option(help="Replicas of each partition; -1: the node's default.")] = -1,
    settings: SetOption = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="No error if it exists.")] = False,
) -> None:
    """Create a topic."""
    from longhall.errors import Code, LonghallError

    configs = parse_settings(settings or [])

    async def ask(hall: Hall) -> bool:
        try:
            await hall.topics.create(topic, partitions=partitions, replication=replication, configs=configs)
        except LonghallError as failure:
            if failure.code is Code.TOPIC_EXISTS and if_missing:
                return False
            raise
        return True

    created = options.call_hall(ask)
    show_outcome(
        {"topic": topic, "created": created},
        f"created {topic}" if created else f"{topic} exists already",
        options.output,
    )


@app.command()
@with_option_groups
def alter(
    topic: TopicArgument,
    options: KafkaOptions,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-n", help="The new number of partitions in all.")
    ] = None,
    settings: SetOption = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", "-u", metavar="NAME", help="Reset to the default; repeatable.")
    ] = None,
) -> None:
    """Change a topic's configuration or add partitions."""

    changes: dict[str, str | None] = {**parse_settings(settings or []), **dict.fromkeys(unset or [])}
    if not changes and partitions is None:
        raise CommandError("nothing to change: give --partitions, --set or --unset", Exit.USAGE)

    async def ask(hall: Hall) -> None:
        if changes:
            await hall.topics.alter(topic, changes)
        if partitions is not None:
            await hall.topics.grow(topic, partitions)

    options.call_hall(ask)
    show_outcome({"topic": topic, "changed": changes, "partitions": partitions}, f"altered {topic}", options.output)


@app.command()
@with_option_groups
def truncate(
    topic: TopicArgument,
    options: KafkaOptions,
    before: Annotated[
        str, typer.Option(help="Delete what is before: end, an offset, or a time like '2h ago'.")
    ] = "end",
    yes: YesOption = False,
) -> None:
    """Delete the oldest messages of every partition, by default all of them."""
    from longhall.cli.start_position import find_offsets

    confirm(f"delete messages of {topic} before {before}?", yes)

    async def ask(hall: Hall) -> dict[int, int]:
        return await hall.topics.delete_records(topic, await find_offsets(hall, topic, before))

    begins = options.call_hall(ask)
    rows = [{"partition": number, "start_offset": offset} for number, offset in sorted(begins.items())]
    columns = (Column("partition", "partition", right=True), Column("start_offset", "start", right=True))
    show_rows(rows, columns, options.output, "")


@app.command()
@with_option_groups
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)],
    options: KafkaOptions,
    yes: YesOption = False,
) -> None:
    """Delete topics with everything in them."""

    confirm(f"delete {', '.join(topics)} with everything in {'it' if len(topics) == 1 else 'them'}?", yes)

    delete_by_name(topics, lambda hall, topic: hall.topics.delete(topic), options)


def parse_settings(assignments: list[str]) -> dict[str, str]:
    """NAME=VALUE by Kafka's names; durations and sizes may be words, as in the settings of the node."""
    from longhall.node.quantities import parse_duration_ms, parse_size_bytes

    settings: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise CommandError(f"--set {assignment}: write NAME=VALUE, like --set retention.ms='2 weeks'", Exit.USAGE)
        try:
            if name.endswith(".ms"):
                value = str(parse_duration_ms(value))
            elif name.endswith(".bytes"):
                value = str(parse_size_bytes(value))
        except ValueError as failure:
            raise CommandError(f"--set {name}: {failure}", Exit.USAGE) from None
        settings[name] = value
    return settings
