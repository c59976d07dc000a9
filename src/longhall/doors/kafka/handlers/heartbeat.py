"""Heartbeat: a member keeps its session."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.groups import HeartbeatRequest, HeartbeatResponse


def handle(door: Door, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    code = door.coordinator.heartbeat(
        request.group_id, request.member_id, request.generation_id, request.group_instance_id
    )
    return HeartbeatResponse(error_code=error_of(code))
