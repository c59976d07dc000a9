"""AddPermission: one more statement in the queue's access policy."""

from __future__ import annotations

from longhall.doors.sqs.attributes import changed_settings
from longhall.doors.sqs.door import Caller, Door
from longhall.doors.sqs.policies import with_permission
from longhall.doors.sqs.wire.requests import AddPermissionRequest
from longhall.doors.sqs.wire.results import Nothing


async def add_permission(door: Door, request: AddPermissionRequest, caller: Caller) -> Nothing:
    view = door.queue(request.queue_url)
    before = view.settings.door.get("Policy", "")
    policy = with_permission(door, view.name, before, request.label, request.account_ids, request.actions)
    await door.queues.configure(view.name, changed_settings(door, view.name, view.settings, {"Policy": policy}))
    return Nothing()
