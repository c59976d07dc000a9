"""Fetch: batches from partitions, as soon as there are enough of them or the time is over."""

from __future__ import annotations

from functools import partial

from longhall.broker.fetch import Fetch, Wanted
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.fetch import FetchedPart, FetchPart, encode_fetch_response, parse_fetch
from longhall.errors import Code

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
        # Sessions are never given out, so this one is from another life: the client then asks in full.
        buffers = encode_fetch_response(header.correlation_id, header.version, 0, SESSION_UNKNOWN, NO_SESSION, [])
        call.ready(buffers)
        return
    wanted: list[Wanted] = []
    for part in request.parts:
        name = part.topic or hall.topic_name(part.topic_id)
        partition = hall.partition(name, part.partition)
        wanted.append(Wanted(partition, part.fetch_offset, part.partition_max_bytes, part.current_leader_epoch))
    fetch = Fetch(
        hall,
        wanted,
        request.min_bytes,
        request.max_bytes,
        min(request.max_wait_ms, WAIT_MS_MAX),
        request.isolation_level == 1,
        partial(_answer, door, call, request.parts),
    )
    call.on_close = fetch.cancel
    fetch.start()


def _answer(door: Door, call: Call, parts: list[FetchPart], fetch: Fetch) -> None:
    header = call.header
    fetched: list[FetchedPart] = []
    for part, wanted in zip(parts, fetch.wanted, strict=True):
        partition = wanted.partition
        code = wanted.code
        if code is Code.UNKNOWN_TOPIC and part.topic_id:
            code = Code.UNKNOWN_TOPIC_ID
        high_watermark = stable = start = -1
        if partition is not None:
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
