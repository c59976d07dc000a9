"""`longhall pipeline archive`: topics and queues as Parquet files that replay, Spark and others read."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import show_facts
from longhall.cli.pipeline.spark_job import OnceOption, SparkOptions, TopicsOption, split_names

ToOption = Annotated[
    str,
    typer.Option("--to", metavar="DIR", help="The archive: a path, s3://BUCKET/PREFIX, hdfs://HOST/PATH."),
]
AllowLossOption = Annotated[
    bool, typer.Option("--allow-loss", help="Continue behind messages that were deleted before they were archived.")
]
MergeOption = Annotated[bool, typer.Option("--merge/--no-merge", help="Merge small files into large ones.")]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Archive sealed messages in clear; without it they stay ciphertext.")
]
IntervalOption = Annotated[
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="The interval of a continuous job.")
]


@with_option_groups
def archive(
    topics: TopicsOption,
    to: ToOption,
    options: SparkOptions,
    once: OnceOption = True,
    allow_loss: AllowLossOption = False,
    merge: MergeOption = True,
    opens: OpenOption = False,
    interval: IntervalOption = 10.0,
) -> None:
    """Archive topics and queues as Parquet, each message exactly once."""
    from longhall.pipeline.archive.job import Archiver, Options
    from longhall.pipeline.archive.storage import Storage

    with options.start_job("archive") as job:
        settings = Options(
            job.bootstrap,
            split_names(topics),
            to,
            once=once,
            allow_loss=allow_loss,
            merge=merge,
            interval_s=interval,
            opens=opens,
        )
        archiver = Archiver(
            job.spark,
            settings,
            job.steps.say,
            lambda messages, total: job.steps.show("archived", messages, total or None),
            job.wait,
        )
        job.attend(archiver.run, once=once)
        done = archiver.done
    show_facts(
        {
            "archive": Storage(to).name,  # Without the secrets of a URL.
            "messages": done.messages,
            "bytes": done.bytes,
            "files": done.files,
            "files_merged": done.merged,
            "leftovers_removed": done.swept,
            "offsets_lost": done.lost,
        },
        options.output,
    )
