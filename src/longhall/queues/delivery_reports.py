"""Delivery reports: what happened to a message, for its reply queue.

    fate             when
    settled          a consumer settled it, or it was delivered at most once; a reply replaces this report
    dead-lettered    it moved to the dead-letter queue; `reason` gives the cause
    expired          its time to live ended, and there is no dead-letter queue
    failed           it left in another way without a dead-letter queue; `reason` gives the cause

The body is JSON. The correlation id is the message's own or, if it has none, its message id; the header `longhall.fate`
has the fate, so that readers need not decode the body. Reports request no report themselves. A purge, or the deletion
of a queue that discards its messages, sends no reports.

This module does not know reply queues or whether they exist.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.queues.envelope import CORRELATION_ID, FATE, GROUP, ID, REPORT_FATE, Fields
from longhall.queues.outcomes import EXPIRED, RETENTION
from longhall.records.record import Record

SETTLED: Final = "settled"
DEAD_LETTERED: Final = "dead-lettered"
FATE_EXPIRED: Final = "expired"
FAILED: Final = "failed"


class MessageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a message that audit records and delivery reports need; never the body."""

    message_id: str
    sent_ms: int = 0
    size_bytes: int = 0
    group: str = ""
    reply_to: str = ""  # Only if the message asks for a report.
    correlation_id: str = ""


class DeliveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON body of a delivery report. Fields are only added."""

    fate: str
    queue: str
    message_id: str
    correlation_id: str = ""
    reason: str = ""
    attempts: int = 0
    time_ms: int = 0


def message_info_of(fields: Fields) -> MessageInfo:
    """The fields of a message for audit and reports."""
    return MessageInfo(
        message_id=fields.message_id,
        sent_ms=fields.sent_ms,
        size_bytes=len(fields.body),
        group=fields.group,
        reply_to=fields.reply_to if fields.report_fate else "",
        correlation_id=fields.correlation_id,
    )


def fate_of_death(reason: str, has_letters: bool) -> str:
    """The fate that a sender sees for this cause of death."""
    if has_letters:
        return DEAD_LETTERED
    return FATE_EXPIRED if reason in (EXPIRED, RETENTION) else FAILED


def report_record(
    message_id: str, info: MessageInfo, queue: str, fate: str, reason: str, attempts: int, now_ms: int
) -> Record:
    """The delivery report as a record, with an id of its own."""
    correlation_id = info.correlation_id or info.message_id
    body = DeliveryReport(
        fate=fate,
        queue=queue,
        message_id=info.message_id,
        correlation_id=correlation_id,
        reason=reason,
        attempts=attempts,
        time_ms=now_ms,
    )
    headers: list[tuple[str, bytes | None]] = [
        (ID, message_id.encode()),
        (CORRELATION_ID, correlation_id.encode()),
        (FATE, fate.encode()),
        (GROUP, correlation_id.encode()),  # FIFO reply queues can deliver reports of different messages in parallel.
    ]
    return Record(-1, now_ms, None, msgspec.json.encode(body), tuple(headers))


def wants_report(record: Record) -> bool:
    """True if a message asks for a delivery report to its reply queue."""
    wanted = False
    for name, value in record.headers:
        if name == REPORT_FATE:
            wanted = value == b"1"
    return wanted
