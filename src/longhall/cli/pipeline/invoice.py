"""`longhall pipeline invoice`: the invoices of a month, by a price plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhall.cli.exits import CommandError, Exit
from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import Column, Format, print_note, show_json, show_rows
from longhall.cli.pipeline.input_options import ArchiveOption
from longhall.cli.pipeline.spark_job import Job, SparkOptions
from longhall.cli.pipeline.usage import UsageTopicOption, read_usage
from longhall.names import USAGE_TOPIC

_COLUMNS = (
    Column("tenant", "tenant"),
    Column("month", "month"),
    Column("lines", "lines", right=True),
    Column("corrections", "corrections", right=True),
    Column("total", "total", right=True),
    Column("currency", "currency"),
)


@with_option_groups
def invoice(
    month: Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="The month, in UTC.")],
    plan: Annotated[Path, typer.Option("--plan", metavar="FILE", help="The price plan, in TOML.")],
    usage: Annotated[str, typer.Option("--usage", metavar="DIR", help="The tables of `longhall pipeline usage`.")],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Where the HTML and CSV files go.")],
    options: SparkOptions,
    archive: ArchiveOption = None,
    topic: UsageTopicOption = USAGE_TOPIC,
) -> None:
    """Make an HTML and a CSV invoice for each tenant. Sums are checked against the raw records first: those of the
    tables, and with --archive those of the archived topic too. The same command makes the same files.
    """
    from longhall.pipeline.billing.invoice_job import MadeInvoices, make_invoices, write_invoices

    try:
        text = plan.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the price plan {plan} cannot be read: {error}", Exit.USAGE) from None

    def work(job: Job) -> MadeInvoices:
        raw = read_usage(job, topic, archive) if archive else None
        made = make_invoices(job.spark, usage, text, str(plan), month, raw)
        for name in write_invoices(made, to):
            job.steps.say(f"wrote {to}/{name}")
        return made

    with options.start_job("invoice", reaches=False) as job:
        made = job.attend(lambda: work(job), once=True)
    assert made is not None
    rows = [each.facts() for each in made.invoices]
    if options.output is Format.JSON:
        show_json(rows)
    else:
        show_rows(rows, _COLUMNS, options.output, "nothing was used in this month")
    if made.unpriced:
        print_note(f"not in the price plan, and not charged: {', '.join(made.unpriced)}")
