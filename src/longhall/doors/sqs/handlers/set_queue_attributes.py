"""SetQueueAttributes: change all given attributes, or none."""

from __future__ import annotations

from longhall.doors.sqs.attributes import changed_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.policies import check_dead_letters
from longhall.doors.sqs.wire.faults import missing
from longhall.doors.sqs.wire.requests import SetQueueAttributesRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import ConfigureQueue


async def set_queue_attributes(door: Door, request: SetQueueAttributesRequest, caller: Caller) -> Nothing:
    view = await door.queue(request.queue_url, caller)
    if not request.attributes:
        raise missing("Attribute.Name")
    settings = changed_settings(door, view.name, view.settings, request.attributes)
    if request.attributes.get("RedrivePolicy"):
        await check_dead_letters(door, view.name, settings, caller)
    await door.service.call(ConfigureQueue(view.name, settings, key_later=True), caller.identity)
    return Nothing()
