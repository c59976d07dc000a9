"""ListMessageMoveTasks: the newest tasks of a queue. Only a running task has a handle, which serves to cancel it."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.moves import failure_of, handle_of, queue_at
from longhall.doors.sqs.wire.faults import wrong_value
from longhall.doors.sqs.wire.requests import ListMessageMoveTasksRequest
from longhall.doors.sqs.wire.results import ListMessageMoveTasksResult, ListMessageMoveTasksResultEntry
from longhall.queues.messages import MoveTask
from longhall.service.queue_operations import ListMoves

RESULTS_MAX = 10


async def list_message_move_tasks(
    door: Door, request: ListMessageMoveTasksRequest, caller: Caller
) -> ListMessageMoveTasksResult:
    count = 1 if request.max_results is None else request.max_results
    if not 1 <= count <= RESULTS_MAX:
        raise wrong_value("MaxResults", count, f"Must be between 1 and {RESULTS_MAX}, if provided.")
    source = await queue_at(door, "SourceArn", request.source_arn, caller)
    moves = await door.service.call(ListMoves(source.name), caller.identity)
    tasks = sorted(moves, key=lambda task: -task.started_ms)
    return ListMessageMoveTasksResult(results=[_entry(door, task) for task in tasks[:count]])


def _entry(door: Door, task: MoveTask) -> ListMessageMoveTasksResultEntry:
    return ListMessageMoveTasksResultEntry(
        task_handle=handle_of(door, task) if task.state == "RUNNING" else None,
        status=task.state,
        source_arn=door.arn(task.source),
        destination_arn=door.arn(task.target) if task.target else None,
        max_number_of_messages_per_second=task.rate_max or None,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=failure_of(task),
        started_timestamp=task.started_ms,
    )
