"""ShareGroupHeartbeat: join a share group, stay in it, leave it."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.group_assignments import HeartbeatAssignment, HeartbeatTopic
from longhall.doors.kafka.wire.messages.share_groups import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from longhall.errors import LonghallError
from longhall.topics.share_groups import Assignment, ShareHeartbeat


async def handle(door: Door, request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    heartbeat = ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        None if names is None else tuple(names),
        request.rack_id,
        call.header.client_id or "",
        f"/{call.peer}",
    )
    try:
        epoch, assigned, interval_ms = await door.share_groups.heartbeat(heartbeat)
    except LonghallError as error:
        return ShareGroupHeartbeatResponse(error_code=error_of(error.code), error_message=str(error))
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=None if assigned is None else _assignment(assigned),
    )


def _assignment(assigned: Assignment) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=[
            HeartbeatTopic(topic_id=topic_id, partitions=list(range(count))) for topic_id, _, count in assigned
        ]
    )
