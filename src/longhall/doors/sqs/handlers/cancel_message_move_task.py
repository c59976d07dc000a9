"""CancelMessageMoveTask: what was moved stays moved."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.moves import open_handle, queue_at
from longhall.doors.sqs.wire.requests import CancelMessageMoveTaskRequest
from longhall.doors.sqs.wire.results import CancelMessageMoveTaskResult
from longhall.service.queue_operations import CancelMove


async def cancel_message_move_task(
    door: Door, request: CancelMessageMoveTaskRequest, caller: Caller
) -> CancelMessageMoveTaskResult:
    task_id, source_arn = open_handle(request.task_handle)
    source = await queue_at(door, "SourceArn", source_arn, caller)
    task = await door.service.call(CancelMove(task_id, source.name), caller.identity)
    return CancelMessageMoveTaskResult(approximate_number_of_messages_moved=task.moved)
