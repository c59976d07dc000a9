"""Price plans: TOML in, exact amounts out. All arithmetic is decimal; a line is rounded to the cent, half up.

    [[charges]]
    sku = "messages"
    name = "Messages sent"
    meters = ["messages_sent"]        # A trailing * stands for every meter that begins so.
    unit = "1000 Messages"
    unit_quantity = 1000              # How much of the meters is one unit.
    free = 1000000                    # Of every month and tenant, in the quantity of the meters.
    tiers = [{ up_to = 10000000, price = "0.40" }, { price = "0.30" }]

The quantity beyond the free allowance fills the tiers from the first on; `up_to` counts the whole quantity of the
month, the free one included. The last tier has no end. Pure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Annotated, Final, NamedTuple

import msgspec

from longhall.pipeline.refusals import PipelineError

CENT: Final = Decimal("0.01")
CHARGES_MAX: Final = 200
TIERS_MAX: Final = 50


class Tier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A price of one unit, for the quantity up to `up_to`."""

    price: str
    up_to: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Charge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is charged for some meters."""

    sku: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
    name: str
    meters: Annotated[list[str], msgspec.Meta(min_length=1)]
    unit: str
    unit_quantity: Annotated[int, msgspec.Meta(ge=1)]
    tiers: Annotated[list[Tier], msgspec.Meta(min_length=1, max_length=TIERS_MAX)]
    free: Annotated[int, msgspec.Meta(ge=0)] = 0


class PricePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a month is charged for."""

    name: str
    currency: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}$")]
    issuer: str
    charges: Annotated[list[Charge], msgspec.Meta(min_length=1, max_length=CHARGES_MAX)]


class Line(NamedTuple):
    """One line of an invoice: a quantity at one price."""

    sku: str
    name: str
    quantity: int  # Of the meters.
    units: Decimal  # The same in the unit of the price.
    unit: str
    price: Decimal
    amount: Decimal
    words: str  # Which tier it is.


def load_plan(text: str, name: str) -> PricePlan:
    """Read a plan. Raises PipelineError that names what is wrong."""
    try:
        plan = msgspec.convert(tomllib.loads(text), PricePlan)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as failure:
        raise PipelineError(f"the price plan {name} cannot be used: {failure}") from None
    skus: set[str] = set()
    for charge in plan.charges:
        if charge.sku in skus:
            raise PipelineError(f"the price plan {name} has two charges with the sku {charge.sku}")
        skus.add(charge.sku)
        _check_tiers(charge, name)
    return plan


def _check_tiers(charge: Charge, name: str) -> None:
    before = 0
    for number, tier in enumerate(charge.tiers, 1):
        where = f"tier {number} of {charge.sku} in the price plan {name}"
        try:
            price = Decimal(tier.price)
        except InvalidOperation:
            price = Decimal("NaN")
        if not price.is_finite() or price < 0:
            raise PipelineError(f'{where} has the price {tier.price!r}, which must be a number such as "0.40"')
        is_last = number == len(charge.tiers)
        if is_last != (tier.up_to is None):
            raise PipelineError(f"{where}: every tier but the last has an up_to")
        if tier.up_to is not None and tier.up_to <= before:
            raise PipelineError(f"{where} does not end after the one before it")
        before = tier.up_to or before


def quantity_of(charge: Charge, used: Mapping[str, int]) -> int:
    """How much of its meters was used."""
    return sum(quantity for meter, quantity in used.items() if _is_of(charge, meter))


def _is_of(charge: Charge, meter: str) -> bool:
    return any(meter == one or (one.endswith("*") and meter.startswith(one[:-1])) for one in charge.meters)


def unpriced(plan: PricePlan, meters: set[str]) -> list[str]:
    """The meters that no charge of the plan names."""
    return sorted(meter for meter in meters if not any(_is_of(charge, meter) for charge in plan.charges))


def lines_of(charge: Charge, quantity: int) -> list[Line]:
    """The lines for a quantity: the free one, and one for each tier that it reaches."""
    lines: list[Line] = []
    free = min(quantity, charge.free)
    if free:
        lines.append(_line(charge, free, Decimal(0), "free allowance"))
    behind = free
    for tier in charge.tiers:
        until = quantity if tier.up_to is None else min(quantity, tier.up_to)
        if until > behind:
            words = "" if len(charge.tiers) == 1 else _tier_words(tier, behind)
            lines.append(_line(charge, until - behind, Decimal(tier.price), words))
            behind = until
    return lines


def amount_of(charge: Charge, quantity: int) -> Decimal:
    """What a quantity costs: the sum of its lines."""
    return sum((line.amount for line in lines_of(charge, quantity)), Decimal("0.00"))


def _line(charge: Charge, quantity: int, price: Decimal, words: str) -> Line:
    units = Decimal(quantity) / Decimal(charge.unit_quantity)
    # Multiplied first: the division of a large quantity is not exact in every unit.
    amount = (Decimal(quantity) * price / Decimal(charge.unit_quantity)).quantize(CENT, ROUND_HALF_UP)
    return Line(charge.sku, charge.name, quantity, units, charge.unit, price, amount, words)


def _tier_words(tier: Tier, behind: int) -> str:
    return f"above {behind:,}" if tier.up_to is None else f"up to {tier.up_to:,}"
