"""`longhall pipeline audit`: who did what, from the audit topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import Column, Format, show_json, show_rows
from longhall.cli.pipeline.input_options import ArchiveOption, SinceOption, UntilOption, period_of
from longhall.cli.pipeline.spark_job import Job, SparkOptions
from longhall.cli.timestamps import show_timestamp
from longhall.names import AUDIT_TOPIC

_COLUMNS = (
    Column("user", "user"),
    Column("event", "event"),
    Column("action", "action"),
    Column("resource", "resource"),
    Column("allowed", "allowed"),
    Column("count", "count", right=True),
    Column("first", "first"),
    Column("last", "last"),
    Column("addresses", "addresses"),
)


@with_option_groups
def audit(
    options: SparkOptions,
    since: SinceOption = "24h ago",
    until: UntilOption = "now",
    archive: ArchiveOption = None,
    user: Annotated[str, typer.Option("--user", help="Only what this user did.")] = "",
    action: Annotated[str, typer.Option("--action", help="Only this action or operation.")] = "",
    resource: Annotated[str, typer.Option("--resource", help="Only at the queue, topic or object of this name.")] = "",
    event: Annotated[str, typer.Option("--event", help="login, refusal, operation or loss.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was not allowed.")] = False,
    list_max: Annotated[int, typer.Option("--list", min=1, max=10_000, help="The most rows to show.")] = 100,
    topic: Annotated[str, typer.Option("--topic", help="The topic with the audit records.")] = AUDIT_TOPIC,
) -> None:
    """Sum up the audit topic: logins, refusals and administrative operations by user, action and resource."""
    from longhall.pipeline.access_report import AccessFilter, access_rows
    from longhall.pipeline.job_input import ArchiveInput, LiveInput

    period = period_of(since, until)
    wanted = AccessFilter(user, action, resource, event, refused)

    def work(job: Job) -> list[dict[str, Any]]:
        place = ArchiveInput(job.spark, archive) if archive else LiveInput(job.spark, job.bootstrap)
        return access_rows(place.topic(topic, period).sent, period, wanted, list_max)

    with options.start_job("audit", reaches=archive is None) as job:
        rows = job.attend(lambda: work(job), once=True) or []
    if options.output is Format.JSON:
        show_json(rows)
        return
    shown = [
        {
            **row,
            "first": show_timestamp(row["first_ms"]),
            "last": show_timestamp(row["last_ms"]),
            "addresses": ", ".join(row["addresses"]),
        }
        for row in rows
    ]
    show_rows(shown, _COLUMNS, options.output, "nothing was recorded")
