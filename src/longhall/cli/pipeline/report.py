"""`longhall pipeline report`: an HTML page with plots about queues and topics over a period."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhall.cli.options import HttpOption, OutputOption, ProfileOption
from longhall.cli.output import Format, show_json
from longhall.cli.pipeline.passes import IntervalOption, passes
from longhall.cli.pipeline.period import ArchiveOption, SinceOption, UntilOption, period_of
from longhall.cli.pipeline.spark_job import (
    BootstrapOption,
    Job,
    MasterOption,
    OnceOption,
    SparkOption,
    TopicsOption,
    spark_job,
)
from longhall.cli.profiles import find_http

if TYPE_CHECKING:
    from longhall.pipeline.fates import Period
    from longhall.pipeline.reconcile import Evidence


def report(
    topics: TopicsOption,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The HTML file.")] = Path("report.html"),
    bootstrap: BootstrapOption = None,
    since: SinceOption = "24h ago",
    until: UntilOption = "now",
    archive: ArchiveOption = None,
    state: Annotated[bool, typer.Option("--state/--no-state", help="Ask the queues what they have now.")] = True,
    once: OnceOption = True,
    interval: IntervalOption = 300.0,
    http: HttpOption = None,
    master: MasterOption = None,
    spark: SparkOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Report on queues and topics: volumes, latency, attempts, dead letters, hot keys, lag, and what is to come."""
    from longhall.pipeline.evidence import ArchivePlace, LivePlace
    from longhall.pipeline.report.job import lags, make_report, write_whole

    period_of(since, until)  # What is no time is told before anything begins.
    names = [name.strip() for name in topics.split(",") if name.strip()]
    reports: list[dict[str, Any]] = []

    def look(job: Job) -> None:
        there = find_http(http, profile) if state else ("", "", "")
        place = ArchivePlace(job.spark, archive) if archive else LivePlace(job.spark, job.bootstrap, *there)
        words = {"topics": names, "bootstrap": job.bootstrap, "archive": archive, "state": state}
        for at in passes("report", words, since, until, once=once, interval_s=interval, wait=job.wait):
            job.steps.say(at.resumed)

            def gather(name: str, period: Period = at.period) -> tuple[Evidence, bool]:
                is_queue = place.has_audit(name)
                return (place.queue(name, period) if is_queue else place.topic(name, period)), is_queue

            found, html = make_report(
                names,
                gather,
                at.period,
                groups=() if archive else lags(job.bootstrap, names),
                disk_free_bytes=0 if archive else _free_bytes(there[0]),
                told=lambda name, done: job.steps.show("measured", done, len(names), "names"),
                known=at.known,
                learnt=at.note,
            )
            write_whole(to, html)
            at.end()
            reports[:] = found
            job.steps.say(f"wrote {to}")

    with spark_job(
        "report", bootstrap=bootstrap, profile=profile, master=master, spark_settings=spark,
        silent=output is Format.JSON, reaches=archive is None,
    ) as job:  # fmt: skip
        job.attend(lambda: look(job), once=once)
    if output is Format.JSON:
        show_json(reports)


def _free_bytes(address: str) -> int:
    """What the node says is free on its disk; 0 if nobody says anything."""
    if not address:
        return 0
    with suppress(OSError, ValueError), urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("longhall_disk_free_bytes"):
                return int(float(line.split()[-1]))
    return 0
