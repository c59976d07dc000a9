"""`longhall pipeline ...`: jobs on Spark over many messages. One file a job; this one only lists them.

A job's file parses its options and calls `longhall.pipeline`; `spark_job` provides the session, the progress and the
end.
"""

from __future__ import annotations

import typer

from longhall.cli.pipeline.archive import archive
from longhall.cli.pipeline.audit import audit
from longhall.cli.pipeline.check import check
from longhall.cli.pipeline.invoice import invoice
from longhall.cli.pipeline.reconcile import reconcile
from longhall.cli.pipeline.redrive import redrive
from longhall.cli.pipeline.replay import replay
from longhall.cli.pipeline.report import report
from longhall.cli.pipeline.sql import sql
from longhall.cli.pipeline.usage import usage

app = typer.Typer(
    name="pipeline",
    help="Jobs on Spark: archive, replay, sql, report, reconcile, invoices. They need longhall[spark] and Java.",
    no_args_is_help=True,
)
for command in (check, archive, replay, sql, report, reconcile, redrive, usage, invoice, audit):
    app.command()(command)
