"""ListQueueTags: the tags of a queue."""

from __future__ import annotations

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import ListQueueTagsRequest
from longhall.doors.sqs.wire.results import ListQueueTagsResult


async def list_queue_tags(door: Door, request: ListQueueTagsRequest, caller: Caller) -> ListQueueTagsResult:
    return ListQueueTagsResult(tags=(await door.queue(request.queue_url, caller)).settings.tags)
