"""TagQueue: add tags; an existing tag gets the new value."""

from __future__ import annotations

import msgspec

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.tags import check_tags
from longhall.doors.sqs.wire.faults import missing
from longhall.doors.sqs.wire.requests import TagQueueRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import ConfigureQueue


async def tag_queue(door: Door, request: TagQueueRequest, caller: Caller) -> Nothing:
    view = await door.queue(request.queue_url, caller)
    if not request.tags:
        raise missing("Tags")
    tags = check_tags(view.name, {**view.settings.tags, **check_tags(view.name, request.tags)})
    settings = msgspec.structs.replace(view.settings, tags=tags)
    await door.service.call(ConfigureQueue(view.name, settings), caller.identity)
    return Nothing()
