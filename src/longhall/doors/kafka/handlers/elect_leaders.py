"""ElectLeaders: every partition has its preferred leader, so no election is needed."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.topics import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from longhall.errors import Code

ELECTION_NOT_NEEDED = 84


def handle(door: Door, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    if request.topic_partitions is None:
        return ElectLeadersResponse()
    return ElectLeadersResponse(
        replica_election_results=[
            ElectLeadersResponseTopic(
                topic=topic.topic,
                partition_result=[_answer(door, topic.topic, number) for number in topic.partitions],
            )
            for topic in request.topic_partitions
        ]
    )


def _answer(door: Door, name: str, number: int) -> ElectLeadersResponsePartition:
    if door.hall.partition(name, number) is None:
        code = error_of(Code.UNKNOWN_TOPIC)
        return ElectLeadersResponsePartition(partition_id=number, error_code=code, error_message=None)
    return ElectLeadersResponsePartition(
        partition_id=number, error_code=ELECTION_NOT_NEEDED, error_message="The leader is the preferred one."
    )
