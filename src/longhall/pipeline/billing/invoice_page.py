"""The page of an invoice: one HTML file, which loads nothing and prints well. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from typing import Final

from longhall.pipeline.billing.invoice import Correction, Invoice
from longhall.pipeline.billing.price_plan import Line

STYLE: Final = """
:root{--ink:#1f2328;--soft:#667080;--rule:#d9dde3;--accent:#2563a8;--back:#eef1f5;--card:#fff}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:860px;margin:32px auto;padding:48px 56px;background:var(--card);border:1px solid var(--rule);
border-top:6px solid var(--accent);border-radius:4px}
header{display:flex;justify-content:space-between;align-items:flex-start;gap:24px;margin-bottom:36px}
h1{margin:0;font-size:30px;letter-spacing:-.01em}
h2{margin:32px 0 8px;font-size:16px}
.issuer{font-weight:600;text-align:right}.issuer span{display:block;font-weight:400;color:var(--soft);font-size:13px}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:14px 24px;margin:0 0 28px}
dt{color:var(--soft);font-size:12px;text-transform:uppercase;letter-spacing:.05em}
dd{margin:2px 0 0;font-weight:600;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
th{font-size:12px;color:var(--soft);font-weight:600;text-align:right;border-bottom:2px solid var(--ink);padding:6px 8px}
td{text-align:right;border-bottom:1px solid var(--rule);padding:9px 8px;vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0;white-space:normal}
th:last-child,td:last-child{padding-right:0}
td small{display:block;color:var(--soft);font-size:12.5px}
.total{display:flex;justify-content:flex-end;align-items:baseline;gap:32px;margin-top:22px;font-size:15px}
.total b{font-size:26px;letter-spacing:-.01em}
.nothing{color:var(--soft)}
footer{margin-top:44px;padding-top:14px;border-top:1px solid var(--rule);color:var(--soft);font-size:12.5px}
@media(max-width:640px){main{margin:0;padding:24px 18px;border-radius:0}header{flex-direction:column}
.issuer{text-align:left}}
@media print{body{background:#fff}main{margin:0;padding:0;border:0;max-width:none}tr{break-inside:avoid}}
"""


def invoice_page(invoice: Invoice, runs: int) -> str:
    """The whole file. `runs` says which usage the invoice knows."""
    plan = invoice.plan
    month = month_words(invoice.month)
    title = f"Invoice, {invoice.tenant}, {month}"
    facts = (
        ("Billed to", invoice.tenant),
        ("Period", f"{month}, UTC"),
        ("Price plan", plan.name),
        ("Invoice", number_of(invoice)),
    )
    shown = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<header><h1>Invoice</h1><div class="issuer">{escape(plan.issuer)}<span>Longhall message queues</span></div>'
        f"</header><dl>{shown}</dl>{_usage(invoice)}{_corrections(invoice)}"
        f'<div class="total"><span>Total</span><b>{money(invoice.total, plan.currency)}</b></div>'
        f"<footer>All times are UTC. Amounts are rounded to the cent, line by line. The invoice has the usage of runs "
        f"1 to {runs}; what arrives later is a correction on a later invoice.</footer></main></body></html>\n"
    )


def number_of(invoice: Invoice) -> str:
    """The number of an invoice."""
    return f"{invoice.month}/{invoice.tenant}"


def money(amount: Decimal, currency: str) -> str:
    """An amount with its currency."""
    return f"{amount:,.2f} {currency}"


def month_words(month: str) -> str:
    """A month for people."""
    return datetime(int(month[:4]), int(month[5:]), 1, tzinfo=UTC).strftime("%B %Y")


def _usage(invoice: Invoice) -> str:
    if not invoice.lines:
        return '<p class="nothing">Nothing was used in this month.</p>'
    rows = "".join(_line(line, invoice.plan.currency) for line in invoice.lines)
    return _table(("Usage", "Quantity", "Unit", "Price", "Amount"), rows)


def _table(titles: Sequence[str], rows: str) -> str:
    heads = "".join(f"<th>{title}</th>" for title in titles)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _line(line: Line, currency: str) -> str:
    words = f"<small>{escape(line.words)}</small>" if line.words else ""
    price = "free" if not line.price else f"{line.price:f}"
    return (
        f"<tr><td>{escape(line.name)}{words}</td><td>{units(line.units)}</td><td>{escape(line.unit)}</td>"
        f"<td>{price}</td><td>{money(line.amount, currency)}</td></tr>"
    )


def _corrections(invoice: Invoice) -> str:
    if not invoice.corrections:
        return ""
    rows = "".join(_correction(each, invoice.plan.currency) for each in invoice.corrections)
    table = _table(("Usage that arrived late", "Quantity", "Unit", "Amount"), rows)
    return f"<h2>Corrections of earlier months</h2>{table}"


def _correction(each: Correction, currency: str) -> str:
    quantity = Decimal(each.quantity) / Decimal(each.unit_quantity)
    return (
        f"<tr><td>{escape(each.name)}<small>{month_words(each.month)}</small></td><td>{units(quantity)}</td>"
        f"<td>{escape(each.unit)}</td><td>{money(each.amount, currency)}</td></tr>"
    )


def units(quantity: Decimal) -> str:
    """A quantity with at most six decimals."""
    text = f"{quantity:,.6f}".rstrip("0").rstrip(".")
    return text or "0"
