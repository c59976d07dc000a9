"""Produce: append batches to partitions, and acknowledge them when they are as durable as their topics require."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from longhall.broker.configuration import ALWAYS
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.produced import Sent
from longhall.broker.send import send, wait
from longhall.directory.access_rules import AccessAction, Kind
from longhall.doors.kafka.authorization import topic_error
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.leader_hints import LeaderHints
from longhall.doors.kafka.limits import Transfer, count_messages
from longhall.doors.kafka.request_tasks import start
from longhall.doors.kafka.throttle import throttle
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.produce import (
    LEADER_HINTS_FROM,
    ProducePart,
    ProduceRequest,
    encode_produce_response,
    parse_produce,
)
from longhall.errors import Code, LonghallError
from longhall.front.fairness import Fairness, Lane
from longhall.names import SYSTEM_TOPICS
from longhall.shards.shard import ONE, Committable

SPEAKS_BATCHES_FROM: Final = 3  # Older versions carry message formats that are not taken.
ABORTABLE_FROM: Final = 11
BACKLOG_MS: Final = 500  # The connection is not read for this time after a send that found the commit backlog full.
NO_NAMES: Final[list[str]] = []
NO_ERRORS: Final[Mapping[str, LonghallError]] = {}
ADDS_PARTITIONS_FROM: Final = 12  # From here on a batch adds its partition to the transaction by itself.


@final
class Produced(Committable):
    """A request whose batches are appended. With acks it is answered when the last of them is committed."""

    def __init__(self, hall: Hall, call: Call, parts: list[ProducePart], is_answered: bool, fairness: Fairness) -> None:
        self.call = call
        self.parts = parts
        self.missing = 1
        self._hall = hall
        self._is_answered = is_answered
        self.debt_ms = 0
        self.in_sync_mins: dict[int, int] | None = None  # By part, of topics with a minimum of their own.
        self.lane: Lane | None = None
        self.size_bytes = 0
        self._fairness = fairness

    def ask_for(self, part: int, in_sync_min: int) -> None:
        """The topic of this part has a minimum of its own."""
        if self.in_sync_mins is None:
            self.in_sync_mins = {}
        self.in_sync_mins[part] = in_sync_min

    def committed(self, value: int) -> None:
        """A batch is committed. `value` counts its part from 1 on if the batch needs the in-sync replicas, else 0."""
        if value and self._hall.is_short_of(self.in_sync_mins.get(value, 0) if self.in_sync_mins is not None else 0):
            self.parts[value - 1].error_code = error_of(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self.missing -= 1
        if self.missing == 0:
            if self.lane is not None:
                self._fairness.release(self.lane, self.size_bytes)
            if self._is_answered:
                header = self.call.header
                answer = encode_produce_response(header.correlation_id, header.version, self.parts, self.debt_ms)
                self.call.ready((answer,))


def handle(door: Door, call: Call) -> None:
    hall = door.hall
    header = call.header
    request = parse_produce(call.frame, call.at, header.version)
    hall.traffic.sends += 1
    acks = request.acks
    if acks:
        call.connection.begin(call)
    keyless = _keyless_topics(door, request) if door.sealing is not None else NO_NAMES
    if keyless:
        call.connection.hold_back()  # The requests behind it keep their order.
        start(call, _append_with_keys(door, call, request, keyless))
        return
    _append(door, call, request, NO_ERRORS)


def _keyless_topics(door: Door, request: ProduceRequest) -> list[str]:
    """The sealed topics of a request whose keys have to be fetched."""
    assert door.sealing is not None
    names: list[str] = []
    for part in request.parts:
        name = part.topic or door.hall.topic_name(part.topic_id)
        if name not in names and door.sealing.is_sealed(name, part.partition) and not door.sealing.has_key(name):
            names.append(name)
    return names


async def _append_with_keys(door: Door, call: Call, request: ProduceRequest, names: list[str]) -> None:
    """Append a request when the keys of its sealed topics are there."""
    assert door.sealing is not None
    try:
        _append(door, call, request, await door.sealing.fetch_keys(names))
    finally:
        call.connection.let_go()


def _send(door: Door, call: Call, request: ProduceRequest, part: ProducePart, partition: Partition, name: str) -> Sent:
    """Append one batch, sealed if its topic is. LonghallError if it cannot be sealed."""
    frame, at, size_bytes = call.frame, part.records_at, part.records_size
    is_sealed = partition.options.is_sealed and door.sealing is not None and not partition.elsewhere
    if is_sealed and door.sealing is not None:
        frame = door.sealing.seal(name, part.partition, frame, at, size_bytes)
        at, size_bytes = 0, len(frame)
    return send(
        door.hall,
        partition,
        frame,
        at,
        size_bytes,
        request.transactional_id,
        call.header.version >= ADDS_PARTITIONS_FROM,
        call.connection.number,
        request.acks >= 0,
        request.timeout_ms,
        is_sealed,
    )


def _append(door: Door, call: Call, request: ProduceRequest, errors: Mapping[str, LonghallError]) -> None:
    """Append the batches of a request, except to topics whose keys are not to be had."""
    hall = door.hall
    header = call.header
    acks = request.acks
    produced = Produced(hall, call, request.parts, acks != 0, door.fairness)
    lane_name = ""
    refused = _refused_parts(door, call, request) if door.access is not None and door.access.active else None
    for number, part in enumerate(request.parts, 1):
        name = part.topic or hall.topic_name(part.topic_id)
        partition = hall.partition(name, part.partition)
        if refused is not None and refused[number - 1]:
            part.error_code = refused[number - 1]
            hall.traffic.sends_failed += 1
            continue
        if name in SYSTEM_TOPICS:
            part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            part.error_message = "Only Longhall writes to this topic."
            hall.traffic.sends_failed += 1
            continue
        if header.version < SPEAKS_BATCHES_FROM:
            sent = Sent(Code.UNSUPPORTED_FORMAT)
        elif acks not in (-1, 0, 1):
            part.error_code = 21  # INVALID_REQUIRED_ACKS
            continue
        elif partition is None:
            sent = Sent(door.unknown(bool(part.topic_id)))
        elif part.records_size <= 0:
            sent = Sent(Code.INVALID_REQUEST)
        else:
            try:
                error = errors.get(name)
                if error is not None:
                    raise error
                sent = _send(door, call, request, part, partition, name)
            except LonghallError as failure:
                sent = Sent(failure.code, message=str(failure))
            part.log_start_offset = partition.log.start_offset
        if sent.later is not None:
            assert partition is not None
            held = _Held(hall, call, produced, partition, number, acks)
            sent.later.when_done(held.end)
        elif sent.code is None:
            assert partition is not None
            produced.size_bytes += part.records_size
            lane_name = name
            _await_commit(hall, produced, partition, number, sent, acks)
        else:
            hall.traffic.sends_failed += 1
            hall.traffic.bytes_rejected += max(part.records_size, 0)
            code = _refuse_part(part, sent, header.version)
            door.refused.note("Produce", sent.code.value, f"to {name}-{part.partition}", call.started_s)
            if code is Code.COMMIT_BACKLOG:
                produced.debt_ms = max(produced.debt_ms, BACKLOG_MS)
            if code is Code.NOT_LEADER and header.version >= LEADER_HINTS_FROM:
                part.leader = LeaderHints(door).of(name, part.partition)
    if door.limits is not None and door.limits.active:
        debt_ms = door.limits.produced(call, len(call.frame), _transfers(door, call.frame, request.parts))
        produced.debt_ms = max(produced.debt_ms, debt_ms)
    call.frame = b""  # The answer may wait for the disk; the frame's memory is free at once.
    if produced.debt_ms:
        produced.debt_ms = throttle(call.connection, produced.debt_ms)
    if produced.size_bytes:
        _share(door, call, produced, lane_name)
    produced.committed(0)
    if not acks and any(part.error_code for part in request.parts):
        call.connection.close()  # Without acks this is the only way to report an error.


def _transfers(door: Door, frame: bytes, parts: list[ProducePart]) -> list[Transfer]:
    """The accepted bytes and messages of a request, by topic."""
    sent: dict[str, Transfer] = {}
    for part in parts:
        if part.error_code or part.records_size <= 0:
            continue
        name = part.topic or door.hall.topic_name(part.topic_id)
        before = sent.get(name) or Transfer(name, 0, 0)
        messages = count_messages((memoryview(frame)[part.records_at : part.records_at + part.records_size],))
        sent[name] = Transfer(name, before.size_bytes + part.records_size, before.messages + messages)
    return list(sent.values())


def _refused_parts(door: Door, call: Call, request: ProduceRequest) -> list[int]:
    """The errors of the parts that the client may not write; 0 for those that it may."""
    caller, access = call.caller, door.access
    assert access is not None
    transactional_id = request.transactional_id
    if transactional_id and not access.allows(caller, AccessAction.WRITE, Kind.TRANSACTIONAL_ID, transactional_id):
        return [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * len(request.parts)
    names = [part.topic or door.hall.topic_name(part.topic_id) for part in request.parts]
    return [topic_error(door, caller, AccessAction.WRITE, name) for name in names]


def _await_commit(hall: Hall, produced: Produced, partition: Partition, number: int, sent: Sent, acks: int) -> None:
    """The part of this number is appended: answer it when it is as durable as its topic requires."""
    part = produced.parts[number - 1]
    part.base_offset = sent.base_offset
    part.log_append_time_ms = sent.append_time_ms
    produced.missing += 1
    options = partition.options
    guarded = acks < 0 and options.acknowledge != ONE and options.durability == ALWAYS
    if options.in_sync_min and guarded:
        produced.ask_for(number, options.in_sync_min)
    wait(hall, partition, produced, number if guarded else 0, leader_only=acks >= 0)
    quota = options.quota
    if quota is not None:
        debt_ms = quota.debt_ms(hall.time.now_ms())
        if debt_ms:
            partition.traffic.throttled += 1
            produced.debt_ms = max(produced.debt_ms, debt_ms)


def _refuse_part(part: ProducePart, sent: Sent, version: int) -> Code | None:
    """Fill in the error of a part, in the terms of this version."""
    code = fenced_as(sent.code, False)
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        code = Code.INVALID_TRANSACTION_STATE
    part.error_code = error_of(code)
    part.error_message = sent.message or None
    part.record_errors = sent.record_errors
    return code


@final
class _Held:
    """A part that waits for room in its queue. Its connection is not read meanwhile: that is the back-pressure."""

    def __init__(
        self, hall: Hall, call: Call, produced: Produced, partition: Partition, number: int, acks: int
    ) -> None:
        self._hall = hall
        self._call = call
        self._produced = produced
        self._partition = partition
        self._number = number
        self._acks = acks
        produced.missing += 1
        call.connection.hold_back()

    def end(self, sent: Sent) -> None:
        """The batch is appended or refused."""
        if sent.code is None:
            _await_commit(self._hall, self._produced, self._partition, self._number, sent, self._acks)
        else:
            self._hall.traffic.sends_failed += 1
            _refuse_part(self._produced.parts[self._number - 1], sent, self._call.header.version)
            if not self._acks:
                self._call.connection.close()  # Without acks this is the only way to report an error.
        self._produced.committed(0)
        self._call.connection.let_go()


def refuse(door: Door, call: Call) -> None:
    """Refuse every batch with NOT_LEADER_OR_FOLLOWER: another node leads."""
    header = call.header
    request = parse_produce(call.frame, call.at, header.version)
    call.frame = b""
    door.hall.traffic.sends += 1
    if not request.acks:
        call.connection.close()  # Without acks this is the only way to report an error.
        return
    call.connection.begin(call)
    for part in request.parts:
        part.error_code = error_of(Code.NOT_LEADER)
    if header.version >= LEADER_HINTS_FROM:
        hints = LeaderHints(door)
        for part in request.parts:
            part.leader = hints.of(part.topic or door.hall.topic_name(part.topic_id), part.partition)
    call.ready((encode_produce_response(header.correlation_id, header.version, request.parts),))


def _share(door: Door, call: Call, produced: Produced, name: str) -> None:
    """Hold the connection back while its topic has more than its share under way. The last topic counts."""
    fairness = door.fairness
    tenant = call.connection.principal.tenant
    if tenant:
        name = f"{tenant}/{name}"
    produced.lane = fairness.hold(name, produced.size_bytes, call.started_s, tenant)
    if fairness.is_over_share(produced.lane) and not produced.debt_ms:
        connection = call.connection
        connection.hold_back()
        fairness.wait(name, produced.lane, id(connection), connection.let_go)
