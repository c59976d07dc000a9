"""PurgeQueue: remove all messages of a queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import PurgeQueueRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import PurgeQueue


async def purge_queue(door: Door, request: PurgeQueueRequest, caller: Caller) -> Nothing:
    await door.service.call(PurgeQueue(door.name_of(request.queue_url)), caller.identity)
    return Nothing()
