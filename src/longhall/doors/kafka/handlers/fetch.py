"""Fetch: batches of partitions, when there are enough bytes or the time is over.

A consumer that names a filter as its rack (`client.rack=longhall.filter=...`) gets the messages that match it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from longhall.broker.fetch import Fetch, PartitionFetch
from longhall.broker.fetch_filter import FILTERED_BYTES_MAX, filter_batches
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.fetch import FetchedPart, FetchPart, encode_fetch_response, parse_fetch
from longhall.errors import Code, LonghallError
from longhall.queues.filters import Filter

WAIT_MS_MAX = 300_000
NO_SESSION = 0
SESSION_UNKNOWN = 70  # FETCH_SESSION_ID_NOT_FOUND


def handle(door: Door, call: Call) -> None:
    hall = door.hall
    header = call.header
    request = parse_fetch(call.frame, call.at, header.version)
    call.frame = b""
    call.connection.begin(call)
    hall.traffic.fetches += 1
    if request.session_id != NO_SESSION:
        # This node grants no sessions, so this one is from another broker: the client repeats the request in full.
        buffers = encode_fetch_response(header.correlation_id, header.version, 0, SESSION_UNKNOWN, NO_SESSION, [])
        call.ready(buffers)
        return
    wanted: list[PartitionFetch] = []
    for part in request.parts:
        name = part.topic or hall.topic_name(part.topic_id)
        partition = hall.partition(name, part.partition)
        wanted.append(PartitionFetch(partition, part.fetch_offset, part.partition_max_bytes, part.current_leader_epoch))
    try:
        filter = door.fetch_filters.of(request.rack_id)
    except LonghallError as error:
        _refuse_all(door, call, request.parts, wanted, error.code)
        return
    answer = partial(_answer, door, call, request.parts)
    fetch = Fetch(
        hall,
        wanted,
        request.min_bytes,
        request.max_bytes if filter is None else min(request.max_bytes, FILTERED_BYTES_MAX),
        min(request.max_wait_ms, WAIT_MS_MAX),
        request.isolation_level == 1,
        answer if filter is None else partial(_start_filter, call, filter, answer),
    )
    call.on_close = fetch.cancel
    fetch.start()


def refuse(door: Door, call: Call) -> None:
    """Refuse every partition with NOT_LEADER_OR_FOLLOWER: another node leads."""
    header = call.header
    request = parse_fetch(call.frame, call.at, header.version)
    call.frame = b""
    call.connection.begin(call)
    door.hall.traffic.fetches += 1
    code = error_of(Code.NOT_LEADER)
    parts = [
        FetchedPart(part.topic, part.topic_id, part.partition, code, -1, -1, -1, None, []) for part in request.parts
    ]
    call.ready(encode_fetch_response(header.correlation_id, header.version, 0, 0, NO_SESSION, parts))


def _start_filter(call: Call, filter: Filter, answer: Callable[[Fetch], None], fetch: Fetch) -> None:
    """Filter the fetched batches in a task, then answer."""
    task = asyncio.get_running_loop().create_task(_filter_and_answer(filter, answer, fetch))
    call.on_close = partial(_stop, task)


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


def _refuse_all(door: Door, call: Call, parts: list[FetchPart], wanted: list[PartitionFetch], code: Code) -> None:
    """Answer with the same error for every partition."""
    fetch = Fetch(door.hall, wanted, 0, 0, 0, False, partial(_answer, door, call, parts))
    for one in wanted:
        one.code = code
    _answer(door, call, parts, fetch)


def _answer(door: Door, call: Call, parts: list[FetchPart], fetch: Fetch) -> None:
    header = call.header
    fetched: list[FetchedPart] = []
    for part, wanted in zip(parts, fetch.wanted, strict=True):
        partition = wanted.partition
        code = wanted.code
        if code is Code.UNKNOWN_TOPIC:
            code = door.unknown(bool(part.topic_id))
        high_watermark = stable = start = -1
        if partition is not None and not partition.elsewhere:
            high_watermark = partition.high_watermark
            stable = partition.last_stable_offset
            start = partition.log.start_offset
            partition.traffic.bytes_out += wanted.size_bytes
        if code is not None:
            door.hall.traffic.fetches_failed += 1
        fetched.append(
            FetchedPart(
                part.topic,
                part.topic_id,
                part.partition,
                error_of(code),
                high_watermark,
                stable,
                start,
                wanted.aborted,
                wanted.buffers,
            )
        )
    call.ready(encode_fetch_response(header.correlation_id, header.version, 0, 0, NO_SESSION, fetched))
