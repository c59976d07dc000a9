"""PurgeQueue: remove all messages of a queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import PURGE_IN_PROGRESS, SqsError
from longhall.doors.sqs.wire.requests import PurgeQueueRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.errors import Code, LonghallError
from longhall.service.queue_operations import PurgeQueue


async def purge_queue(door: Door, request: PurgeQueueRequest, caller: Caller) -> Nothing:
    name = door.name_of(request.queue_url)
    apart_ms = door.limits.purge_apart_ms
    try:
        await door.service.call(PurgeQueue(name, apart_ms), caller.identity)
    except LonghallError as error:
        if error.code is not Code.PURGE_RUNNING:
            raise
        said = f"Only one PurgeQueue operation on {name} is allowed every {-(-apart_ms // 1000)} seconds."
        raise SqsError(PURGE_IN_PROGRESS, said) from None
    return Nothing()
