"""StartMessageMoveTask: move dead letters back to their source, or to a given queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.moves import handle_of, queue_at
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError, wrong_value
from longhall.doors.sqs.wire.requests import StartMessageMoveTaskRequest
from longhall.doors.sqs.wire.results import StartMessageMoveTaskResult
from longhall.service.queue_operations import ListDeadLetterSources, StartMove

RATE_MAX = 500


async def start_message_move_task(
    door: Door, request: StartMessageMoveTaskRequest, caller: Caller
) -> StartMessageMoveTaskResult:
    source = await queue_at(door, "SourceArn", request.source_arn, caller)
    if not await door.service.call(ListDeadLetterSources(source.name), caller.identity):
        raise SqsError(INVALID_PARAMETER, "Source queue must be configured as a Dead Letter Queue.")
    target = ""
    if request.destination_arn:
        view = await queue_at(door, "DestinationArn", request.destination_arn, caller)
        if view.name == source.name or view.settings.fifo != source.settings.fifo:
            reason = "The destination must be another queue of the same type as the source."
            raise wrong_value("DestinationArn", request.destination_arn, reason)
        target = view.name
    rate_max = request.max_number_of_messages_per_second
    if rate_max is not None and not 1 <= rate_max <= RATE_MAX:
        raise wrong_value("MaxNumberOfMessagesPerSecond", rate_max, f"Must be between 1 and {RATE_MAX}, if provided.")
    task = await door.service.call(StartMove(source.name, target, rate_max or 0), caller.identity)
    return StartMessageMoveTaskResult(task_handle=handle_of(door, task))
