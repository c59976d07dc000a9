"""ConsumerGroupHeartbeat: a member of a group with server-side assignment joins, stays or leaves."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from longhall.doors.kafka.wire.messages.group_assignments import HeartbeatAssignment, HeartbeatTopic
from longhall.topics.assignment import Assigned
from longhall.topics.effects import ConsumerHeartbeat

OWN_MEMBER_IDS_FROM = 1  # Members generate their ids themselves (KIP-1082).


async def handle(door: Door, request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    fresh = "" if call.header.version >= OWN_MEMBER_IDS_FROM else door.hall.world.entropy.bytes(16).hex()
    owned = request.topic_partitions
    names = request.subscribed_topic_names
    result = await door.coordinator.consumer_heartbeat(
        ConsumerHeartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=None if names is None else tuple(names),
            pattern=request.subscribed_topic_regex,
            assignor=request.server_assignor,
            owned=None if owned is None else tuple((row.topic_id, tuple(row.partitions)) for row in owned),
            client_id=call.header.client_id or "",
            client_host=f"/{call.peer}",
            fresh_member_id=fresh,
        )
    )
    return ConsumerGroupHeartbeatResponse(
        error_code=error_of(result.code),
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assigned is None else _assignment(result.assigned),
    )


def _assignment(rows: Assigned) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=[
            HeartbeatTopic(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in rows
        ]
    )
