"""The records of the usage topic, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from longhall.broker.usage.usage_totals import METERS, UsageReport

SCHEMA_VERSION: Final = 1


class UsageRecord(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The usage of one resource by one account in a few seconds. Fields are only added; `version` rises if one changes
    its meaning.
    """

    version: int = SCHEMA_VERSION
    id: str  # Source, number of the report and place in it: never twice in the topic.
    start_ms: int  # The time of the first and of the last use that is counted.
    end_ms: int
    tenant: str = ""
    user: str = ""  # Empty for clients that did not log in, and for storage.
    door: str = ""  # kafka, sqs, amqp, stomp or http; empty for storage.
    resource: str = ""  # A queue or a topic.
    usage: dict[str, int] = {}  # By meter.


_encode: Final = msgspec.json.Encoder().encode


def records_of(source: str, report: UsageReport) -> list[bytes]:
    """The records of a report of the log."""
    return [
        _encode(
            UsageRecord(
                version=SCHEMA_VERSION,
                id=f"{source}-{report.number}-{at}",
                start_ms=report.start_ms,
                end_ms=report.end_ms,
                tenant=tenant,
                user=user,
                door=door,
                resource=resource,
                usage={meter: count for meter, count in zip(METERS, counts, strict=False) if count},
            )
        )
        for at, (tenant, user, door, resource, counts) in enumerate(report.rows)
        if any(counts)
    ]


def encode_records(records: Iterable[UsageRecord]) -> list[bytes]:
    """Records of a process, encoded."""
    return [_encode(record) for record in records]
