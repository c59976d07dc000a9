"""Broker configurations that change at run time: durable, effective at once, and taken over by other groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from longhall.broker.broker_administration import take_over
from longhall.broker.configuration_changes import ConfigurationAction, ConfigurationChange
from longhall.broker.feature_gates import BROKERS_LEVEL
from longhall.broker.queues.upkeep.queue_administration import create
from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka.wire.messages import configs
from longhall.errors import Code, LonghallError
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.queues.settings import QueueSettings
from longhall.service.broker_operations import ConfigureBroker, ListBrokerConfigurations
from longhall.shards.replica import Replica
from longhall.world.real.world import real_world
from tests.doors.hall_and_wings import FIRST, broker_of, hall_and_wings
from tests.doors.kafka.asking import ask
from tests.doors.two_nodes import FREE

BROKER = 4


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Node]:
    world = real_world(str(directory))
    try:
        node = Node(world, Settings(**FREE, drain_ms=0))
        await node.start(lambda error: None)
        yield node
        await node.stop()
    finally:
        world.close()


def _set(broker: str, **values: str) -> ConfigureBroker:
    changes = [
        ConfigurationChange(name.replace("_", "."), ConfigurationAction.SET, value) for name, value in values.items()
    ]
    return ConfigureBroker(broker, changes)


async def test_configurations_hold_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        topic = await create_topic(node.hall, "plain", 1, {})
        own = await create_topic(node.hall, "own", 1, {"retention.ms": "1000"})
        assert topic is not None
        assert own is not None
        await create(node.hall, "q", QueueSettings())
        await node.service.dispatch(
            _set("", log_retention_ms="5000", max_connections="40", log_cleaner_backoff_ms="70")
        )
        await node.service.dispatch(_set("1", max_connections="50"))
        assert (topic.options.retention_ms, own.options.retention_ms) == (5000, 1000)
        assert node.hall.partition("plain", 0).options.retention_ms == 5000  # type: ignore[union-attr]
    async with running(tmp_path) as node:
        hall = node.hall
        assert hall.options.cleaner_interval_ms == 70
        assert hall.catalogue.topics["plain"].options.retention_ms == 5000
        assert hall.catalogue.topics["own"].options.retention_ms == 1000
        assert hall.catalogue.topics["q"].options.retention_ms == QueueSettings().retention_ms
        assert node.doors.kafka.connections._count_max == 50
        assert node.doors.sqs.connections._count_max == 50
        gone = ConfigureBroker("", [], replace=True)
        await node.service.dispatch(gone)
        assert await node.service.dispatch(ListBrokerConfigurations()) == {"1": {"max.connections": "50"}}
        assert hall.catalogue.topics["plain"].options.retention_ms == Settings().retention_ms


@pytest.mark.parametrize(
    "change",
    [
        _set("", log_retention_ms="soon"),
        _set("", log_cleanup_policy="compact"),
        _set("9", log_retention_ms="5"),
        _set("1", max_connections="0"),
        ConfigureBroker("", [ConfigurationChange("log.retention.ms", ConfigurationAction.APPEND, "5")]),
    ],
)
async def test_what_cannot_be_changed_is_refused_and_changes_nothing(tmp_path: Path, change: ConfigureBroker) -> None:
    async with running(tmp_path) as node:
        with pytest.raises(LonghallError) as refused:
            await node.service.dispatch(change)
        assert refused.value.code in (Code.INVALID_CONFIGURATION, Code.INVALID_REQUEST)
        assert node.hall.catalogue.brokers == {}


async def test_throttles_that_tools_set_and_remove_unasked_are_kept_and_shown(tmp_path: Path) -> None:
    throttle = "leader.replication.throttled.rate"
    removal = ConfigureBroker("1", [ConfigurationChange(throttle, ConfigurationAction.DELETE)])
    async with running(tmp_path) as node:
        await node.service.dispatch(removal)
        await node.service.dispatch(_set("1", leader_replication_throttled_rate="1000"))
        resource = configs.DescribeConfigsRequestResource(
            resource_type=BROKER, resource_name="1", configuration_keys=[throttle]
        )
        (described,) = (await ask(node, configs.DescribeConfigsRequest(resources=[resource]), 4)).results
        assert [(config.value, config.read_only) for config in described.configs] == [("1000", False)]
        await node.service.dispatch(removal)
        assert await node.service.dispatch(ListBrokerConfigurations()) == {}
        with pytest.raises(LonghallError):
            await node.service.dispatch(_set("1", leader_replication_throttled_rate="fast"))


async def test_a_cluster_needs_the_feature_level(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.hall.replica = Replica(1)
        node.hall.feature_level = BROKERS_LEVEL - 1
        with pytest.raises(LonghallError, match="longhall cluster upgrade"):
            await node.service.dispatch(_set("", log_retention_ms="5000"))
        await take_over(node.hall, {"": {"log.retention.ms": "5000"}})
        assert node.hall.catalogue.brokers == {}
        node.hall.replica = None


async def test_a_group_has_the_configurations_of_the_main_hall(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, {"longhall.placement": "any-host"})
        config = configs.IncrementalAlterConfigsRequestConfig(name="log.retention.ms", value="5000")
        resource = configs.IncrementalAlterConfigsRequestResource(
            resource_type=BROKER, resource_name=str(broker_of(FIRST)), configs=[config]
        )
        request = configs.IncrementalAlterConfigsRequest(resources=[resource])
        (row,) = (await ask(halls.first, request, 1)).responses
        assert row.error_code == 0
        given = halls.main.hall.catalogue.brokers
        assert given == {str(broker_of(FIRST)): {"log.retention.ms": "5000"}}
        for wing, expected in ((halls.first, 5000), (halls.second, Settings().retention_ms)):
            await take_over(wing.hall, given)
            assert wing.hall.catalogue.topics["there"].options.retention_ms == expected
