"""SetQueueAttributes: all that are named, or none."""

from __future__ import annotations

from longhall.doors.sqs.attributes import changed_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import missing
from longhall.doors.sqs.wire.requests import SetQueueAttributesRequest
from longhall.doors.sqs.wire.results import Nothing


async def set_queue_attributes(door: Door, request: SetQueueAttributesRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    if not request.attributes:
        raise missing("Attribute.Name")
    await door.queues.configure(view.name, changed_settings(door, view.name, view.settings, request.attributes))
    return Nothing()
