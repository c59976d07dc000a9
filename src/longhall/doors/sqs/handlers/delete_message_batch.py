"""DeleteMessageBatch: up to ten messages, each with its own fate."""

from __future__ import annotations

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door, Held
from longhall.doors.sqs.errors import failed_entry
from longhall.doors.sqs.settling import refusal_of_settle
from longhall.doors.sqs.wire.requests import DeleteMessageBatchRequest
from longhall.doors.sqs.wire.results import BatchResultEntry, DeleteMessageBatchResult


def delete_message_batch(door: Door, request: DeleteMessageBatchRequest, caller: Caller) -> Held:
    view = door.queue(request.queue_url)
    check_batch(request.entries, "DeleteMessageBatchRequestEntry")
    codes = door.queues.settle_nowait(view.name, [entry.receipt_handle for entry in request.entries])
    result = DeleteMessageBatchResult(successful=[], failed=[])
    for entry, code in zip(request.entries, codes, strict=True):
        error = refusal_of_settle(code, entry.receipt_handle, view.settings.fifo)
        if error is None:
            result.successful.append(BatchResultEntry(id=entry.id))
        else:
            result.failed.append(failed_entry(entry.id, error))
    return Held(view.name, result)
