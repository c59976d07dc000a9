"""DeleteQueue: delete a queue with its messages."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import DeleteQueueRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import DeleteQueue


async def delete_queue(door: Door, request: DeleteQueueRequest, caller: Caller) -> Nothing:
    await door.service.call(DeleteQueue(door.name_of(request.queue_url)), caller.identity)
    return Nothing()
