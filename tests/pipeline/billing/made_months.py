"""Two made months of two tenants, with planted late and repeated usage, and the price plan they are billed by."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

PLAN: Final = """
name = "Standard"
currency = "EUR"
issuer = "Example Ltd"

[[charges]]
sku = "messages"
name = "Messages sent"
meters = ["messages_sent"]
unit = "1000 Messages"
unit_quantity = 1000
free = 1000000
tiers = [{ up_to = 10000000, price = "0.40" }, { price = "0.30" }]

[[charges]]
sku = "requests"
name = "Requests"
meters = ["requests.*"]
unit = "10000 Requests"
unit_quantity = 10000
tiers = [{ price = "0.035" }]

[[charges]]
sku = "storage"
name = "Storage"
meters = ["storage_byte_seconds"]
unit = "GB-Hours"
unit_quantity = 3600000000000
tiers = [{ price = "0.05" }]
"""


def record(id: str, time: str, tenant: str, door: str = "sqs", **usage: int) -> bytes:
    """One record of the usage topic; `__` in a meter stands for a dot."""
    at_ms = int(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() * 1000)
    named = {meter.replace("__", "."): count for meter, count in usage.items()}
    whole = {"version": 1, "id": id, "start_ms": at_ms, "end_ms": at_ms + 5000, "tenant": tenant, "user": "u"}
    return json.dumps({**whole, "door": door, "resource": "orders", "usage": named}).encode()


BIG: Final = record("p-1-1", "2026-10-20T12:30:00", "acme", door="kafka", messages_sent=9_000_001)
SMALL: Final = record("p-1-0", "2026-10-01T00:00:00", "acme", messages_sent=2_500_000, requests__SendMessages=12_345)

# What the first run finds: October, the first seconds of November, and a repetition.
FIRST: Final = [
    SMALL,
    BIG,
    BIG,
    record("p-2-0", "2026-10-31T23:59:59.999", "acme", requests__ReceiveMessages=55),
    record("s-1-0", "2026-10-15T00:00:00", "acme", door="", storage_byte_seconds=7_245_000_000_000_000),
    record("p-2-1", "2026-10-05T00:00:00", "zeta", messages_sent=10),
    record("p-3-0", "2026-11-01T00:00:03", "acme", messages_sent=500),
]
# What comes later: November, usage of October that is late, and a repetition of what the first run had.
SECOND: Final = [
    record("q-1-0", "2026-10-31T10:00:00", "acme", messages_sent=250_000),
    SMALL,
    record("q-1-1", "2026-10-31T10:00:00", "zeta", messages_sent=1_249_990),
    record("q-2-0", "2026-11-02T10:00:00", "acme", messages_sent=1_000_000, messages_settled=7),
]
