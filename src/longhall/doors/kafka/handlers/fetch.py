"""Fetch: batches of partitions, when there are enough bytes or the time is over.

A consumer that names a filter as its rack (`client.rack=longhall.filter=...`) gets the messages that match it; one with
`client.rack=longhall.stored` gets sealed messages as they are stored, for which no key is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from longhall.broker.fetch import Fetch, PartitionFetch
from longhall.broker.fetch_filter import FILTERED_BYTES_MAX, filter_batches
from longhall.broker.large_fetch import has_large, join_large
from longhall.directory.access_rules import AccessAction
from longhall.doors.kafka.authorization import topic_error
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, Opened
from longhall.doors.kafka.leader_hints import LeaderHints
from longhall.doors.kafka.limits import Transfer, count_messages
from longhall.doors.kafka.request_tasks import start
from longhall.doors.kafka.throttle import throttle
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.fetch import (
    LEADER_HINTS_FROM,
    FetchedPart,
    FetchPart,
    FetchRequest,
    encode_fetch_response,
    parse_fetch,
)
from longhall.doors.kafka.wire.topic_parts import TOPIC_IDS_FROM
from longhall.errors import Code, LonghallError
from longhall.names import STORED_FORM
from longhall.queues.filters import Filter
from longhall.records.batch import count_records

WAIT_MS_MAX = 300_000
LEADER_ERRORS = (error_of(Code.NOT_LEADER), error_of(Code.FENCED_LEADER_EPOCH))


def handle(door: Door, call: Call) -> None:
    hall = door.hall
    header = call.header
    request = parse_fetch(call.frame, call.at, header.version)
    call.frame = b""
    call.connection.begin(call)
    hall.traffic.fetches += 1
    if door.limits is not None and door.limits.active and _must_wait(door, call, request):
        return
    parts = request.parts
    opened: Opened | None = None
    if request.session_epoch != FINAL_EPOCH or request.session_id != NO_SESSION:
        opened = door.fetch_sessions.open(request, header.version >= TOPIC_IDS_FROM, call.started_s)
        if opened.error_code:
            _refuse_session(call, opened.error_code)
            return
        parts = opened.parts
        if door.limits is not None and door.limits.active and _session_must_wait(door, call, opened):
            return
    wanted: list[PartitionFetch] = []
    for part in parts:
        name = part.topic or hall.topic_name(part.topic_id)
        partition = hall.partition(name, part.partition)
        if _topic_error(door, call, name):
            partition = None  # Not waited for; the answer says why.
        wanted.append(PartitionFetch(partition, part.fetch_offset, part.partition_max_bytes, part.current_leader_epoch))
    try:
        filter = door.fetch_filters.of(request.rack_id) if request.rack_id else None
    except LonghallError as error:
        _refuse_all(door, call, parts, opened, wanted, error.code)
        return
    answer: Callable[[Fetch], None] = partial(_answer, door, call, parts, opened)
    if any(hall.chunked_messages):
        answer = partial(_answer_whole, door, call, answer)
    if filter is not None:
        answer = partial(_start_filter, call, filter, answer)
    if door.sealing is not None and request.rack_id != STORED_FORM:
        answer = partial(_answer_opened, door, call, parts, answer)
    fetch = Fetch(
        hall,
        wanted,
        request.min_bytes,
        request.max_bytes if filter is None else min(request.max_bytes, FILTERED_BYTES_MAX),
        min(request.max_wait_ms, WAIT_MS_MAX),
        request.isolation_level == 1,
        answer,
    )
    call.on_close = fetch.cancel
    fetch.start()


def _topic_error(door: Door, call: Call, name: str) -> int:
    """0, or the error of a topic that the client may not read."""
    if door.access is None or not door.access.active:
        return 0
    return topic_error(door, call.caller, AccessAction.READ, name)


def _must_wait(door: Door, call: Call, request: FetchRequest) -> bool:
    """True if the client is over its limit. Its answer is empty then: it asks again after the throttle time."""
    assert door.limits is not None
    names = [part.topic or door.hall.topic_name(part.topic_id) for part in request.parts]
    throttle_ms = throttle(call.connection, door.limits.fetch_debt_ms(call, names))
    if not throttle_ms:
        return False
    header = call.header
    session_id = error_code = 0
    if request.session_epoch > FIRST_EPOCH:  # Without its session the client would name its partitions again.
        opened = door.fetch_sessions.open(request, header.version >= TOPIC_IDS_FROM, call.started_s)
        session_id, error_code = opened.session_id, opened.error_code
    call.ready(encode_fetch_response(header.correlation_id, header.version, throttle_ms, error_code, session_id, []))
    return True


def _session_must_wait(door: Door, call: Call, opened: Opened) -> bool:
    """True if one of the session's topics is over its limit: the answer has nothing new then."""
    assert door.limits is not None
    names = [part.topic or door.hall.topic_name(part.topic_id) for part in opened.parts]
    throttle_ms = throttle(call.connection, door.limits.fetch_debt_ms(call, names))
    if throttle_ms:
        header = call.header
        answer = encode_fetch_response(header.correlation_id, header.version, throttle_ms, 0, opened.session_id, [])
        call.ready(answer)
    return throttle_ms > 0


def _transfers(door: Door, parts: list[FetchPart], fetch: Fetch) -> list[Transfer]:
    """The bytes and messages of each topic in a response."""
    got: dict[str, Transfer] = {}
    for part, wanted in zip(parts, fetch.wanted, strict=True):
        name = part.topic or door.hall.topic_name(part.topic_id)
        before = got.get(name) or Transfer(name, 0, 0)
        messages = before.messages + count_messages(wanted.buffers)
        got[name] = Transfer(name, before.size_bytes + wanted.size_bytes, messages)
    return list(got.values())


