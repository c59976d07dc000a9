"""DeleteMessage."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.settling import refusal_of_settle
from longhall.doors.sqs.wire.requests import DeleteMessageRequest
from longhall.doors.sqs.wire.results import Nothing


async def delete_message(door: Door, request: DeleteMessageRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    (code,) = await door.queues.settle(view.name, [request.receipt_handle])
    if code is not None and (error := refusal_of_settle(code, request.receipt_handle, view.settings.fifo)):
        raise error
    return Nothing()
