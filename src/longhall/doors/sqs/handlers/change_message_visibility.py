"""ChangeMessageVisibility: set the remaining time of a lease; 0 returns the message to the queue."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.settling import check_visibility, refusal_of_change
from longhall.doors.sqs.wire.requests import ChangeMessageVisibilityRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.errors import Code
from longhall.queues.messages import QueueView
from longhall.service.queue_operations import ChangeLeases


def change_message_visibility(
    door: Door, view: QueueView, request: ChangeMessageVisibilityRequest, caller: Caller
) -> Later:
    change = (request.receipt_handle, check_visibility(door, request.visibility_timeout))
    return Later(door.service.call(ChangeLeases(view.name, [change]), caller.identity), partial(_result, request))


def _result(request: ChangeMessageVisibilityRequest, codes: list[Code | None]) -> Nothing:
    (code,) = codes
    if error := refusal_of_change(code, request.receipt_handle):
        raise error
    return Nothing()
