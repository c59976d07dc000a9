"""DeleteMessageBatch: settle up to ten messages, each with its own result."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.errors import failed_entry
from longhall.doors.sqs.settling import refusal_of_settle, settling
from longhall.doors.sqs.wire.requests import DeleteMessageBatchRequest
from longhall.doors.sqs.wire.results import BatchResultEntry, BatchResultErrorEntry, DeleteMessageBatchResult
from longhall.errors import Code
from longhall.queues.messages import QueueView


def delete_message_batch(door: Door, view: QueueView, request: DeleteMessageBatchRequest, caller: Caller) -> Later:
    check_batch(request.entries, "DeleteMessageBatchRequestEntry")
    receipts = [entry.receipt_handle for entry in request.entries]
    pending = door.service.call(settling(view, receipts), caller.identity)
    return Later(pending, partial(_result, view, request))


def _result(view: QueueView, request: DeleteMessageBatchRequest, codes: list[Code | None]) -> DeleteMessageBatchResult:
    successful: list[BatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []
    for entry, code in zip(request.entries, codes, strict=True):
        error = None if code is None else refusal_of_settle(view, code, entry.receipt_handle)
        if error is None:
            successful.append(BatchResultEntry(id=entry.id))
        else:
            failed.append(failed_entry(entry.id, error))
    return DeleteMessageBatchResult(successful=successful, failed=failed)
