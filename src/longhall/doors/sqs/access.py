"""Refusals for want of a permission, as AWS words them."""

from __future__ import annotations

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.wire import faults
from longhall.doors.sqs.wire.faults import SqsError
from longhall.front.permissions import AccessRefused


def denied(error: AccessRefused, action: str, door: Door) -> SqsError:
    """The error of an action that the caller may not do. A queue that it may not see does not exist for it; that it may
    not create one says nothing about which there are.
    """
    if error.hidden and action != "CreateQueue":
        return SqsError(faults.NO_SUCH_QUEUE, faults.NO_SUCH_QUEUE_MESSAGE)
    user = f"arn:aws:iam::{door.account}:{f'user/{error.user}' if error.user else 'anonymous'}"
    performed = f"sqs:{action.lower()}"
    said = f"User: {user} is not authorized to perform: {performed} on resource: {door.arn(error.need.name)}"
    return SqsError(faults.ACCESS_DENIED, f"{said} because no identity-based policy allows the {performed} action")
