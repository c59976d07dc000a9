"""RemovePermission: one statement less in the queue's access policy."""

from __future__ import annotations

from longhall.doors.sqs.attributes import changed_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.policies import without_permission
from longhall.doors.sqs.wire.requests import RemovePermissionRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import ConfigureQueue


async def remove_permission(door: Door, request: RemovePermissionRequest, caller: Caller) -> Nothing:
    view = await door.queue(request.queue_url, caller)
    policy = without_permission(door, view.name, view.settings.door.get("Policy", ""), request.label)
    settings = changed_settings(door, view.name, view.settings, {"Policy": policy})
    await door.service.call(ConfigureQueue(view.name, settings), caller.identity)
    return Nothing()
