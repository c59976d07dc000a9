"""GetQueueAttributes: the settings of a queue and its approximate message counts."""

from __future__ import annotations

from longhall.doors.sqs.attributes import read_attributes
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.requests import GetQueueAttributesRequest
from longhall.doors.sqs.wire.results import GetQueueAttributesResult
from longhall.service.queue_operations import MeasureQueue


async def get_queue_attributes(
    door: Door, request: GetQueueAttributesRequest, caller: Caller
) -> GetQueueAttributesResult:
    view = await door.queue(request.queue_url, caller)
    depth = await door.service.call(MeasureQueue(view.name), caller.identity)
    names = request.attribute_names or ()
    return GetQueueAttributesResult(attributes=read_attributes(door, view, names, depth))
