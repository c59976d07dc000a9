"""ShareFetch: acknowledge records, and acquire others of the partitions of the share session."""

from __future__ import annotations

from typing import Final

from longhall.broker.fetch import PartitionFetch
from longhall.broker.share.acquisition import Wanted, return_range
from longhall.broker.share.share_fetch import fetch_shared
from longhall.broker.share.target import ShareTarget
from longhall.directory.access_rules import AccessAction
from longhall.doors.kafka.authorization import topic_error
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.limits import Transfer
from longhall.doors.kafka.sealing import KafkaSealing
from longhall.doors.kafka.share_exchange import (
    LeaderNames,
    ShareExchange,
    ShareRefusal,
    by_topic,
    check_ids,
    open_exchange,
    release_session,
)
from longhall.doors.kafka.share_sessions import FINAL, INITIAL, PARTITIONS_MAX, Place, ShareSession
from longhall.doors.kafka.throttle import throttle
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.share_records import (
    AcquiredRecords,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)
from longhall.errors import Code
from longhall.queues.marks import NO_LIMIT
from longhall.records.batch import parse_header

WAIT_MS_MAX: Final = 300_000
RECORD_LIMIT: Final = 1  # The acquire mode that never gives more than was asked for.

Refusals = dict[Place, ShareRefusal | None]


async def handle(door: Door, request: ShareFetchRequest, call: Call) -> ShareFetchResponse:
    door.hall.traffic.fetches += 1
    refused = check_ids(request.group_id, request.member_id) or _check(request)
    if refused is not None:
        return ShareFetchResponse(error_code=refused.error_code, error_message=refused.message)
    if door.follows:
        return _not_leader(door, request)
    exchange = await open_exchange(door, request, call.connection.number)
    if isinstance(exchange, ShareRefusal):
        return ShareFetchResponse(error_code=exchange.error_code, error_message=exchange.message)
    session = exchange.session
    if request.share_session_epoch != FINAL:
        _update(session, request)
    acknowledged: Refusals = {}
    for topic in request.topics:
        for part in topic.partitions:
            if part.acknowledgement_batches:
                place = (topic.topic_id, part.partition_index)
                refusal = _refusal(door, call, place)
                acknowledged[place] = refusal or await exchange.acknowledge(
                    place, part.acknowledgement_batches, request.is_renew_ack
                )
    targets: dict[Place, ShareTarget | ShareRefusal] = {}
    throttle_ms = _throttle_ms(door, call, session)
    if request.share_session_epoch == FINAL:
        door.share_sessions.close(session)
        await release_session(door, session)
    elif request.max_records > 0 and request.max_bytes > 0 and not request.is_renew_ack and not throttle_ms:
        targets = {place: _refusal(door, call, place) or await exchange.target(place) for place in session.partitions}
        await _fetch(door, request, exchange, session, targets, _wait_ms(request, targets))
        throttle_ms = _charge(door, call, targets)
    await exchange.committed()
    is_full = request.share_session_epoch == INITIAL
    response = _response(door, exchange, targets, acknowledged, is_full)
    response.throttle_time_ms = throttle_ms
    return response


def _throttle_ms(door: Door, call: Call, session: ShareSession) -> int:
    """How long a client that is over its limit has to wait: it acquires nothing until then. 0 if it need not wait."""
    if door.limits is None or not door.limits.active:
        return 0
    names = {door.hall.topic_name(topic_id) for topic_id, _ in session.partitions}
    return throttle(call.connection, door.limits.fetch_debt_ms(call, names))


def _charge(door: Door, call: Call, targets: dict[Place, ShareTarget | ShareRefusal]) -> int:
    """Charge what a client has acquired, and tell how long it has to wait."""
    if door.limits is None or not door.limits.active:
        return 0
    got: dict[str, Transfer] = {}
    for place, target in targets.items():
        if isinstance(target, ShareTarget) and target.acquired.records:
            name = door.hall.topic_name(place[0])
            before = got.get(name) or Transfer(name, 0, 0)
            messages = before.messages + target.acquired.records
            got[name] = Transfer(name, before.size_bytes + target.acquired.size_bytes, messages)
    return throttle(call.connection, door.limits.fetched(call, list(got.values())))


def _refusal(door: Door, call: Call, place: Place) -> ShareRefusal | None:
    """The refusal of a partition whose topic the client may not read; checked each time, because a session lasts."""
    error = topic_error(door, call.caller, AccessAction.READ, door.hall.topic_name(place[0]))
    return ShareRefusal(error, "Topic authorization failed.") if error else None


def _check(request: ShareFetchRequest) -> ShareRefusal | None:
    has_acknowledgements = any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions)
    if request.share_session_epoch == INITIAL and has_acknowledgements:
        return ShareRefusal(error_of(Code.INVALID_REQUEST), "A request that opens a session acknowledges nothing.")
    if request.share_session_epoch < FINAL:
        return ShareRefusal(error_of(Code.INVALID_REQUEST), "The epoch of a share session is not negative.")
    if request.share_acquire_mode not in (0, RECORD_LIMIT):
        return ShareRefusal(error_of(Code.INVALID_REQUEST), "The acquire mode is not known.")
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_MAX:
        return ShareRefusal(error_of(Code.INVALID_REQUEST), f"A session has at most {PARTITIONS_MAX} partitions.")
    return None


