"""PurgeQueue: everything in the queue, but not the queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import PurgeQueueRequest
from longhall.doors.sqs.wire.results import Nothing


async def purge_queue(door: Door, request: PurgeQueueRequest, caller: Caller) -> Nothing:
    await door.queues.purge(door.queue(request.queue_url).name)
    return Nothing()
