"""FindCoordinator: the coordinator of a group or a transactional id; a lone node coordinates all of them."""

from __future__ import annotations

from longhall.doors.kafka.brokers import Broker, coordinator_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import (
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from longhall.errors import Code

SHARE_FROM = 6
NONE = Broker(-1, "", -1)


def handle(door: Door, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    known = request.key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION) or (
        request.key_type == CoordinatorType.SHARE and call.header.version >= SHARE_FROM
    )
    if call.header.version < 4:
        host, code = _find(door, request.key, known)
        return FindCoordinatorResponse(error_code=code, node_id=host.node_id, host=host.host, port=host.port)
    return FindCoordinatorResponse(coordinators=[_row(door, key, known) for key in request.coordinator_keys])


def _row(door: Door, key: str, known: bool) -> FindCoordinatorResponseCoordinator:
    host, code = _find(door, key, known)
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=host.node_id, host=host.host, port=host.port, error_code=code
    )


def _find(door: Door, key: str, known: bool) -> tuple[Broker, int]:
    if not known:
        return NONE, error_of(Code.INVALID_REQUEST)
    host = coordinator_of(door, key)  # One node leads all shards, so it does not matter which of them a key has.
    return (host, 0) if host is not None else (NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
