"""Metadata is answered from the cache, and never with a description that is out of date."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from longhall.broker.topic_administration import add_partitions, create_topic, delete_topic
from longhall.doors.kafka import metadata_cache
from longhall.doors.kafka.handlers.metadata import TOPICS_A_TURN
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataRequestTopic
from longhall.node.assembly import Node
from tests.doors.kafka.asking import ask
from tests.doors.two_nodes import FOLLOWER, LEADER, Told, two_nodes

UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_ID = 3, 5, 100


async def topics(node: Node, *names: str, version: int = 12) -> list[Any]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    request.allow_auto_topic_creation = False
    return list((await ask(node, request, version)).topics)


async def test_a_second_response_is_the_same_as_the_first(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "orders", 3, {})
        for version in (4, 8, 12, 13):
            first = await topics(two.leader, "orders", "nothing", version=version)
            assert [len(topic.partitions) for topic in first] == [3, 0]
            assert [topic.error_code for topic in first] == [0, UNKNOWN_TOPIC]
            assert await topics(two.leader, "orders", "nothing", version=version) == first
        (orders,) = await topics(two.leader, "orders")
        by_id = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (orders.topic_id, b"x" * 16)]
        answer = await ask(two.leader, MetadataRequest(topics=by_id), 12)
        assert answer.topics[0] == orders
        assert answer.topics[1].error_code == UNKNOWN_TOPIC_ID


async def test_changes_are_seen(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await create_topic(hall, "orders", 1, {})
        (first,) = await topics(two.leader, "orders")
        await add_partitions(hall, "orders", 2)
        (wider,) = await topics(two.leader, "orders")
        assert len(wider.partitions) == 2

        await delete_topic(hall, "orders")
        (gone,) = await topics(two.leader, "orders")
        assert gone.error_code == UNKNOWN_TOPIC
        await create_topic(hall, "orders", 2, {})
        (again,) = await topics(two.leader, "orders")
        assert again.error_code == 0
        assert again.topic_id not in (first.topic_id, bytes(16))

        assert {part.leader_id for part in again.partitions} == {LEADER}
        leadership = hall.leadership
        assert isinstance(leadership, Told)
        leadership.leader = FOLLOWER
        (moved,) = await topics(two.leader, "orders")
        assert {part.leader_id for part in moved.partitions} == {FOLLOWER}
        leadership.leader = 0
        (alone,) = await topics(two.leader, "orders")
        assert {(part.leader_id, part.error_code) for part in alone.partitions} == {(-1, LEADER_NOT_AVAILABLE)}


async def test_many_topics_are_described_in_turns(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        names = [f"topic-{number:04}" for number in range(TOPICS_A_TURN + 20)]
        await asyncio.gather(*(create_topic(two.leader.hall, name, 1, {}) for name in names))
        for _ in range(2):
            assert [topic.name for topic in await topics(two.leader, *names)] == names
            everything = await ask(two.leader, MetadataRequest(topics=None), 12)
            assert [topic.name for topic in everything.topics] == sorted(two.leader.hall.routes)


async def test_the_cache_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "CACHE_BYTES_MAX", 10 * (100 + metadata_cache.ENTRY_BYTES))
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "orders", 1, {})
        route = two.leader.hall.routes["orders"]
        cache = metadata_cache.MetadataCache()
        cache.validate([1])
        for number in range(105):
            cache.put(str(number), 12, route, bytes(100))
            assert cache.get(str(number), 12, route) == bytes(100)
        assert [number for number in range(105) if cache.get(str(number), 12, route)] == [*range(100, 105)]
        assert cache.get("104", 11, route) is None
        cache.validate([1])
        assert cache.get("104", 12, route) is not None
        cache.validate([2])
        assert cache.get("104", 12, route) is None
