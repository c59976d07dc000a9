"""What became of a message, as its reply queue is told.

    fate             when
    settled          a consumer was done with it (or it was given out at most once); an answer stands for it
    dead-lettered    it went to the dead letters; `reason` says why
    expired          its time to live was over, and there are no dead letters
    failed           it left in another way without dead letters; `reason` says which

The body is JSON, the correlation id is the message's own or, where it has none, its message id; the header
`longhall.fate` says the fate without opening the body. A fate asks for no fate of its own. A purge and a deletion that
discards are an operator's word about all messages at once, and are not told for each.

This module does not know where a reply queue is, nor whether it still is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.queues.envelope import CORRELATION_ID, FATE, GROUP, Fields
from longhall.queues.outcomes import EXPIRED
from longhall.records.record import Record

SETTLED: Final = "settled"
DEAD_LETTERED: Final = "dead-lettered"
FATE_EXPIRED: Final = "expired"
FAILED: Final = "failed"


class MessageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of a message when something happens to it, without its body."""

    message_id: str
    sent_ms: int = 0
    size_bytes: int = 0
    group: str = ""
    reply_to: str = ""  # Only where a report is wanted.
    correlation_id: str = ""


class DeliveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a report. Fields are only added."""

    fate: str
    queue: str
    message_id: str
    correlation_id: str = ""
    reason: str = ""
    attempts: int = 0
    time_ms: int = 0


def message_info_of(fields: Fields) -> MessageInfo:
    """What is remembered of a message."""
    return MessageInfo(
        message_id=fields.message_id,
        sent_ms=fields.sent_ms,
        size_bytes=len(fields.body),
        group=fields.group,
        reply_to=fields.reply_to if fields.report_fate else "",
        correlation_id=fields.correlation_id,
    )


def fate_of_death(reason: str, has_letters: bool) -> str:
    """What a death is for whoever sent the message."""
    if has_letters:
        return DEAD_LETTERED
    return FATE_EXPIRED if reason == EXPIRED else FAILED


def report_record(info: MessageInfo, queue: str, fate: str, reason: str, attempts: int, now_ms: int) -> Record:
    """The report as a message."""
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
        (CORRELATION_ID, correlation_id.encode()),
        (FATE, fate.encode()),
        (GROUP, correlation_id.encode()),  # So that FIFO reply queues give out the fates of different messages at once.
    ]
    return Record(-1, now_ms, None, msgspec.json.encode(body), tuple(headers))
