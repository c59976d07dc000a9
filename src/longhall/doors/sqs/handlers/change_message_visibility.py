"""ChangeMessageVisibility: set the remaining time of a lease; 0 returns the message to the queue."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.settling import changing, check_visibility, refusal_of_change
from longhall.doors.sqs.wire.requests import ChangeMessageVisibilityRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.errors import Code
from longhall.queues.messages import QueueView


def change_message_visibility(
    door: Door, view: QueueView, request: ChangeMessageVisibilityRequest, caller: Caller
) -> Later:
    change = (request.receipt_handle, check_visibility(door, request.visibility_timeout))
    pending = door.service.call(changing(door, view, [change]), caller.identity)
    return Later(pending, partial(_result, door, change))


def _result(door: Door, change: tuple[str, int], codes: list[Code | None]) -> Nothing:
    (code,) = codes
    if error := refusal_of_change(door, code, *change):
        raise error
    return Nothing()
