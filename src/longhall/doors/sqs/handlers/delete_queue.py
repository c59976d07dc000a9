"""DeleteQueue: the queue and everything in it."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import DeleteQueueRequest
from longhall.doors.sqs.wire.results import Nothing


async def delete_queue(door: Door, request: DeleteQueueRequest, caller: Caller) -> Nothing:
    name = door.queue(request.queue_url).name
    await door.queues.delete(name)
    door.names.deleted(name)
    return Nothing()
