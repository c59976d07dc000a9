"""GetQueueUrl: the URL of an existing queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError
from longhall.doors.sqs.wire.requests import GetQueueUrlRequest
from longhall.doors.sqs.wire.results import GetQueueUrlResult
from longhall.service.queue_operations import DescribeQueue


async def get_queue_url(door: Door, request: GetQueueUrlRequest, caller: Caller) -> GetQueueUrlResult:
    if not request.queue_name:
        raise SqsError(
            INVALID_PARAMETER, "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
        )
    await door.service.call(DescribeQueue(request.queue_name), caller.identity)
    return GetQueueUrlResult(queue_url=door.url(request.queue_name, caller))