def refuse(door: Door, call: Call) -> None:
    """Refuse every partition with NOT_LEADER_OR_FOLLOWER: another node leads."""
    header = call.header
    request = parse_fetch(call.frame, call.at, header.version)
    call.frame = b""
    call.connection.begin(call)
    door.hall.traffic.fetches += 1
    if request.session_id != NO_SESSION and request.session_epoch > FIRST_EPOCH:
        _refuse_session(call, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # Then the client names all its partitions.
        return
    code = error_of(Code.NOT_LEADER)
    parts = [
        FetchedPart(part.topic, part.topic_id, part.partition, code, -1, -1, -1, None, []) for part in request.parts
    ]
    _add_hints(door, header.version, parts)
    call.ready(encode_fetch_response(header.correlation_id, header.version, 0, 0, NO_SESSION, parts))


def _refuse_session(call: Call, error_code: int) -> None:
    header = call.header
    call.ready(encode_fetch_response(header.correlation_id, header.version, 0, error_code, NO_SESSION, []))


def _add_hints(door: Door, version: int, parts: list[FetchedPart]) -> None:
    """Name the leader beside the errors that it can answer."""
    if version < LEADER_HINTS_FROM:
        return
    hints = LeaderHints(door)
    for part in parts:
        if part.error_code in LEADER_ERRORS:
            part.leader = hints.of(part.topic or door.hall.topic_name(part.topic_id), part.partition)


def _answer_opened(
    door: Door, call: Call, parts: list[FetchPart], answer: Callable[[Fetch], None], fetch: Fetch
) -> None:
    """Answer with sealed batches in clear, which are opened in a task."""
    assert door.sealing is not None
    if not door.sealing.has_seals(fetch.wanted):
        answer(fetch)
        return
    names = [part.topic or door.hall.topic_name(part.topic_id) for part in parts]
    task = start(call, _open_and_answer(door, names, answer, fetch))
    call.on_close = partial(_stop, task)


async def _open_and_answer(door: Door, names: list[str], answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    assert door.sealing is not None
    await door.sealing.open(names, fetch.wanted)
    answer(fetch)


def _start_filter(call: Call, filter: Filter, answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    """Filter the fetched batches in a task, then answer."""
    task = start(call, _filter_and_answer(filter, answer, fetch))
    call.on_close = partial(_stop, task)


def _answer_whole(door: Door, call: Call, answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    """Answer with the whole bodies of large messages, which are read in a task."""
    if not has_large(door.hall, fetch.wanted):
        answer(fetch)
        return
    task = start(call, _join_and_answer(door, answer, fetch))
    call.on_close = partial(_stop, task)


async def _join_and_answer(door: Door, answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    try:
        await join_large(door.hall, fetch.wanted)
    except LonghallError as error:
        for wanted in fetch.wanted:
            wanted.buffers = []
            wanted.code = wanted.code or error.code
    answer(fetch)


def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _filter_and_answer(filter: Filter, answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    try:
        await filter_batches(fetch.wanted, filter)
    except LonghallError as error:
        for wanted in fetch.wanted:
            wanted.buffers = []
            wanted.code = wanted.code or error.code
    answer(fetch)


def _refuse_all(
    door: Door, call: Call, parts: list[FetchPart], opened: Opened | None, wanted: list[PartitionFetch], code: Code
) -> None:
    """Answer with the same error for every partition."""
    fetch = Fetch(door.hall, wanted, 0, 0, 0, False, partial(_answer, door, call, parts, opened))
    for one in wanted:
        one.code = code
    _answer(door, call, parts, opened, fetch)


def _answer(door: Door, call: Call, parts: list[FetchPart], opened: Opened | None, fetch: Fetch) -> None:
    header = call.header
    fetched: list[FetchedPart] = []
    failed = False
    for part, wanted in zip(parts, fetch.wanted, strict=True):
        partition = wanted.partition
        code = wanted.code
        refused = _topic_error(door, call, part.topic or door.hall.topic_name(part.topic_id))
        if refused:  # Now, or while the request has waited.
            code, partition = Code.ACCESS_REFUSED, None
            wanted.buffers, wanted.size_bytes, wanted.aborted = [], 0, None
        elif code is Code.UNKNOWN_TOPIC:
            code = door.unknown(bool(part.topic_id))
        high_watermark = stable = start = -1
        if partition is not None and not partition.elsewhere:
            high_watermark = partition.high_watermark
            stable = partition.last_stable_offset
            start = partition.log.start_offset
            partition.traffic.bytes_out += wanted.size_bytes
            if door.usage is not None and wanted.size_bytes:
                who = call.connection.principal
                name = part.topic or door.hall.topic_name(part.topic_id)
                count = count_records(wanted.buffers)
                door.usage.count_fetched(who.tenant, who.user, name, count, wanted.size_bytes)
        if code is not None:
            failed = True
            door.hall.traffic.fetches_failed += 1
            if code is not Code.NOT_LEADER:
                door.refused.note("Fetch", code.value, f"of {part.topic}-{part.partition}", call.started_s)
        fetched.append(
            FetchedPart(
                part.topic,
                part.topic_id,
                part.partition,
                refused or error_of(code),
                high_watermark,
                stable,
                start,
                wanted.aborted,
                wanted.buffers,
            )
        )
    if failed:
        _add_hints(door, header.version, fetched)
    session_id = NO_SESSION
    if opened is not None:
        session_id = opened.session_id
        fetched = opened.answer(fetched)
    throttle_ms = 0
    if door.limits is not None and door.limits.active:
        throttle_ms = throttle(call.connection, door.limits.fetched(call, _transfers(door, parts, fetch)))
    call.ready(encode_fetch_response(header.correlation_id, header.version, throttle_ms, 0, session_id, fetched))
