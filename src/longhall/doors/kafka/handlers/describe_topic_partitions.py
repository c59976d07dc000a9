"""DescribeTopicPartitions: the metadata of topics in pages."""

from __future__ import annotations

from longhall.directory.access_rules import AccessAction, Kind
from longhall.doors.kafka.authorization import may_describe, topic_error
from longhall.doors.kafka.authorized_operations import operations_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.handlers.metadata import partition_row
from longhall.doors.kafka.placements import Placement, Placements
from longhall.doors.kafka.topic_operations import describe_topic
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from longhall.errors import Code
from longhall.names import INTERNAL_PREFIX, is_legal_name

LIMIT_MAX = 2000


def handle(door: Door, request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    asked = sorted({topic.name for topic in request.topics})
    names = asked or [name for name in sorted(door.hall.routes) if may_describe(door, call.caller, name)]
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first = max(request.cursor.partition_index, 0)
    room = min(max(request.response_partition_limit, 1), LIMIT_MAX)
    response = DescribeTopicPartitionsResponse()
    placements = Placements(door.hall, door.node_id)
    for name in names:
        refused = topic_error(door, call.caller, AccessAction.DESCRIBE, name)
        if refused:
            response.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=refused))
            continue
        topic = describe_topic(door.hall, placements, name)
        if topic is None:
            code = error_of(Code.UNKNOWN_TOPIC if is_legal_name(name) else Code.INVALID_NAME)
            response.topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
            continue
        if room == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        shown = range(len(topic.partitions))[first : first + room]
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name.startswith(INTERNAL_PREFIX),
                topic_authorized_operations=operations_of(door.access, call.caller, Kind.TOPIC, name),
                partitions=[_partition(number, topic.partitions[number]) for number in shown],
            )
        )
        room -= len(shown)
        if first + len(shown) < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=first + len(shown)
            )
            break
        first = 0
    return response


def _partition(number: int, placement: Placement) -> DescribeTopicPartitionsResponsePartition:
    row = partition_row(DescribeTopicPartitionsResponsePartition, number, placement)
    row.eligible_leader_replicas = []
    row.last_known_elr = []
    return row
