"""The log events of usage. The meaning of a released event never changes."""

from __future__ import annotations

import msgspec

Row = tuple[str, str, str, str, list[int]]  # Tenant, user, door, resource, and the counts in the order of `METERS`.


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """The base of these events; the tag is stored and identifies the event."""


class UsageNoted(_Event, frozen=True, tag="usage-noted"):
    """The usage by the other entries of the same frame."""

    at_ms: int
    rows: list[Row]


class UsageClosed(_Event, frozen=True, tag="usage-closed"):
    """The oldest `count` rows are a report of this number: nothing is added to them any more."""

    number: int
    count: int


class UsageWritten(_Event, frozen=True, tag="usage-written"):
    """The report of this number is in the usage topic."""

    number: int


class UsageTaken(_Event, frozen=True, tag="usage-taken"):
    """The report of this number, of another process or replication group, is in the usage topic. In one frame with its
    records.
    """

    source: str
    number: int


UsageEvent = UsageNoted | UsageClosed | UsageWritten | UsageTaken

usage_decoder = msgspec.msgpack.Decoder(UsageEvent)
