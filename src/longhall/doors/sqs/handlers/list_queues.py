"""ListQueues: by prefix, in pages."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.pages import page
from longhall.doors.sqs.wire.requests import ListQueuesRequest
from longhall.doors.sqs.wire.results import ListQueuesResult
from longhall.service.queue_operations import ListQueues


async def list_queues(door: Door, request: ListQueuesRequest, caller: Caller) -> ListQueuesResult:
    found = await door.service.call(ListQueues(request.queue_name_prefix or ""), caller.identity)
    names, token = page(found, request.max_results, request.next_token)
    return ListQueuesResult(queue_urls=[door.url(name, caller) for name in names], next_token=token)
