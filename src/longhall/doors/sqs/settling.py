"""Errors of the service for receipts, for a single message and for each entry of a batch.

Deleting is lenient: a message that is already deleted, or that on a standard queue was redelivered to another consumer,
is no error.
"""

from __future__ import annotations

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.errors import error_of
from longhall.doors.sqs.wire.faults import SqsError, missing, wrong_value
from longhall.errors import Code


def refusal_of_settle(code: Code | None, receipt: str, fifo: bool) -> SqsError | None:
    """The error of a delete; None if the action reports success."""
    if code is None or code is Code.NOT_IN_FLIGHT:
        return None
    if code is Code.RECEIPT_SUPERSEDED:
        return wrong_value("ReceiptHandle", receipt, "The receipt handle has expired.") if fifo else None
    return error_of(code)


def refusal_of_change(code: Code | None, receipt: str) -> SqsError | None:
    """The error of a change of visibility; None if it succeeded."""
    if code is None:
        return None
    if code is Code.RECEIPT_SUPERSEDED:
        reason = "Message does not exist or is not available for visibility timeout change."
        return wrong_value("ReceiptHandle", receipt, reason)
    return error_of(code)


def check_visibility(door: Door, seconds: int | None) -> int:
    """A lease in milliseconds. Raises SqsError."""
    if seconds is None:
        raise missing("VisibilityTimeout")
    if not 0 <= seconds <= door.limits.visibility_s_max:
        reason = f"VisibilityTimeout must be an integer between 0 and {door.limits.visibility_s_max}."
        raise wrong_value("VisibilityTimeout", seconds, reason)
    return seconds * 1000
