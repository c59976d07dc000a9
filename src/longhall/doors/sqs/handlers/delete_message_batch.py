"""DeleteMessageBatch: up to ten messages, each with its own fate."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.errors import failed_entry
from longhall.doors.sqs.settling import refusal_of_settle
from longhall.doors.sqs.wire.requests import DeleteMessageBatchRequest
from longhall.doors.sqs.wire.results import BatchResultEntry, DeleteMessageBatchResult
from longhall.errors import Code
from longhall.queues.messages import QueueView


def delete_message_batch(
    door: Door, request: DeleteMessageBatchRequest, caller: Caller
) -> Held | Coroutine[Any, Any, DeleteMessageBatchResult]:
    view = door.queue(request.queue_url)
    check_batch(request.entries, "DeleteMessageBatchRequestEntry")
    receipts = [entry.receipt_handle for entry in request.entries]
    codes = door.queues.settle_nowait(view.name, receipts, caller.access_key)
    if codes is None:
        return _wait(view, request, door.queues.settle(view.name, receipts, caller.access_key))
    return Held(view.name, _result(view, request, codes))


async def _wait(
    view: QueueView, request: DeleteMessageBatchRequest, codes: Coroutine[Any, Any, list[Code | None]]
) -> DeleteMessageBatchResult:
    return _result(view, request, await codes)


def _result(view: QueueView, request: DeleteMessageBatchRequest, codes: list[Code | None]) -> DeleteMessageBatchResult:
    result = DeleteMessageBatchResult(successful=[], failed=[])
    for entry, code in zip(request.entries, codes, strict=True):
        error = None if code is None else refusal_of_settle(code, entry.receipt_handle, view.settings.fifo)
        if error is None:
            result.successful.append(BatchResultEntry(id=entry.id))
        else:
            result.failed.append(failed_entry(entry.id, error))
    return result
