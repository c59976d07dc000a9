"""UntagQueue: remove tags; a missing tag is no error."""

from __future__ import annotations

import msgspec

from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.wire.faults import INVALID_PARAMETER, SqsError
from longhall.doors.sqs.wire.requests import UntagQueueRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import ConfigureQueue


async def untag_queue(door: Door, request: UntagQueueRequest, caller: Caller) -> Nothing:
    view = await door.queue(request.queue_url, caller)
    if not request.tag_keys:
        raise SqsError(INVALID_PARAMETER, "Tag keys must be between 1 and 128 characters in length.")
    gone = frozenset(request.tag_keys)
    tags = {key: value for key, value in view.settings.tags.items() if key not in gone}
    settings = msgspec.structs.replace(view.settings, tags=tags)
    await door.service.call(ConfigureQueue(view.name, settings), caller.identity)
    return Nothing()
