"""GetQueueUrl: where a queue is."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door, no_such_queue
from longhall.doors.sqs.wire.requests import GetQueueUrlRequest
from longhall.doors.sqs.wire.results import GetQueueUrlResult


def get_queue_url(door: Door, request: GetQueueUrlRequest, caller: Caller) -> GetQueueUrlResult:
    if door.queues.view(request.queue_name) is None:
        raise no_such_queue()
    return GetQueueUrlResult(queue_url=door.url(request.queue_name, caller.host))
