"""`longhall pipeline usage`: tables of usage by minute, hour and month."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import Column, Format, show_json, show_rows
from longhall.cli.pipeline.input_options import ArchiveOption
from longhall.cli.pipeline.passes import IntervalOption
from longhall.cli.pipeline.spark_job import Job, OnceOption, SparkOptions
from longhall.names import USAGE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from longhall.pipeline.billing.usage_tables import Run

UsageTopicOption = Annotated[str, typer.Option("--topic", help="The topic with the records of usage.")]
_COLUMNS = tuple(
    Column(name, name.replace("_", " "), right=True)
    for name in ("number", "from_offset", "until_offset", "records", "repeated")
)


@with_option_groups
def usage(
    options: SparkOptions,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="The tables: a directory, or a URL of Spark's.")],
    archive: ArchiveOption = None,
    topic: UsageTopicOption = USAGE_TOPIC,
    once: OnceOption = True,
    interval: IntervalOption = 300.0,
) -> None:
    """Sum up usage by minute, hour and month. What comes late for a closed window is a correction."""
    from longhall.pipeline.billing.usage_tables import UsageTables

    made: list[Run] = []

    def look(job: Job) -> None:
        tables = UsageTables(job.spark, to)
        while True:
            run = tables.add(read_usage(job, topic, archive, tables.next_offset()))
            if run is None:
                job.steps.say("nothing new")
            else:
                made.append(run)
                job.steps.say(f"run {run.number}: {run.records:,} records, {run.repeated:,} repeated")
            if once or job.wait(interval):
                return

    with options.start_job("usage", reaches=archive is None) as job:
        job.attend(lambda: look(job), once=once)
    rows = [run.facts() for run in made]
    if options.output is Format.JSON:
        show_json(rows)
    else:
        show_rows(rows, _COLUMNS, options.output, "nothing new")


def read_usage(job: Job, topic: str, archive: str | None, from_offset: int = 0) -> DataFrame:
    """The records of the usage topic from an offset on: of the running hall, or of an archive."""
    from longhall.pipeline.archive_frame import read_archive

    if archive:
        return read_archive(job.spark, archive, topic).records
    reader = job.spark.read.format("longhall").option("kafka.bootstrap.servers", job.bootstrap)
    reader = reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
    if from_offset:
        reader = reader.option("startingOffsets", f'{{"{topic}":{{"0":{from_offset}}}}}')
    return reader.load()
