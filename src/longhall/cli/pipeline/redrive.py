"""`longhall pipeline redrive`: move the dead letters that a query selects back to their queues."""

from __future__ import annotations

from typing import Annotated

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.options import HttpOption
from longhall.cli.output import show_outcome
from longhall.cli.pipeline.spark_job import SparkOptions
from longhall.cli.profiles import find_http


@with_option_groups
def redrive(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="A queue with dead letters, or the dead-letter queue.")],
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="SQL over dead_letters, messages, leases; it gives a message_id.")
    ],
    options: SparkOptions,
    to: Annotated[
        str,
        typer.Option("--to", metavar="QUEUE", help="The target queue; by default each message returns to its source."),
    ] = "",
    rate: Annotated[int, typer.Option("--rate", min=0, help="Messages a second; 0: no limit.")] = 0,
    http: HttpOption = None,
) -> None:
    """Move the dead letters that a query selects, by anything in them."""
    from longhall.pipeline.job_input import LiveInput
    from longhall.pipeline.queue_tables import LIVE, redrive, run_query

    with options.start_job("redrive") as job:
        tables = LiveInput(job.spark, job.bootstrap, *find_http(http, options.profile)[:3]).tables(queue)

        def work() -> int:
            chosen = run_query(job.spark, tables.register(prefix="", names=LIVE), query)
            moved = 0
            for moved in redrive(tables, chosen, target=to, rate_max=rate):
                job.steps.show("moved", moved)
                if job.wait(0.0):
                    break
            return moved

        moved = job.attend(work, once=True)
    show_outcome({"queue": queue, "moved": moved}, f"moved {moved} messages", options.output)
