"""`longhall pipeline report`: an HTML page with plots about queues and topics over a period."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import Format, show_json
from longhall.cli.pipeline.input_options import InputOptions
from longhall.cli.pipeline.passes import IntervalOption, passes
from longhall.cli.pipeline.spark_job import Job, OnceOption, SparkOptions, TopicsOption, split_names

if TYPE_CHECKING:
    from longhall.pipeline.fates import Period
    from longhall.pipeline.reconcile import InputRecords


@with_option_groups
def report(
    topics: TopicsOption,
    options: SparkOptions,
    evidence: InputOptions,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The HTML file.")] = Path("report.html"),
    once: OnceOption = True,
    interval: IntervalOption = 300.0,
) -> None:
    """Report on queues and topics: volumes, latency, attempts, dead letters, hot keys, lag, and a forecast."""
    from longhall.pipeline.report.job import lags, make_report, write_whole

    evidence.check()
    names = split_names(topics)
    reports: list[dict[str, Any]] = []

    def look(job: Job) -> None:
        place = evidence.open(job, options.profile)
        words = {"topics": names, "bootstrap": job.bootstrap, "archive": evidence.archive, "state": evidence.state}
        for at in passes("report", words, evidence, once=once, interval_s=interval, wait=job.wait):
            job.steps.say(at.resumed)

            def gather(name: str, period: Period = at.period) -> tuple[InputRecords, bool]:
                is_queue = place.has_audit(name)
                return (place.queue(name, period) if is_queue else place.topic(name, period)), is_queue

            found, html = make_report(
                names,
                gather,
                at.period,
                groups=() if evidence.archive else lags(job.bootstrap, names),
                disk_free_bytes=0 if evidence.archive else _free_bytes(evidence.http_target(options.profile).address),
                told=lambda name, done: job.steps.show("measured", done, len(names), "names"),
                known=at.known,
                learnt=at.note,
            )
            write_whole(to, html)
            at.end()
            reports[:] = found
            job.steps.say(f"wrote {to}")

    with options.start_job("report", reaches=evidence.archive is None) as job:
        job.attend(lambda: look(job), once=once)
    if options.output is Format.JSON:
        show_json(reports)


def _free_bytes(address: str) -> int:
    """The free bytes on the node's disk by its metrics; 0 if they are unknown."""
    if not address:
        return 0
    with suppress(OSError, ValueError), urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("longhall_disk_free_bytes"):
                return int(float(line.split()[-1]))
    return 0
