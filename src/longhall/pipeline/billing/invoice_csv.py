"""The lines of an invoice as CSV, with the columns of FOCUS (FinOps Open Cost and Usage Specification). Pure."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Final

from longhall.pipeline.billing.invoice import Correction, Invoice, next_month
from longhall.pipeline.billing.invoice_page import number_of
from longhall.pipeline.billing.price_plan import Line
from longhall.pipeline.billing.usage_frames import CORRECTION, SERVICE

COLUMNS: Final = (
    "InvoiceId", "InvoiceIssuerName", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodStart",
    "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd", "ChargeCategory", "ChargeClass", "ChargeDescription",
    "ServiceCategory", "ServiceSubcategory", "ServiceName", "ServiceProviderName", "HostProviderName", "SkuId",
    "PricingCategory", "PricingQuantity", "PricingUnit", "ListUnitPrice", "ContractedUnitPrice", "ConsumedQuantity",
    "BilledCost", "EffectiveCost", "ListCost", "ContractedCost",
)  # fmt: skip


def invoice_csv(invoice: Invoice) -> str:
    """A line for each line and correction of the invoice; the billed costs add up to its total."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in invoice.lines:
        writer.writerow(_line_row(invoice, line))
    for each in invoice.corrections:
        writer.writerow(_correction_row(invoice, each))
    return text.getvalue()


def _line_row(invoice: Invoice, line: Line) -> dict[str, str]:
    return {
        **_row(invoice, invoice.month, line.amount),
        "ChargeDescription": f"{line.name}, {line.words}" if line.words else line.name,
        "SkuId": line.sku,
        "PricingQuantity": f"{line.units:f}",
        "PricingUnit": line.unit,
        "ListUnitPrice": f"{line.price:f}",
        "ContractedUnitPrice": f"{line.price:f}",
        "ConsumedQuantity": str(line.quantity),
    }


def _correction_row(invoice: Invoice, each: Correction) -> dict[str, str]:
    return {
        **_row(invoice, each.month, each.amount),
        "ChargeClass": CORRECTION,
        "ChargeDescription": f"{each.name}, usage of {each.month} that arrived late",
        "SkuId": each.sku,
        "PricingQuantity": f"{Decimal(each.quantity) / Decimal(each.unit_quantity):f}",
        "PricingUnit": each.unit,
        "ConsumedQuantity": str(each.quantity),
    }


def _row(invoice: Invoice, month: str, amount: Decimal) -> dict[str, str]:
    """What all rows have; `month` is that of the usage."""
    plan = invoice.plan
    cost = f"{amount:.2f}"
    return {
        "InvoiceId": number_of(invoice),
        "InvoiceIssuerName": plan.issuer,
        "BillingAccountId": invoice.tenant,
        "BillingAccountName": invoice.tenant,
        "BillingCurrency": plan.currency,
        "BillingPeriodStart": _time(invoice.month),
        "BillingPeriodEnd": _time(next_month(invoice.month)),
        "ChargePeriodStart": _time(month),
        "ChargePeriodEnd": _time(next_month(month)),
        "ChargeCategory": "Usage",
        "ServiceCategory": "Integration",
        "ServiceSubcategory": "Messaging",
        "ServiceName": SERVICE,
        "ServiceProviderName": plan.issuer,
        "HostProviderName": plan.issuer,
        "PricingCategory": "Standard",
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ListCost": cost,
        "ContractedCost": cost,
    }


def _time(month: str) -> str:
    return f"{month}-01T00:00:00Z"
