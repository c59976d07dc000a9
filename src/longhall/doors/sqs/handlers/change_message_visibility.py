"""ChangeMessageVisibility: the lease holds so long from now; 0 gives the message back."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.settling import check_visibility, refusal_of_change
from longhall.doors.sqs.wire.requests import ChangeMessageVisibilityRequest
from longhall.doors.sqs.wire.results import Nothing


async def change_message_visibility(door: Door, request: ChangeMessageVisibilityRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    lease_ms = check_visibility(door, request.visibility_timeout)
    (code,) = await door.queues.change_lease(view.name, [(request.receipt_handle, lease_ms)], caller.access_key)
    if error := refusal_of_change(code, request.receipt_handle):
        raise error
    return Nothing()
