"""ChangeMessageVisibilityBatch: up to ten leases, each with its own fate."""

from __future__ import annotations

from longhall.doors.sqs.batches import check_batch
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.errors import failed_entry
from longhall.doors.sqs.settling import check_visibility, refusal_of_change
from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.requests import ChangeMessageVisibilityBatchRequest
from longhall.doors.sqs.wire.results import BatchResultEntry, ChangeMessageVisibilityBatchResult


async def change_message_visibility_batch(
    door: Door, request: ChangeMessageVisibilityBatchRequest, caller: Caller
) -> ChangeMessageVisibilityBatchResult:
    view = door.queue(request.queue_url)
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
    codes = await door.queues.change_lease(view.name, changes, caller.access_key) if changes else []
    for entry_id, (receipt, _), code in zip(ids, changes, codes, strict=True):
        refusal = refusal_of_change(code, receipt)
        if refusal is None:
            result.successful.append(BatchResultEntry(id=entry_id))
        else:
            result.failed.append(failed_entry(entry_id, refusal))
    return result
