"""Rules and errors of the service for receipts, for a single message and for each entry of a batch.

A receipt counts until another consumer has received the message. A standard queue accepts it also after the end of the
lease. A FIFO queue accepts it only while the lease lasts, because the group goes on afterwards.
Deleting is lenient: a message that is already deleted is no error, nor on a standard queue one that another consumer
has by now. Such a delete has no effect.
"""

from __future__ import annotations

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.errors import error_of
from longhall.doors.sqs.wire.faults import INVALID_RECEIPT, SqsError, missing, wrong_value
from longhall.errors import Code
from longhall.queues.messages import QueueView
from longhall.queues.receipts import CURRENT, IN_TIME, LATE
from longhall.service.queue_operations import ChangeLeases, SettleMessages


def settling(view: QueueView, receipts: list[str]) -> SettleMessages:
    """The operation that deletes messages."""
    return SettleMessages(view.name, receipts, _accepted_of(view))


def changing(door: Door, view: QueueView, changes: list[tuple[str, int]]) -> ChangeLeases:
    """The operation that changes the visibility of messages, in milliseconds."""
    return ChangeLeases(view.name, changes, _accepted_of(view), door.limits.visibility_s_max * 1000)


def refusal_of_settle(view: QueueView, code: Code | None, receipt: str) -> SqsError | None:
    """The error of a delete; None if the action reports success."""
    if code is None or code is Code.NOT_IN_FLIGHT:
        return None
    if code is Code.RECEIPT_SUPERSEDED:
        if _accepted_of(view) == LATE:
            return None
        return wrong_value("ReceiptHandle", receipt, "The receipt handle has expired.")
    return _refusal(code, receipt)


def refusal_of_change(door: Door, code: Code | None, receipt: str, lease_ms: int) -> SqsError | None:
    """The error of a change of visibility; None if it succeeded."""
    if code is None:
        return None
    if code is Code.RECEIPT_SUPERSEDED:
        reason = "Message does not exist or is not available for visibility timeout change."
        return wrong_value("ReceiptHandle", receipt, reason)
    if code is Code.INVALID_REQUEST:
        limit_s = door.limits.visibility_s_max
        reason = f"Total VisibilityTimeout for the message is beyond the limit [{limit_s} seconds]"
        return wrong_value("VisibilityTimeout", lease_ms // 1000, reason)
    return _refusal(code, receipt)


def check_visibility(door: Door, seconds: int | None) -> int:
    """A lease in milliseconds. Raises SqsError."""
    if seconds is None:
        raise missing("VisibilityTimeout")
    if not 0 <= seconds <= door.limits.visibility_s_max:
        reason = f"VisibilityTimeout must be an integer between 0 and {door.limits.visibility_s_max}."
        raise wrong_value("VisibilityTimeout", seconds, reason)
    return seconds * 1000


def _accepted_of(view: QueueView) -> str:
    if view.settings.fifo:
        return IN_TIME
    return CURRENT if view.settings.delivery == "exactly-once" else LATE


def _refusal(code: Code, receipt: str) -> SqsError:
    if code is Code.INVALID_RECEIPT:
        return SqsError(INVALID_RECEIPT, f'The input receipt handle "{receipt[:1024]}" is not a valid receipt handle.')
    return error_of(code)
