"""FindCoordinator: on one node, always this one."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.cluster import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

GROUP = 0
TRANSACTION = 1
INVALID_REQUEST = 42


def handle(door: Door, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    known = request.key_type in (GROUP, TRANSACTION)
    if call.header.version < 4:
        if not known:
            return FindCoordinatorResponse(error_code=INVALID_REQUEST, node_id=-1, host="", port=-1)
        return FindCoordinatorResponse(node_id=door.node_id, host=door.host, port=door.port)
    return FindCoordinatorResponse(coordinators=[_row(door, key, known) for key in request.coordinator_keys])


def _row(door: Door, key: str, known: bool) -> FindCoordinatorResponseCoordinator:
    if not known:
        return FindCoordinatorResponseCoordinator(key=key, node_id=-1, port=-1, error_code=INVALID_REQUEST)
    return FindCoordinatorResponseCoordinator(key=key, node_id=door.node_id, host=door.host, port=door.port)
