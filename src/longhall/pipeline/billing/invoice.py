"""Invoices: the usage of a month and corrections of earlier months, priced. Pure.

    lines          the quantity of the month in each tier
    corrections    usage of an earlier month that came after its invoice: what the month costs now, less what it cost
                   when it was charged last, so that tiers and allowances hold over both

Amounts are those of the plan; the total is the sum of the rounded lines. The same usage and the same plan make the same
invoice, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from longhall.pipeline.billing.price_plan import Line, PricePlan, amount_of, lines_of, quantity_of
from longhall.pipeline.refusals import PipelineError

Used = Mapping[str, int]  # By meter.


class Correction(NamedTuple):
    """Late usage of an earlier month."""

    month: str
    sku: str
    name: str
    quantity: int
    unit: str
    unit_quantity: int
    amount: Decimal


class Invoice(NamedTuple):
    """The invoice of one tenant and month."""

    tenant: str
    month: str  # 2026-10
    plan: PricePlan
    lines: list[Line]
    corrections: list[Correction]

    @property
    def total(self) -> Decimal:
        """The amount to pay."""
        amounts = [line.amount for line in self.lines] + [each.amount for each in self.corrections]
        return sum(amounts, Decimal("0.00"))

    def facts(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "tenant": self.tenant,
            "month": self.month,
            "currency": self.plan.currency,
            "total": str(self.total),
            "lines": len(self.lines),
            "corrections": len(self.corrections),
        }


class EarlierMonth(NamedTuple):
    """The usage of an earlier month: what was charged, and what is known by now."""

    month: str
    charged: Used
    known: Used


def make_invoice(tenant: str, month: str, plan: PricePlan, used: Used, earlier: Sequence[EarlierMonth]) -> Invoice:
    """Price the usage of a tenant."""
    lines = [line for charge in plan.charges for line in lines_of(charge, quantity_of(charge, used))]
    corrections: list[Correction] = []
    for one in sorted(earlier):
        for charge in plan.charges:
            before, now = quantity_of(charge, one.charged), quantity_of(charge, one.known)
            if before != now:
                amount = amount_of(charge, now) - amount_of(charge, before)
                quantity = now - before
                corrections.append(
                    Correction(one.month, charge.sku, charge.name, quantity, charge.unit, charge.unit_quantity, amount)
                )
    return Invoice(tenant, month, plan, lines, corrections)


def check_month(month: str) -> str:
    """A month as people write it: 2026-10. Raises PipelineError."""
    year, sign, number = month.partition("-")
    if not (sign and len(year) == 4 and year.isdecimal() and len(number) == 2 and number.isdecimal()):
        raise PipelineError(f"the month {month!r} must be YEAR-MONTH, such as 2026-10")
    if not 1 <= int(number) <= 12:
        raise PipelineError(f"the month {month!r} must be YEAR-MONTH, such as 2026-10")
    return month


def next_month(month: str) -> str:
    """The month after one."""
    year, number = int(month[:4]), int(month[5:])
    return f"{year + number // 12:04d}-{number % 12 + 1:02d}"
