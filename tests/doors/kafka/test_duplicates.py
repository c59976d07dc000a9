"""Requests that name a topic, a resource or a configuration twice: one answer with INVALID_REQUEST, and no effect."""

from __future__ import annotations

from pathlib import Path

from longhall.doors.kafka.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from longhall.doors.kafka.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tests.doors.kafka.asking import ask
from tests.doors.two_nodes import two_nodes

INVALID_REQUEST = 42


async def test_topics(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        wanted = [
            CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
            for name in ("twice", "once", "twice")
        ]
        created = await ask(node, CreateTopicsRequest(topics=wanted), 7)
        assert {row.name: row.error_code for row in created.topics} == {"twice": INVALID_REQUEST, "once": 0}
        assert len(created.topics) == 2
        assert [row.error_message for row in created.topics if row.name == "twice"] == ["Duplicate topic name."]
        assert "twice" not in node.hall.routes
        more = [CreatePartitionsRequestTopic(name="once", count=count) for count in (2, 3)]
        (row,) = (await ask(node, CreatePartitionsRequest(topics=more), 3)).results
        assert (row.name, row.error_code) == ("once", INVALID_REQUEST)
        assert len(node.hall.routes["once"]) == 1
        doomed = [DeleteTopicsRequestTopic(name="once") for _ in range(2)]
        (gone,) = (await ask(node, DeleteTopicsRequest(topics=doomed), 6)).responses
        assert (gone.name, gone.error_code) == ("once", INVALID_REQUEST)
        assert "once" in node.hall.routes


async def test_resources_and_configurations(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        await ask(node, CreateTopicsRequest(topics=[topic]), 7)

        def changes(*pairs: tuple[str, str | None]) -> IncrementalAlterConfigsRequestResource:
            configs = [IncrementalAlterConfigsRequestConfig(name=name, value=value) for name, value in pairs]
            return IncrementalAlterConfigsRequestResource(
                resource_type=ConfigResourceType.TOPIC, resource_name="t", configs=configs
            )

        def values(*pairs: tuple[str, str | None]) -> AlterConfigsRequestResource:
            configs = [AlterConfigsRequestConfig(name=name, value=value) for name, value in pairs]
            return AlterConfigsRequestResource(
                resource_type=ConfigResourceType.TOPIC, resource_name="t", configs=configs
            )

        one, other = ("retention.ms", "1000"), ("retention.ms", "2000")
        incremental = [
            IncrementalAlterConfigsRequest(resources=[changes(one), changes(other)]),
            IncrementalAlterConfigsRequest(resources=[changes(one, other)]),
            IncrementalAlterConfigsRequest(resources=[changes(("retention.ms", None))]),
        ]
        for request in incremental:
            (row,) = (await ask(node, request, 1)).responses
            assert (row.resource_name, row.error_code) == ("t", INVALID_REQUEST), row.error_message
        replacing = [
            AlterConfigsRequest(resources=[values(one), values(other)]),
            AlterConfigsRequest(resources=[values(one, other)]),
            AlterConfigsRequest(resources=[values(("retention.ms", None))]),
        ]
        for replace in replacing:
            (replaced,) = (await ask(node, replace, 2)).responses
            assert (replaced.resource_name, replaced.error_code) == ("t", INVALID_REQUEST), replaced.error_message
        assert node.hall.routes["t"][0].options.retention_ms > 2000
