"""ListDeadLetterSourceQueues: the queues whose dead letters go to this queue, in pages."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.pages import page
from longhall.doors.sqs.wire.requests import ListDeadLetterSourceQueuesRequest
from longhall.doors.sqs.wire.results import ListDeadLetterSourceQueuesResult
from longhall.service.queue_operations import ListDeadLetterSources


async def list_dead_letter_source_queues(
    door: Door, request: ListDeadLetterSourceQueuesRequest, caller: Caller
) -> ListDeadLetterSourceQueuesResult:
    view = await door.queue(request.queue_url, caller)
    sources = await door.service.call(ListDeadLetterSources(view.name), caller.identity)
    names, token = page(sources, request.max_results, request.next_token)
    urls = [door.url(name, caller) for name in names]
    return ListDeadLetterSourceQueuesResult(queue_urls=urls, next_token=token)
