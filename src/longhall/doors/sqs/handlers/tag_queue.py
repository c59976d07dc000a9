"""TagQueue: tags are added; one that is there gets the new value."""

from __future__ import annotations

import msgspec

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.tags import check_tags
from longhall.doors.sqs.wire.faults import missing
from longhall.doors.sqs.wire.requests import TagQueueRequest
from longhall.doors.sqs.wire.results import Nothing


async def tag_queue(door: Door, request: TagQueueRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    if not request.tags:
        raise missing("Tags")
    tags = check_tags({**view.settings.tags, **check_tags(request.tags)})
    await door.queues.configure(view.name, msgspec.structs.replace(view.settings, tags=tags))
    return Nothing()
