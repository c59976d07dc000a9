"""AddPermission: one more statement in the queue's access policy."""

from __future__ import annotations

from longhall.doors.sqs.attributes import changed_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.policies import with_permission
from longhall.doors.sqs.wire.requests import AddPermissionRequest
from longhall.doors.sqs.wire.results import Nothing
from longhall.service.queue_operations import ConfigureQueue


async def add_permission(door: Door, request: AddPermissionRequest, caller: Caller) -> Nothing:
    view = await door.queue(request.queue_url, caller)
    before = view.settings.door.get("Policy", "")
    policy = with_permission(door, view.name, before, request.label, request.account_ids, request.actions)
    settings = changed_settings(door, view.name, view.settings, {"Policy": policy})
    await door.service.call(ConfigureQueue(view.name, settings), caller.identity)
    return Nothing()
