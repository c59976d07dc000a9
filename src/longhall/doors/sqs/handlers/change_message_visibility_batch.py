"""ChangeMessageVisibilityBatch: up to ten leases, each with its own result."""

from __future__ import annotations

from functools import partial

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door, Later
from longhall.doors.sqs.errors import failed_entry
from longhall.doors.sqs.settling import changing, check_visibility, refusal_of_change
from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.requests import ChangeMessageVisibilityBatchRequest
from longhall.doors.sqs.wire.results import BatchResultEntry, ChangeMessageVisibilityBatchResult, Result
from longhall.errors import Code
from longhall.queues.messages import QueueView


def change_message_visibility_batch(
    door: Door, view: QueueView, request: ChangeMessageVisibilityBatchRequest, caller: Caller
) -> Result | Later:
    check_batch(request.entries, "ChangeMessageVisibilityBatchRequestEntry")
    result = ChangeMessageVisibilityBatchResult(successful=[], failed=[])
    ids: list[str] = []
    changes: list[tuple[str, int]] = []
    for entry in request.entries:
        try:
            changes.append((entry.receipt_handle, check_visibility(door, entry.visibility_timeout)))
            ids.append(entry.id)
        except SqsError as error:
            result.failed.append(failed_entry(entry.id, error))
    if not changes:
        return result
    pending = door.service.call(changing(door, view, changes), caller.identity)
    return Later(pending, partial(_result, door, result, ids, changes))


def _result(
    door: Door,
    result: ChangeMessageVisibilityBatchResult,
    ids: list[str],
    changes: list[tuple[str, int]],
    codes: list[Code | None],
) -> ChangeMessageVisibilityBatchResult:
    for entry_id, change, code in zip(ids, changes, codes, strict=True):
        refusal = refusal_of_change(door, code, *change)
        if refusal is None:
            result.successful.append(BatchResultEntry(id=entry_id))
        else:
            result.failed.append(failed_entry(entry_id, refusal))
    return result