def _update(session: ShareSession, request: ShareFetchRequest) -> None:
    for topic in request.topics:
        for part in topic.partitions:
            if len(session.partitions) < PARTITIONS_MAX:
                session.partitions.setdefault((topic.topic_id, part.partition_index), None)
    for gone in request.forgotten_topics_data:
        for number in gone.partitions:
            session.partitions.pop((gone.topic_id, number), None)


def _wait_ms(request: ShareFetchRequest, targets: dict[Place, ShareTarget | ShareRefusal]) -> int:
    """How long the request may wait: not at all if one of its partitions is refused."""
    if any(isinstance(target, ShareRefusal) for target in targets.values()):
        return 0
    return max(0, min(request.max_wait_ms, WAIT_MS_MAX))


async def _fetch(
    door: Door,
    request: ShareFetchRequest,
    exchange: ShareExchange,
    session: ShareSession,
    targets: dict[Place, ShareTarget | ShareRefusal],
    wait_ms: int,
) -> None:
    wanted = Wanted(
        request.max_records,
        request.max_bytes,
        request.batch_size,
        request.share_acquire_mode == RECORD_LIMIT,
        session.consumer,
    )
    found = [target for target in targets.values() if isinstance(target, ShareTarget)]
    bytes_min = min(request.min_bytes, wanted.bytes_max)
    await fetch_shared(door.hall, found, wanted, exchange.settings, wait_ms, bytes_min)
    if door.sealing is not None:
        for one in found:
            await _open_sealed(door, door.sealing, one)
    for place, target in targets.items():
        if isinstance(target, ShareTarget) and target.acquired.records:
            target.partition.traffic.bytes_out += target.acquired.size_bytes
            session.turn(place)


async def _open_sealed(door: Door, sealing: KafkaSealing, target: ShareTarget) -> None:
    """Open the batches of a sealed queue. One that does not open is hidden until its leases end; what is behind it is
    returned at once. None of this is an attempt.
    """
    acquired = target.acquired
    opened: list[bytes] = []
    for batch in acquired.batches:
        fetched = PartitionFetch(target.partition, 0, 0, -1)
        fetched.buffers = [batch]
        if sealing.has_seals([fetched]):
            await sealing.open([door.hall.topic_name(target.partition.topic_id)], [fetched])
        if fetched.code is not None:
            header = parse_header(batch, 0)
            first, behind = header.base_offset, header.next_offset
            held = (door.hall, target.queue, target.holding, acquired)
            return_range(*held, first, behind, at_once=False)
            return_range(*held, behind, NO_LIMIT, at_once=True)
            if not opened:
                target.code, target.message = fetched.code, "The records cannot be opened: their key is not available."
            break
        opened.append(b"".join(fetched.buffers))
    acquired.batches = opened
    acquired.size_bytes = sum(map(len, opened))


def _response(
    door: Door,
    exchange: ShareExchange,
    targets: dict[Place, ShareTarget | ShareRefusal],
    acknowledged: Refusals,
    is_full: bool,
) -> ShareFetchResponse:
    names = LeaderNames(door)
    rows: dict[Place, ShareFetchResponsePartition] = {}
    for place, target in targets.items():
        row = _row(names, place, target)
        if is_full or row.error_code or row.acquired_records:
            rows[place] = row
            door.hall.traffic.fetches_failed += row.error_code != 0
    for place, refusal in acknowledged.items():
        row = rows.setdefault(place, _empty(place))
        if refusal is not None:
            row.acknowledge_error_code, row.acknowledge_error_message = refusal.error_code, refusal.message
            if not row.error_code:
                row.current_leader = names.of(place, refusal)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=exchange.lock_ms,
        responses=[
            ShareFetchResponseTopic(topic_id=topic_id, partitions=[rows[place] for place in places])
            for topic_id, places in by_topic(rows).items()
        ],
        node_endpoints=names.endpoints(),
    )


def _row(names: LeaderNames, place: Place, target: ShareTarget | ShareRefusal) -> ShareFetchResponsePartition:
    row = _empty(place)
    if isinstance(target, ShareTarget) and target.code is not None:
        target = ShareRefusal(error_of(target.code), target.message)
    if isinstance(target, ShareRefusal):
        row.error_code, row.error_message = target.error_code, target.message
        row.current_leader = names.of(place, target)
        return row
    row.records = b"".join(target.acquired.batches)
    row.acquired_records = [
        AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in target.acquired.ranges
    ]
    return row


def _empty(place: Place) -> ShareFetchResponsePartition:
    return ShareFetchResponsePartition(partition_index=place[1], records=b"")


def _not_leader(door: Door, request: ShareFetchRequest) -> ShareFetchResponse:
    """What a follower answers: the leader of each partition that the request names."""
    if not request.topics:
        return ShareFetchResponse(
            error_code=ErrorCode.SHARE_SESSION_NOT_FOUND, error_message="There is no such share session."
        )
    names = LeaderNames(door)
    refusal = ShareRefusal(error_of(Code.NOT_LEADER))
    topics: list[ShareFetchResponseTopic] = []
    for topic in request.topics:
        rows = [_row(names, (topic.topic_id, part.partition_index), refusal) for part in topic.partitions]
        topics.append(ShareFetchResponseTopic(topic_id=topic.topic_id, partitions=rows))
    return ShareFetchResponse(responses=topics, node_endpoints=names.endpoints())
