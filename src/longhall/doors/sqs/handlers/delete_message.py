"""DeleteMessage."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.settling import refusal_of_settle
from longhall.doors.sqs.wire.requests import DeleteMessageRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.errors import Code
from longhall.queues.messages import QueueView


def delete_message(door: Door, request: DeleteMessageRequest, caller: Caller) -> Held | Coroutine[Any, Any, Nothing]:
    view = door.queue(request.queue_url)
    codes = door.queues.settle_nowait(view.name, [request.receipt_handle], caller.access_key)
    if codes is None:
        return _wait(view, request, door.queues.settle(view.name, [request.receipt_handle], caller.access_key))
    return Held(view.name, _result(view, request, codes))


async def _wait(
    view: QueueView, request: DeleteMessageRequest, codes: Coroutine[Any, Any, list[Code | None]]
) -> Nothing:
    return _result(view, request, await codes)


def _result(view: QueueView, request: DeleteMessageRequest, codes: list[Code | None]) -> Nothing:
    (code,) = codes
    if code is not None and (error := refusal_of_settle(code, request.receipt_handle, view.settings.fifo)):
        raise error
    return Nothing()
