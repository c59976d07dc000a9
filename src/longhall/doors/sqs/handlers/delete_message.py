"""DeleteMessage."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.settling import refusal_of_settle
from longhall.doors.sqs.wire.requests import DeleteMessageRequest
from longhall.doors.sqs.wire.results import Nothing


def delete_message(door: Door, request: DeleteMessageRequest, caller: Caller) -> Held:
    view = door.queue(request.queue_url)
    (code,) = door.queues.settle_nowait(view.name, [request.receipt_handle])
    if code is not None and (error := refusal_of_settle(code, request.receipt_handle, view.settings.fifo)):
        raise error
    return Held(view.name, Nothing())
