"""The positions of share groups in other replication groups: the hall's door describes, moves and deletes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longhall.broker.share.coordinator import ShareGroupCoordinator
from longhall.broker.topic_administration import create_topic
from longhall.cluster.placement.share_positions import PlacedSharePositions
from longhall.doors.kafka.wire.messages import group_admin, share_groups, share_offsets, share_records
from longhall.node.assembly import Node
from tests.doors.hall_and_wings import SECOND, HallAndWings, hall_and_wings
from tests.doors.kafka.asking import ask, batch, produce

COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC, GROUP_ID_NOT_FOUND, OFFSET_OUT_OF_RANGE, NOT_EMPTY = 14, 3, 69, 1, 68
PLACED = {"longhall.placement": "any-host"}
BATCH = 1  # Records of a batch.
GROUP = "g"


async def test_positions_are_described_moved_and_deleted(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        topic = await _read_topic(halls)
        assert await _positions(halls, None) == {0: (0, BATCH), 1: (0, BATCH)}
        assert await _alter(halls, {0: BATCH, 1: 0}) == {0: 0, 1: 0}
        assert await _positions(halls, [1, 0]) == {1: (0, BATCH), 0: (BATCH, 0)}
        assert await _alter(halls, {0: 0, 1: BATCH + 1}) == {0: 0, 1: OFFSET_OUT_OF_RANGE}
        assert await _positions(halls, None) == {0: (0, BATCH), 1: (0, BATCH)}
        assert await _alter(halls, {2: 0}) == {2: UNKNOWN_TOPIC}

        assert await _delete(halls) == 0
        assert await _positions(halls, [0, 1]) == {0: (-1, -1), 1: (-1, -1)}
        assert await _delete(halls) == UNKNOWN_TOPIC
        assert topic in halls.first.hall.catalogue.topics


async def test_groups_with_positions_in_wings_alone_exist_until_they_are_deleted(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await _read_topic(halls)
        door = halls.main.kafka_door
        door.share_groups = ShareGroupCoordinator(door.hall, door.coordinator)  # As at the next leader of the hall.
        door.share_groups.connect(PlacedSharePositions(door.hall, halls.told))
        assert await _listed(halls.main) == [(GROUP, "share", "Empty")]
        assert await _listed(halls.first) == [], "the hall lists them, whose states it knows"
        request = share_groups.ShareGroupDescribeRequest(group_ids=[GROUP])
        assert (await ask(halls.main, request, 1)).groups[0].group_state == "Empty"

        deleted = await ask(halls.main, group_admin.DeleteGroupsRequest(groups_names=[GROUP]), 2)
        assert deleted.results[0].error_code == 0
        assert await _listed(halls.main) == []
        assert not halls.first.hall.queues
        assert not halls.second.hall.queues
        assert (await ask(halls.main, request, 1)).groups[0].error_code == GROUP_ID_NOT_FOUND
        deleted = await ask(halls.main, group_admin.DeleteGroupsRequest(groups_names=[GROUP]), 2)
        assert deleted.results[0].error_code == GROUP_ID_NOT_FOUND


async def test_a_wing_without_a_leader_is_said_of_its_partitions_alone(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await _read_topic(halls)
        halls.told.leaderless = {SECOND}
        rows = await _described(halls, [0, 1])
        assert [(row.error_code, row.start_offset) for row in rows] == [(0, 0), (COORDINATOR_LOAD_IN_PROGRESS, -1)]
        assert await _alter(halls, {0: 1, 1: 1}) == {0: 0, 1: COORDINATOR_LOAD_IN_PROGRESS}
        assert await _listed(halls.main) == [(GROUP, "share", "Empty")]
        assert await _delete(halls) == COORDINATOR_LOAD_IN_PROGRESS
        halls.told.leaderless = set()
        assert await _delete(halls) == 0, "a request that was carried out in part can be repeated"


async def _read_topic(halls: HallAndWings) -> str:
    """A topic with a partition in each wing, and a share group that has fetched from both, and has left."""
    topic = await create_topic(halls.main.hall, "t", 2, PLACED)
    assert topic is not None
    heartbeat = share_groups.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    assert (await ask(halls.main, heartbeat, 1)).error_code == 0
    for number, node in enumerate((halls.first, halls.second)):
        assert await _fetched(node, topic.topic_id, number) == 0
        assert await produce(node, ("t", number), records=batch()) == [0]
    assert await _alter(halls, {0: 0}) == {}, "the group has a member"
    leave = share_groups.ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1)
    assert (await ask(halls.main, leave, 1)).error_code == 0
    return "t"


async def _fetched(node: Node, topic_id: bytes, number: int) -> int:
    part = share_records.ShareFetchRequestPartition(partition_index=number)
    request = share_records.ShareFetchRequest(
        group_id=GROUP,
        member_id="m",
        share_session_epoch=0,
        max_records=100,
        max_bytes=1 << 20,
        batch_size=100,
        topics=[share_records.ShareFetchRequestTopic(topic_id=topic_id, partitions=[part])],
    )
    answer = await ask(node, request, 2)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


async def _described(halls: HallAndWings, numbers: list[int] | None) -> list[Any]:
    asked = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    if numbers is not None:
        topic = share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=numbers)
        asked.topics = [topic]
    answer = await ask(halls.main, share_offsets.DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
    assert answer.groups[0].error_code == 0
    (found,) = answer.groups[0].topics
    return list(found.partitions)


async def _positions(halls: HallAndWings, numbers: list[int] | None) -> dict[int, tuple[int, int]]:
    """Position and lag by partition."""
    return {row.partition_index: (row.start_offset, row.lag) for row in await _described(halls, numbers)}


async def _alter(halls: HallAndWings, offsets: dict[int, int]) -> dict[int, int]:
    """The errors by partition; none of them if the group has members."""
    parts = [
        share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        for number, offset in offsets.items()
    ]
    topic = share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=parts)
    request = share_offsets.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    answer = await ask(halls.main, request, 0)
    assert answer.error_code in (0, NOT_EMPTY)
    return {row.partition_index: row.error_code for one in answer.responses for row in one.partitions}


async def _delete(halls: HallAndWings) -> int:
    gone = share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="t")
    request = share_offsets.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=[gone])
    answer = await ask(halls.main, request, 0)
    assert answer.error_code == 0
    return int(answer.responses[0].error_code)


async def _listed(node: Node) -> list[tuple[str, str, str]]:
    request = group_admin.ListGroupsRequest(types_filter=["share"])
    answer = await ask(node, request, 5)
    return [(row.group_id, row.group_type, row.group_state) for row in answer.groups]
