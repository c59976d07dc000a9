"""The invoices of a month, from the tables of usage: priced, checked against the raw records, written once.

Which runs the invoices of a month know is noted beside the tables when they are made. The same command makes the same
files again; usage of a later run is a correction on the invoices of a later month.
"""

from __future__ import annotations

import hashlib
import urllib.parse
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.billing.invoice import EarlierMonth, Invoice, check_month, make_invoice
from longhall.pipeline.billing.invoice_csv import invoice_csv
from longhall.pipeline.billing.invoice_page import invoice_page
from longhall.pipeline.billing.price_plan import PricePlan, load_plan, unpriced
from longhall.pipeline.billing.usage_frames import WINDOWS, once, rows_of, window_start
from longhall.pipeline.billing.usage_tables import Run, UsageTables
from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Sums = dict[tuple[str, str, str], int]  # By month, tenant and meter.
DIFFERENCES_NAMED_MAX: Final = 3


class MadeInvoices(NamedTuple):
    """The invoices of a month."""

    invoices: list[Invoice]
    runs: int
    unpriced: list[str]


def make_invoices(
    spark: SparkSession, usage: str, plan_text: str, plan_name: str, month: str, raw: DataFrame | None = None
) -> MadeInvoices:
    """The invoices of a month. `raw`: the records of the usage topic, if they are to be compared with too. Raises
    PipelineError if sums differ, or if the month was invoiced with another plan.
    """
    check_month(month)
    plan = load_plan(plan_text, plan_name)
    tables = UsageTables(spark, usage)
    runs = tables.runs()
    issued = tables.invoices()
    digest = hashlib.sha256(plan_text.encode()).hexdigest()
    before = issued.get(month)
    if before is not None:
        if before["plan"] != digest:
            raise PipelineError(f"{month} was invoiced with another price plan; use that one, or another directory")
        runs = runs[: before["runs"]]
    if not runs:
        raise PipelineError(
            f"there is no usage in {usage} yet; `longhall pipeline usage --to {usage}` makes its tables"
        )
    check_sums(tables, runs, raw)
    known = {run.number: _sums(tables, runs[: run.number]) for run in runs if _is_needed(run, runs, issued)}
    invoices = _priced(plan, month, known, len(runs), issued)
    meters = {meter for at, _, meter in known[len(runs)] if at == month}
    tables.note_invoice(month, {"runs": len(runs), "plan": digest})
    return MadeInvoices(invoices, len(runs), unpriced(plan, meters))


def _is_needed(run: Run, runs: list[Run], issued: dict[str, Any]) -> bool:
    return run.number == len(runs) or any(each["runs"] == run.number for each in issued.values())


def _priced(plan: PricePlan, month: str, known: dict[int, Sums], runs: int, issued: dict[str, Any]) -> list[Invoice]:
    now = known[runs]
    tenants = sorted({tenant for at, tenant, _ in now if at <= month})
    made: list[Invoice] = []
    for tenant in tenants:
        earlier: list[EarlierMonth] = []
        for past in sorted(at for at in issued if at < month):
            charged = max(each["runs"] for at, each in issued.items() if past <= at < month)
            if charged < runs:
                earlier.append(EarlierMonth(past, _used(known[charged], past, tenant), _used(now, past, tenant)))
        invoice = make_invoice(tenant, month, plan, _used(now, month, tenant), earlier)
        if invoice.lines or invoice.corrections:
            made.append(invoice)
    return made


def _used(sums: Sums, month: str, tenant: str) -> dict[str, int]:
    return {meter: quantity for (at, whom, meter), quantity in sums.items() if (at, whom) == (month, tenant)}


def _sums(tables: UsageTables, runs: list[Run], window: str = "month") -> Sums:
    from pyspark.sql import functions as f

    rows = tables.windows(window, runs)
    month = f.date_format("BillingPeriodStart", "yyyy-MM").alias("month")
    found = rows.groupBy(month, "BillingAccountId", "SkuMeter").agg(f.sum("ConsumedQuantity")).collect()
    return {(row[0], row[1], row[2]): int(row[3]) for row in found if row[3]}


def check_sums(tables: UsageTables, runs: list[Run], raw: DataFrame | None = None) -> None:
    """Compare the tables with each other and with the records that they were made of. Raises PipelineError."""
    expected = _raw_sums(tables.records(runs))
    for window in WINDOWS:
        _must_equal(f"the table {window}", _sums(tables, runs, window), expected)
    if raw is not None:
        within = raw.where(f"offset < {runs[-1].until_offset}")
        _must_equal("the records of the topic", _raw_sums(once(rows_of(within))), expected)


def _raw_sums(rows: DataFrame) -> Sums:
    from pyspark.sql import functions as f

    month = f.date_format(window_start("month"), "yyyy-MM").alias("month")
    found = rows.groupBy(month, "tenant", "meter").agg(f.sum("quantity")).collect()
    return {(row[0], row[1], row[2]): int(row[3]) for row in found if row[3]}


def _must_equal(what: str, found: Sums, expected: Sums) -> None:
    differing = sorted(key for key in found.keys() | expected.keys() if found.get(key, 0) != expected.get(key, 0))
    if differing:
        named = "; ".join(
            f"{' '.join(key)}: {found.get(key, 0)} instead of {expected.get(key, 0)}"
            for key in differing[:DIFFERENCES_NAMED_MAX]
        )
        raise PipelineError(f"no invoice is made: {what} and the raw records differ in {len(differing)} sums: {named}")


def write_invoices(made: MadeInvoices, to: str) -> list[str]:
    """Write an HTML and a CSV file for each invoice; returns their names."""
    storage = Storage(to)
    names: list[str] = []
    for invoice in made.invoices:
        name = f"{invoice.month}/{urllib.parse.quote(invoice.tenant, safe='')}"
        storage.put(f"{name}.html", invoice_page(invoice, made.runs).encode())
        storage.put(f"{name}.csv", invoice_csv(invoice).encode())
        names += [f"{name}.html", f"{name}.csv"]
    return names
