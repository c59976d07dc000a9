"""`longhall pipeline archive`: topics and queues into Parquet files that replay, Spark and others read."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.options import OutputOption, ProfileOption
from longhall.cli.output import Format, show_facts
from longhall.cli.pipeline.spark_job import (
    BootstrapOption,
    MasterOption,
    OnceOption,
    SparkOption,
    TopicsOption,
    spark_job,
)

ToOption = Annotated[
    str,
    typer.Option("--to", metavar="DIR", help="Where the archive lies: a path, s3://BUCKET/PREFIX, hdfs://HOST/PATH."),
]
AllowLossOption = Annotated[
    bool, typer.Option("--allow-loss", help="Go on behind messages that were deleted before they were archived.")
]
MergeOption = Annotated[bool, typer.Option("--merge/--no-merge", help="Make large files out of small ones.")]
IntervalOption = Annotated[
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="How often to look, when continuous.")
]


def archive(
    topics: TopicsOption,
    to: ToOption,
    bootstrap: BootstrapOption = None,
    once: OnceOption = True,
    allow_loss: AllowLossOption = False,
    merge: MergeOption = True,
    interval: IntervalOption = 10.0,
    master: MasterOption = None,
    spark: SparkOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Archive topics and queues as Parquet, each message exactly once."""
    from longhall.pipeline.archive.job import Archiver, Options
    from longhall.pipeline.archive.storage import Storage

    silent = output is Format.JSON
    with spark_job(
        "archive", bootstrap=bootstrap, profile=profile, master=master, spark_settings=spark, silent=silent
    ) as job:
        options = Options(
            bootstrap=job.bootstrap,
            topics=tuple(dict.fromkeys(name.strip() for name in topics.split(",") if name.strip())),
            to=to,
            once=once,
            allow_loss=allow_loss,
            merge=merge,
            interval_s=interval,
        )
        archiver = Archiver(
            job.spark,
            options,
            job.steps.say,
            lambda messages, total: job.steps.show("archived", messages, total or None),
            job.wait,
        )
        job.attend(archiver.run, once=once)
        done = archiver.done
    show_facts(
        {
            "archive": Storage(to).name,  # What is secret in a URL is told to nobody.
            "messages": done.messages,
            "bytes": done.bytes,
            "files": done.files,
            "files_merged": done.merged,
            "leftovers_removed": done.swept,
            "offsets_lost": done.lost,
        },
        output,
    )
