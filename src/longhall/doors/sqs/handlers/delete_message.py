"""DeleteMessage: settle one message."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.settling import refusal_of_settle, settling
from longhall.doors.sqs.wire.requests import DeleteMessageRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.errors import Code
from longhall.queues.messages import QueueView


def delete_message(door: Door, view: QueueView, request: DeleteMessageRequest, caller: Caller) -> Later:
    pending = door.service.call(settling(view, [request.receipt_handle]), caller.identity)
    return Later(pending, partial(_result, view, request))


def _result(view: QueueView, request: DeleteMessageRequest, codes: list[Code | None]) -> Nothing:
    (code,) = codes
    if code is not None and (error := refusal_of_settle(view, code, request.receipt_handle)):
        raise error
    return Nothing()
