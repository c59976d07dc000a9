"""Fetch sessions: a consumer names its partitions once, and gets what is new (KIP-227)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from longhall.broker.topic_administration import create_topic, trim_log
from longhall.doors.kafka import fetch_sessions
from longhall.doors.kafka.fetch_sessions import FetchSessions
from longhall.doors.kafka.wire.fetch import FetchPart, FetchRequest, ForgottenPart
from longhall.doors.kafka.wire.messages import data
from tests.doors.kafka.asking import ask, produce
from tests.doors.two_nodes import TwoNodes, two_nodes

NOT_FOUND, INVALID_EPOCH, TOPIC_ID_ERROR, NOT_LEADER, OUT_OF_RANGE = 70, 71, 106, 6, 1


async def _fetch(
    two: TwoNodes,
    session_id: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    forgotten: tuple[int, ...] = (),
    version: int = 12,
) -> Any:
    partitions = [
        data.FetchRequestPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in (offsets or {}).items()
    ]
    topic_id = two.leader.hall.routes["t"][0].topic_id
    request = data.FetchRequest(max_bytes=1 << 20, session_id=session_id, session_epoch=epoch)
    if partitions:
        request.topics = [data.FetchRequestTopic(topic="t", topic_id=topic_id, partitions=partitions)]
    if forgotten:
        request.forgotten_topics_data = [
            data.FetchRequestForgottenTopic(topic="t", topic_id=topic_id, partitions=list(forgotten))
        ]
    return await ask(two.leader, request, version)


def _seen(answer: Any) -> dict[int, tuple[int, int, bool]]:
    """Error, end and whether there are records, by partition."""
    return {
        part.partition_index: (part.error_code, part.high_watermark, bool(part.records))
        for topic in answer.responses
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", [7, 12, 18])
async def test_a_session_answers_what_is_new(tmp_path: Path, version: int) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 3, {})
        await produce(two.leader, ("t", 0))
        full = await _fetch(two, 0, 0, {0: 0, 1: 0, 2: 0}, version=version)
        session = full.session_id
        assert session > 0
        assert _seen(full) == {0: (0, 1, True), 1: (0, 0, False), 2: (0, 0, False)}
        assert _seen(await _fetch(two, session, 1, {0: 1}, version=version)) == {}
        await produce(two.leader, ("t", 2))
        assert _seen(await _fetch(two, session, 2, version=version)) == {2: (0, 1, True)}
        assert _seen(await _fetch(two, session, 3, {2: 1}, version=version)) == {}
        await trim_log(two.leader.hall, two.leader.hall.routes["t"][0], 1)
        assert _seen(await _fetch(two, session, 4, version=version)) == {0: (0, 1, False)}
        assert _seen(await _fetch(two, session, 5, {0: 7}, version=version)) == {0: (OUT_OF_RANGE, 1, False)}
        assert _seen(await _fetch(two, session, 6, {0: 1}, version=version)) == {0: (0, 1, False)}
        await produce(two.leader, ("t", 2))
        assert _seen(await _fetch(two, session, 7, forgotten=(2,), version=version)) == {}
        ended = await _fetch(two, session, 8, forgotten=(0, 1), version=version)
        assert (ended.error_code, ended.session_id) == (0, 0)
        assert (await _fetch(two, session, 9, version=version)).error_code == NOT_FOUND


async def test_sessions_that_do_not_exist_or_do_not_match_are_refused(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        session = (await _fetch(two, 0, 0, {0: 0})).session_id
        assert (await _fetch(two, session + 1, 1)).error_code == NOT_FOUND
        assert (await _fetch(two, session, 2)).error_code == INVALID_EPOCH
        assert (await _fetch(two, session, 1, version=13)).error_code == TOPIC_ID_ERROR
        assert (await _fetch(two, session, 1)).error_code == 0
        another = await _fetch(two, session, 0, {0: 0})
        assert another.session_id not in (0, session)
        assert (await _fetch(two, session, 2)).error_code == NOT_FOUND
        last = await _fetch(two, another.session_id, -1, {0: 0})
        assert (last.error_code, last.session_id, len(_seen(last))) == (0, 0, 1)
        assert len(two.leader.doors.kafka.door.fetch_sessions) == 0
        assert (await _fetch(two, 0, -1, {0: 0})).session_id == 0


async def test_a_partition_with_records_is_read_last_the_next_time(tmp_path: Path) -> None:
    """Else one busy partition would keep the others from being read where an answer has a bound."""
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 2, {})
        await produce(two.leader, ("t", 0), ("t", 0), ("t", 1))
        session = (await _fetch(two, 0, 0, {0: 0, 1: 1})).session_id
        (order,) = [list(known.parts) for known in two.leader.doors.kafka.door.fetch_sessions._sessions.values()]
        assert [number for _, _, number in order] == [1, 0]
        assert session


def _request(epoch: int, session_id: int, *numbers: int, forgotten: int = -1) -> FetchRequest:
    request = FetchRequest()
    request.session_id, request.session_epoch = session_id, epoch
    request.parts = [FetchPart("t", b"", number, -1, 0, -1, -1, 1) for number in numbers]
    if forgotten >= 0:
        request.forgotten = [ForgottenPart("t", b"", forgotten)]
    return request


class Counting:
    """Ids in order."""

    def __init__(self) -> None:
        self.last = 0

    def bytes(self, size: int) -> bytes:
        self.last += 1
        return self.last.to_bytes(size, "big")

    def below(self, bound: int) -> int:
        return 0


def test_the_table_is_bounded_and_replaces_what_is_not_used() -> None:
    sessions = FetchSessions(Counting())
    first = sessions.open(_request(0, 0, 0, 1), False, 0.0)
    for number in range(fetch_sessions.SESSIONS_MAX - 1):
        assert sessions.open(_request(0, 0, number), False, 1.0).session_id
    assert sessions.open(_request(0, 0, 5), False, 2.0).session_id == 0, "all of them are in use"
    assert len(sessions) == fetch_sessions.SESSIONS_MAX
    assert sessions.partitions == fetch_sessions.SESSIONS_MAX + 1
    assert sessions.open(_request(1, first.session_id), False, 100.0).error_code == 0
    late = sessions.open(_request(0, 0, 5), False, 130.0)
    assert late.session_id, "an idle one makes room"
    assert sessions.open(_request(2, first.session_id), False, 131.0).error_code == 0, "which is not the first"
    many = range(fetch_sessions.PARTITIONS_MAX + 1)
    assert sessions.open(_request(0, 0, *many), False, 131.0).session_id == 0
    assert sessions.open(_request(3, first.session_id, *many), False, 131.0).error_code == NOT_FOUND
    assert sessions.partitions == fetch_sessions.SESSIONS_MAX - 1
    for known in list(sessions._sessions):
        sessions.open(_request(-1, known), False, 132.0)
    assert (len(sessions), sessions.partitions) == (0, 0)


@pytest.mark.clients
async def test_a_client_with_sessions_reads_everything(tmp_path: Path) -> None:
    """kafka-python opens a session by itself; so does the Java client."""
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 4, {})
        for number in range(40):
            await produce(two.leader, ("t", number % 4))
        values = await asyncio.to_thread(_read, str(two.leader.kafka), 40)
        assert sorted(values) == sorted((number % 4, number // 4) for number in range(40))
        assert len(two.leader.doors.kafka.door.fetch_sessions) >= 1


def _read(bootstrap: str, count: int) -> list[tuple[int, int]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=200)
    consumer.assign([TopicPartition("t", number) for number in range(4)])
    consumer.seek_to_beginning()
    found: list[tuple[int, int]] = []
    for _ in range(200):
        for records in consumer.poll(timeout_ms=200).values():
            found += [(record.partition, record.offset) for record in records]
        if len(found) >= count:
            break
    return found
