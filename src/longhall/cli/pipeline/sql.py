"""`longhall pipeline sql`: a continuous query from topics to a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import show_facts
from longhall.cli.pipeline.spark_job import OnceOption, ProgressDisplay, SparkOptions, failures_in_one_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_AGAIN_S: Final = 0.2

QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="Spark's SQL; its tables are topics and queues.")]
ToOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic or queue for the result.")]
SchemaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="TOPIC=COLUMNS",
        help="Columns of JSON values, as 'orders=id bigint, city string'; else inferred.",
    ),
]
WatermarkOption = Annotated[
    list[str] | None,
    typer.Option("--watermark", metavar="[[TOPIC.]COLUMN=]DELAY", help="How late messages may be, as '10 minutes'."),
]
CheckpointOption = Annotated[
    str,
    typer.Option("--checkpoint", metavar="DIR", help="The directory of the checkpoint. [default: one for this query]"),
]


@with_option_groups
def sql(
    query: QueryArgument,
    to: ToOption,
    options: SparkOptions,
    once: OnceOption = False,
    schema: SchemaOption = None,
    watermark: WatermarkOption = None,
    checkpoint: CheckpointOption = "",
    mode: Annotated[
        str, typer.Option("--mode", help="append, update or complete: which rows of groups are emitted.")
    ] = "append",
    starting: Annotated[str, typer.Option("--from", help="start or end of the topics, for the first run.")] = "start",
) -> None:
    """Run a query over topics continuously; its rows become JSON messages of a topic, each exactly once."""
    from longhall.pipeline.sql import SqlOptions, parse_schemas, parse_watermark, start

    with failures_in_one_line():
        schemas = parse_schemas(schema or [])
        watermarks = tuple(parse_watermark(each) for each in watermark or [])
    with options.start_job("sql") as job:
        query_options = SqlOptions(
            query=query,
            to=to,
            bootstrap=job.bootstrap,
            checkpoint=checkpoint,
            schemas=schemas,
            watermarks=watermarks,
            mode=mode,
            starting=_starting(starting),
            once=once,
        )
        # A micro-batch of a small query is not worth two hundred tasks.
        job.spark.conf.set("spark.sql.shuffle.partitions", str(job.spark.sparkContext.defaultParallelism))
        done = job.attend(
            lambda: follow(start(job.spark, query_options, job.steps.say), job.steps, job.wait), once=once
        )
        rows, batches = done or (0, 0)
    show_facts(
        {"to": to, "messages_read": rows, "batches": batches, "checkpoint": query_options.place()}, options.output
    )


def follow(query: StreamingQuery, steps: ProgressDisplay, wait: Callable[[float], bool]) -> tuple[int, int]:
    """Show the progress until the query ends or `wait` says to stop; returns the rows and batches that it read."""
    seen: dict[int, int] = {}
    while True:
        is_over = not query.isActive
        for progress in query.recentProgress:
            seen[int(progress["batchId"])] = int(progress["numInputRows"])
        steps.show("read", sum(seen.values()))
        if is_over or wait(LOOK_AGAIN_S):
            break
    if is_over:
        failure = query.exception()
        if failure is not None:
            raise failure
    else:
        query.stop()
    return sum(seen.values()), len(seen)


def _starting(word: str) -> str:
    """Spark's word for an end of the topics."""
    from longhall.cli.start_position import Anchor, parse_start_position

    anchors = {Anchor.BEGINNING: "earliest", Anchor.END: "latest"}
    try:
        return anchors[parse_start_position(word, 0).anchor]
    except KeyError:
        raise CommandError(f"--from {word}: a query begins at start or end", Exit.USAGE) from None
