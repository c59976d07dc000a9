"""ShareAcknowledge: acknowledge records that a share member holds, without acquiring more."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.share_exchange import (
    LeaderNames,
    ShareRefusal,
    check_ids,
    open_exchange,
    release_session,
)
from longhall.doors.kafka.share_sessions import FINAL, INITIAL, Place
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.share_records import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseTopic,
)
from longhall.errors import Code


async def handle(door: Door, request: ShareAcknowledgeRequest, call: Call) -> ShareAcknowledgeResponse:
    refused = check_ids(request.group_id, request.member_id)
    if refused is None and request.share_session_epoch == INITIAL:
        refused = ShareRefusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "An acknowledgement opens no share session.")
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused.error_code, error_message=refused.message)
    if door.follows:
        not_leader = ShareRefusal(error_of(Code.NOT_LEADER))
        return _response(door, dict.fromkeys(_places(request), not_leader), 0)
    exchange = await open_exchange(door, request, call.connection.number)
    if isinstance(exchange, ShareRefusal):
        return ShareAcknowledgeResponse(error_code=exchange.error_code, error_message=exchange.message)
    results: dict[Place, ShareRefusal | None] = {}
    for topic in request.topics:
        for part in topic.partitions:
            place = (topic.topic_id, part.partition_index)
            results[place] = await exchange.acknowledge(place, part.acknowledgement_batches, request.is_renew_ack)
    if request.share_session_epoch == FINAL:
        door.share_sessions.close(exchange.session)
        await release_session(door, exchange.session)
    await exchange.committed()
    return _response(door, results, exchange.lock_ms)


def _places(request: ShareAcknowledgeRequest) -> list[Place]:
    return [(topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions]


def _response(door: Door, results: dict[Place, ShareRefusal | None], lock_ms: int) -> ShareAcknowledgeResponse:
    names = LeaderNames(door)
    topics: dict[bytes, list[ShareAcknowledgeResponsePartition]] = {}
    for place, refusal in results.items():
        row = ShareAcknowledgeResponsePartition(partition_index=place[1], current_leader=names.of(place, refusal))
        if refusal is not None:
            row.error_code, row.error_message = refusal.error_code, refusal.message
        topics.setdefault(place[0], []).append(row)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[ShareAcknowledgeResponseTopic(topic_id=key, partitions=rows) for key, rows in topics.items()],
        node_endpoints=names.endpoints(),
    )
