"""Price plans and invoices, without Spark: every figure is right to the cent."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from longhall.pipeline.billing.invoice import EarlierMonth, check_month, make_invoice, next_month
from longhall.pipeline.billing.invoice_csv import invoice_csv
from longhall.pipeline.billing.invoice_page import invoice_page
from longhall.pipeline.billing.price_plan import amount_of, lines_of, load_plan, unpriced
from longhall.pipeline.refusals import PipelineError
from tests.pipeline.billing.made_months import PLAN

OCTOBER = {
    "messages_sent": 11_500_001,
    "requests.SendMessages": 12_345,
    "requests.ReceiveMessages": 55,
    "storage_byte_seconds": 7_245_000_000_000_000,
}


def test_the_free_allowance_and_tiers_are_filled_in_order() -> None:
    charge = load_plan(PLAN, "plan").charges[0]
    assert [(line.quantity, line.amount) for line in lines_of(charge, 11_500_001)] == [
        (1_000_000, Decimal("0.00")),
        (9_000_000, Decimal("3600.00")),
        (1_500_001, Decimal("450.00")),
    ]
    assert lines_of(charge, 0) == []
    assert amount_of(charge, 1_000_000) == 0
    assert amount_of(charge, 1_000_013) == Decimal("0.01")  # 0.0052, half up.
    assert amount_of(charge, 10_000_000) == Decimal("3600.00")


def test_half_a_cent_is_rounded_up_in_every_line() -> None:
    storage = load_plan(PLAN, "plan").charges[2]
    assert amount_of(storage, 7_245_000_000_000_000) == Decimal("100.63")  # 2012.5 GB-hours: 100.625.


def test_an_invoice_adds_up_to_its_lines_in_html_and_csv() -> None:
    invoice = make_invoice("acme", "2026-10", load_plan(PLAN, "plan"), OCTOBER, [])
    assert invoice.total == Decimal("4150.67")
    page = invoice_page(invoice, 1)
    assert "4,150.67 EUR" in page
    assert "October 2026" in page
    rows = list(csv.DictReader(io.StringIO(invoice_csv(invoice))))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("4150.67")
    assert {row["ChargeClass"] for row in rows} == {""}
    assert [row["ConsumedQuantity"] for row in rows if row["SkuId"] == "requests"] == ["12400"]


def test_late_usage_is_charged_in_the_tier_that_it_reaches() -> None:
    late = {**OCTOBER, "messages_sent": 11_750_001}
    earlier = [EarlierMonth("2026-10", OCTOBER, late)]
    invoice = make_invoice("acme", "2026-11", load_plan(PLAN, "plan"), {"messages_sent": 1_000_500}, earlier)
    assert [(each.month, each.quantity, each.amount) for each in invoice.corrections] == [
        ("2026-10", 250_000, Decimal("75.00"))
    ]
    assert invoice.total == Decimal("75.20")
    (row,) = [row for row in csv.DictReader(io.StringIO(invoice_csv(invoice))) if row["ChargeClass"]]
    assert row["ChargeClass"] == "Correction"
    assert row["ChargePeriodStart"] == "2026-10-01T00:00:00Z"
    assert row["BillingPeriodStart"] == "2026-11-01T00:00:00Z"


def test_names_cannot_break_the_page() -> None:
    invoice = make_invoice("<b>acme</b>", "2026-10", load_plan(PLAN, "plan"), OCTOBER, [])
    assert "<b>acme" not in invoice_page(invoice, 1)


def test_meters_without_a_price_are_named() -> None:
    plan = load_plan(PLAN, "plan")
    assert unpriced(plan, {"messages_sent", "requests.Produce", "bytes_sent"}) == ["bytes_sent"]


@pytest.mark.parametrize(
    ("wrong", "right", "why"),
    [
        ('"0.40"', '"cheap"', "tier 1 of messages .* must be a number"),
        ('"0.40"', '"-1"', "must be a number"),
        ("up_to = 10000000, ", "", "every tier but the last"),
        ("unit_quantity = 1000\n", "unit_quantity = 0\n", "charges"),
        ('currency = "EUR"', 'currency = "Euro"', "currency"),
        ('issuer = "Example Ltd"', 'isuer = "Example Ltd"', "isuer"),
        ('sku = "requests"', 'sku = "messages"', "two charges"),
        ("[[charges]]", "[[charges", "cannot be used"),
    ],
)
def test_a_wrong_plan_is_refused_with_the_reason(wrong: str, right: str, why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        load_plan(PLAN.replace(wrong, right), "plan.toml")


def test_months_are_checked() -> None:
    assert next_month(check_month("2026-12")) == "2027-01"
    assert next_month("2026-01") == "2026-02"
    for wrong in ("2026", "2026-13", "26-01", "2026-1", "2026-00"):
        with pytest.raises(PipelineError, match="YEAR-MONTH"):
            check_month(wrong)
