"""The state of a node for the console: what it has, and nothing that is out of date."""

from __future__ import annotations

from pathlib import Path

from longhall.broker.topic_administration import create_topic
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import CreateQueue
from longhall.topics.effects import CommitRequest
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes


async def test_a_drained_node_shows_no_topics_queues_and_groups(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, "events", 1, {})
        await node.service.dispatch(CreateQueue("orders", QueueSettings()))
        request = CommitRequest(group_id="g", generation=-1, member_id="", offsets=(("events", 0, 0, -1, ""),))
        await node.kafka_door.coordinator.commit_offsets(request)

        def shown() -> list[list[str]]:
            status = node.status
            return [[one.name for one in some] for some in (status.topics(), status.queues(), status.groups())]

        assert shown() == [["events", "orders"], ["orders"], ["g"]]
        leadership = node.hall.leadership
        assert leadership is not None
        leadership.replicas = lambda shard: [FOLLOWER, 3]  # type: ignore[method-assign]
        assert shown() == [[], [], []]
        leadership.replicas = lambda shard: [LEADER]  # type: ignore[method-assign]
        assert shown() == [["events", "orders"], ["orders"], ["g"]]
