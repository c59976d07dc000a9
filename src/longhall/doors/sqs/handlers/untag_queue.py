"""UntagQueue: tags are taken away; one that is not there is no error."""

from __future__ import annotations

import msgspec

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import missing
from longhall.doors.sqs.wire.requests import UntagQueueRequest
from longhall.doors.sqs.wire.results import Nothing


async def untag_queue(door: Door, request: UntagQueueRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    if not request.tag_keys:
        raise missing("TagKeys")
    gone = frozenset(request.tag_keys)
    tags = {key: value for key, value in view.settings.tags.items() if key not in gone}
    await door.queues.configure(view.name, msgspec.structs.replace(view.settings, tags=tags))
    return Nothing()
