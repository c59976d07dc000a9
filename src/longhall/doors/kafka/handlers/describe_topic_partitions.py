"""DescribeTopicPartitions: metadata in pages, as newer clients ask for it."""

from __future__ import annotations

from longhall.broker.partition import Partition
from longhall.doors.kafka.brokers import Places
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from longhall.errors import Code

LIMIT_MAX = 2000


def handle(door: Door, request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics}) or sorted(door.hall.routes)
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first = max(request.cursor.partition_index, 0)
    room = min(max(request.response_partition_limit, 1), LIMIT_MAX)
    response = DescribeTopicPartitionsResponse()
    places = Places(door)
    for name in names:
        route = door.hall.shown(name)
        if route is None:
            code = error_of(Code.UNKNOWN_TOPIC)
            response.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
            continue
        if room == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        shown = route[first : first + room]
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=route[0].topic_id,
                partitions=[_partition(places, partition) for partition in shown],
            )
        )
        room -= len(shown)
        if first + len(shown) < len(route):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=first + len(shown)
            )
            break
        first = 0
    return response


def _partition(places: Places, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    placement = places.of(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=placement.error_code,
        partition_index=partition.number,
        leader_id=placement.leader,
        leader_epoch=placement.epoch,
        replica_nodes=placement.replicas,
        isr_nodes=placement.in_sync,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=placement.offline,
    )
