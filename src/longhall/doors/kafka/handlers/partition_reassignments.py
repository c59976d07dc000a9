"""AlterPartitionReassignments and ListPartitionReassignments: partitions have the replicas of their replication group.

| asked for | answer |
|---|---|
| the replicas that the partition has, in any order | nothing to do |
| other replicas | INVALID_REPLICA_ASSIGNMENT: replicas change for a whole replication group |
| null, which cancels | NO_REASSIGNMENT_IN_PROGRESS |

A reassignment is never under way, so the list is empty.
"""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.placements import Placements
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from longhall.errors import Code


def handle_alter(
    door: Door, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    placements = Placements(door.hall, door.node_id)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    for topic in request.topics:
        rows = [_row(door, placements, topic.name, asked) for asked in topic.partitions]
        response.responses.append(AlterPartitionReassignmentsResponseTopic(name=topic.name, partitions=rows))
    return response


def handle_list(
    door: Door, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()


def _row(
    door: Door, placements: Placements, name: str, asked: AlterPartitionReassignmentsRequestPartition
) -> AlterPartitionReassignmentsResponsePartition:
    code, message = _refusal(door, placements, name, asked)
    return AlterPartitionReassignmentsResponsePartition(
        partition_index=asked.partition_index, error_code=code, error_message=message
    )


def _refusal(
    door: Door, placements: Placements, name: str, asked: AlterPartitionReassignmentsRequestPartition
) -> tuple[int, str | None]:
    partition = door.hall.partition(name, asked.partition_index)
    if partition is None:
        return error_of(Code.UNKNOWN_TOPIC), "There is no such partition."
    if asked.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned."
    replicas = placements.of(partition).replicas
    if sorted(asked.replicas) != sorted(replicas):
        return error_of(Code.INVALID_REPLICA_ASSIGNMENT), (
            f"The partition has the replicas of its replication group, {sorted(replicas)}: they change for the whole "
            "group, when nodes join and leave."
        )
    return 0, None
