"""GetQueueAttributes: what is set, and how full it is."""

from __future__ import annotations

from longhall.doors.sqs.attributes import read_attributes
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import GetQueueAttributesRequest
from longhall.doors.sqs.wire.results import GetQueueAttributesResult


async def get_queue_attributes(
    door: Door, request: GetQueueAttributesRequest, caller: Caller
) -> GetQueueAttributesResult:
    view = door.queue(request.queue_url)
    names = request.attribute_names or ()
    return GetQueueAttributesResult(attributes=read_attributes(door, view, names, await door.queues.weigh(view.name)))
