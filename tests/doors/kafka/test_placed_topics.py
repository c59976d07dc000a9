"""Creating, changing and deleting topics of other replication groups through the Kafka door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longhall.doors.kafka.wire.messages import configs, topics
from longhall.errors import Code
from longhall.node.assembly import Node
from tests.doors.hall_and_wings import HallAndWings, hall_and_wings
from tests.doors.kafka.asking import ask

TIMED_OUT, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_ASSIGNMENT, INVALID_CONFIG = 7, 36, 37, 39, 40
TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
PLACEMENT, WINGS = "longhall.placement", "longhall.wings"
NAMES = {"placement": PLACEMENT, "wings": WINGS, "retention": "retention.ms", "archive": "longhall.archive"}


async def create(
    node: Node, name: str, partitions: int, validate_only: bool = False, assigned: bool = False, **settings: str
) -> Any:
    """The row of the answer. Settings are called as in `NAMES`."""
    wanted = topics.CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=-1)
    wanted.configs = [topics.CreateTopicsRequestConfig(name=NAMES[key], value=text) for key, text in settings.items()]
    if assigned:
        wanted.assignments = [topics.CreateTopicsRequestAssignment(partition_index=0, broker_ids=[1])]
    request = topics.CreateTopicsRequest(topics=[wanted], timeout_ms=1000, validate_only=validate_only)
    (row,) = (await ask(node, request, 7)).topics
    return row


async def described(node: Node, name: str) -> dict[str, Any]:
    wanted = configs.DescribeConfigsRequestResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
    (row,) = (await ask(node, configs.DescribeConfigsRequest(resources=[wanted]), 2)).results
    assert row.error_code == 0
    return {config.name: config for config in row.configs}


async def alter(node: Node, name: str, validate_only: bool = False, **settings: str) -> int:
    resource = configs.AlterConfigsRequestResource(resource_type=TOPIC, resource_name=name)
    resource.configs = [
        configs.AlterConfigsRequestConfig(name=NAMES[key], value=text) for key, text in settings.items()
    ]
    request = configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (row,) = (await ask(node, request, 1)).responses
    assert bool(row.error_code) == bool(row.error_message)
    return int(row.error_code)


async def change(node: Node, name: str, setting: str, operation: int, value: str | None = None) -> int:
    config = configs.IncrementalAlterConfigsRequestConfig(name=setting, config_operation=operation, value=value)
    resource = configs.IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name=name, configs=[config])
    (row,) = (await ask(node, configs.IncrementalAlterConfigsRequest(resources=[resource]), 0)).responses
    return int(row.error_code)


async def test_a_topic_is_made_in_its_wings_before_it_is_answered(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        row = await create(halls.main, "there", -1, placement="any-host", retention="1000")
        assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 2)
        shown = {config.name: config for config in row.configs}
        assert (shown[PLACEMENT].value, shown[PLACEMENT].read_only) == ("any-host", False)
        assert (shown[WINGS].value, shown[WINGS].read_only) == ("1,2", True)
        assert halls.told.asked == [("choose", "any-host", "there"), ("furnish", "there")]
        for wing in (halls.first, halls.second):
            topic = wing.hall.topic("there")
            assert topic is not None
            assert (topic.topic_id, len(topic.partitions)) == (row.topic_id, 2)
            assert topic.options.retention_ms == 1000
        configured = await described(halls.main, "there")
        assert (configured[PLACEMENT].value, configured[PLACEMENT].read_only) == ("any-host", False)
        assert (configured[WINGS].value, configured[WINGS].read_only) == ("1,2", True)
        assert (await create(halls.main, "there", -1, placement="any-host")).error_code == TOPIC_EXISTS
        assert len(halls.told.asked) == 2  # No group is chosen for a topic that cannot be created.

        plain = await create(halls.main, "here", 1, placement="hall")
        assert plain.error_code == 0
        assert len(halls.told.asked) == 2
        assert {config.name: config.value for config in plain.configs}[WINGS] == ""


async def test_what_cannot_be_placed_is_refused(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main, told = halls.main, halls.told
        fewer = await create(main, "t", 1, placement="parts")
        assert fewer.error_code == INVALID_PARTITIONS
        assert "2 wings" in fewer.error_message
        told.asked.clear()
        for row in (
            await create(main, "t", 2, wings="1,2"),
            await create(main, "t", 2, wings="1,2", placement="any-host"),
            await create(main, "t", 2, placement="somewhere"),
            await create(main, "t", 2, placement="wing:no wing"),
        ):
            assert row.error_code == INVALID_CONFIG
            assert "longhall." in row.error_message
        assigned = await create(main, "t", -1, assigned=True, placement="any-host")
        assert assigned.error_code == INVALID_ASSIGNMENT
        assert told.asked == []
        told.refusal = Code.INVALID_CONFIGURATION  # As of a wing that does not exist.
        assert (await create(main, "t", 2, placement="wing:gone")).error_code == INVALID_CONFIG
        assert told.asked == [("choose", "wing:gone", "t")]
        main.hall.feature_level = 2
        low = await create(main, "t", 2, placement="any-host")
        assert low.error_code == INVALID_CONFIG
        assert "feature level 3" in low.error_message
        main.hall.wings = None
        alone = await create(main, "t", 2, placement="any-host")
        assert alone.error_code == INVALID_CONFIG
        assert "standalone" in alone.error_message
        assert list(main.hall.routes) == []


async def test_asking_whether_it_could_be_made_makes_nothing(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        for partitions in (-1, 5):
            assert (await create(halls.main, "t", partitions, validate_only=True, placement="share")).error_code == 0
        assert halls.told.asked == []
        assert list(halls.main.hall.routes) == []


async def test_wings_that_do_not_follow_at_once_follow_later(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await create(halls.main, "t", 2, placement="any-host")
        halls.told.refusal = Code.NOT_READY
        assert await alter(halls.main, "t", retention="5") == TIMED_OUT
        request = topics.CreatePartitionsRequest(topics=[topics.CreatePartitionsRequestTopic(name="t", count=3)])
        request.topics[0].assignments = None
        (row,) = (await ask(halls.main, request, 1)).results
        assert row.error_code == TIMED_OUT
        assert "have not applied it yet" in row.error_message
        topic = halls.main.hall.topic("t")
        assert topic is not None
        assert (topic.options.retention_ms, len(topic.partitions)) == (5, 3)  # It is decided all the same.
        gone = await ask(halls.main, topics.DeleteTopicsRequest(topic_names=["t"]), 4)
        assert [row.error_code for row in gone.responses] == [0]
        assert halls.main.hall.topic("t") is None


async def test_changes_are_made_in_the_wings_too(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        made = await create(halls.main, "t", 2, placement="any-host")
        assert await alter(halls.main, "t", validate_only=True, retention="7") == 0
        assert len(halls.told.asked) == 2
        assert await alter(halls.main, "t", retention="7") == 0
        assert await change(halls.main, "t", "max.message.bytes", SET, "5000") == 0
        request = topics.CreatePartitionsRequest(topics=[topics.CreatePartitionsRequestTopic(name="t", count=5)])
        request.topics[0].assignments = None
        assert [row.error_code for row in (await ask(halls.main, request, 1)).results] == [0]
        for node in (halls.main, halls.first, halls.second):
            topic = node.hall.topic("t")
            assert topic is not None
            assert (topic.options.retention_ms, topic.options.message_bytes_max) == (7, 5000)
            assert (topic.topic_id, len(topic.partitions)) == (made.topic_id, 5)
        assert [partition.elsewhere for partition in halls.main.hall.routes["t"]] == [True] * 5
        assert [partition.elsewhere for partition in halls.first.hall.routes["t"]] == [False, True, False, True, False]
        assert [partition.elsewhere for partition in halls.second.hall.routes["t"]] == [True, False, True, False, True]

        gone = await ask(halls.main, topics.DeleteTopicsRequest(topic_names=["t"]), 4)
        assert [row.error_code for row in gone.responses] == [0]
        assert halls.told.asked[-1] == ("clear", "t", "1", "2")
        assert all("t" not in node.hall.routes for node in (halls.main, halls.first, halls.second))


async def _places(halls: HallAndWings, name: str) -> tuple[str, str]:
    shown = await described(halls.main, name)
    return shown[PLACEMENT].value, shown[WINGS].value


@pytest.mark.parametrize("placement", ["hall", "any-host"])
async def test_a_topic_stays_where_it_is(tmp_path: Path, placement: str) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main = halls.main
        assert (await create(main, "t", 2, placement=placement, retention="9")).error_code == 0
        wings = "1,2" if placement != "hall" else ""
        for refused in (
            await alter(main, "t", placement="share"),
            await alter(main, "t", placement="hall" if wings else "any-host"),
            await alter(main, "t", wings="2"),
            await change(main, "t", PLACEMENT, SET, "parts"),
            await change(main, "t", WINGS, SET, "7"),
            await change(main, "t", WINGS, APPEND, "7"),
        ):
            assert refused == INVALID_CONFIG
        if wings:
            for refused in (
                await change(main, "t", PLACEMENT, DELETE),
                await change(main, "t", WINGS, DELETE),
                await change(main, "t", WINGS, SUBTRACT, "2"),
            ):
                assert refused == INVALID_CONFIG
        else:
            assert await change(main, "t", PLACEMENT, DELETE) == 0
        assert (await described(main, "t"))["retention.ms"].value == "9"
        # What it has may be said, and need not be.
        assert await alter(main, "t", placement=placement, wings=wings) == 0
        assert await alter(main, "t", retention="11") == 0
        assert await change(main, "t", PLACEMENT, SET, placement) == 0
        assert await _places(halls, "t") == (placement, wings)
        assert (await described(main, "t"))["retention.ms"].value == "11"
