"""AlterPartitionReassignments and ListPartitionReassignments: a partition moves to another replication group.

A partition has the replicas of its group, all of them. So the replicas that are asked for name a group:

| asked for | answer |
|---|---|
| the replicas of the group that has the partition, in any order | nothing to do; a move under way is cancelled |
| the replicas of another group, wings and hall alike | the partition moves there |
| any other replicas | INVALID_REPLICA_ASSIGNMENT: replicas change for a whole replication group |
| another number of replicas, and the request allows none | INVALID_REPLICATION_FACTOR |
| null, which cancels | the move is cancelled, or NO_REASSIGNMENT_IN_PROGRESS |

All partitions of one topic in a request begin to move in one entry of the catalogue, or none of them. The leader of the
hall answers: it has the moves. Moves that operators and the balance began are listed like those of clients.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.broker.configuration import IN_THE_HALL
from longhall.broker.partition import Partition
from longhall.broker.placement import GroupLocation, group_of
from longhall.cluster.rpc.operation import Operation
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.service.partition_operations import CancelPartitionMoves, MovePartitions

STAY: Final = ""  # As the name of a group: the partition stays where it is, and its move is cancelled.

Outcome = tuple[int, str | None]  # Kafka's error and its message; 0 if it is done.
DONE: Final[Outcome] = (0, None)


class _Plan(NamedTuple):
    """What is asked for the partitions of one topic. `targets` are names of groups."""

    targets: dict[int, str]
    outcomes: dict[int, Outcome]


async def handle_alter(
    door: Door, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    groups = _groups(door)
    may_change = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change)
    for topic in request.topics:
        plan = _plan(door, groups, topic, may_change)
        await _carry_out(door, topic.name, plan, call)
        rows = [
            AlterPartitionReassignmentsResponsePartition(
                partition_index=asked.partition_index,
                error_code=plan.outcomes[asked.partition_index][0],
                error_message=plan.outcomes[asked.partition_index][1],
            )
            for asked in topic.partitions
        ]
        response.responses.append(AlterPartitionReassignmentsResponseTopic(name=topic.name, partitions=rows))
    return response


def handle_list(
    door: Door, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    replicas = {group.number: group.replicas for group in _groups(door)}
    wanted = None if request.topics is None else {topic.name: set(topic.partition_indexes) for topic in request.topics}
    response = ListPartitionReassignmentsResponse()
    for name, topic in sorted(door.hall.catalogue.topics.items()):
        rows = [
            ListPartitionReassignmentsResponsePartition(
                partition_index=move.partition,
                replicas=[*replicas.get(move.target, []), *replicas.get(move.source, [])],
                adding_replicas=replicas.get(move.target, []),
                removing_replicas=replicas.get(move.source, []),
            )
            for move in topic.options.moves.moves
            if wanted is None or move.partition in wanted.get(name, ())
        ]
        if rows:
            response.topics.append(ListPartitionReassignmentsResponseTopic(name=name, partitions=rows))
    return response


def _groups(door: Door) -> list[GroupLocation]:
    """All replication groups, the hall first."""
    leadership = door.hall.leadership
    replicas = [door.node_id] if leadership is None else leadership.replicas(CATALOGUE_SHARD)
    others = door.hall.wings.groups() if door.hall.wings is not None else []
    return [GroupLocation(0, IN_THE_HALL, replicas), *others]


def _plan(
    door: Door, groups: list[GroupLocation], topic: AlterPartitionReassignmentsRequestTopic, may_change: bool
) -> _Plan:
    plan = _Plan({}, {})
    for asked in topic.partitions:
        partition = door.hall.partition(topic.name, asked.partition_index)
        if partition is None:
            plan.outcomes[asked.partition_index] = error_of(Code.UNKNOWN_TOPIC), "There is no such partition."
            continue
        found = _target(groups, partition, asked, may_change)
        if isinstance(found, str):
            plan.targets[asked.partition_index] = found
            found = DONE
        plan.outcomes[asked.partition_index] = found
    return plan


def _target(
    groups: list[GroupLocation],
    partition: Partition,
    asked: AlterPartitionReassignmentsRequestPartition,
    may_change: bool,
) -> str | Outcome:
    """The group to which the partition should move, STAY if a move should end, or the outcome without either."""
    options = partition.options
    move = options.moves.of(partition.number)
    if asked.replicas is None:
        return STAY if move is not None else (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition does not move.")
    owner = group_of(options.wings, partition.number)
    here = next((group.replicas for group in groups if group.number == owner), [])
    if not may_change and len(asked.replicas) != len(here):
        return ErrorCode.INVALID_REPLICATION_FACTOR, f"The partition has {len(here)} replicas."
    target = next((group for group in groups if sorted(group.replicas) == sorted(asked.replicas)), None)
    if target is None:
        known = ", ".join(f"{sorted(group.replicas)} ({group.name})" for group in groups)
        return error_of(Code.INVALID_REPLICA_ASSIGNMENT), (
            f"A partition has all replicas of a replication group: {known}. They change for the whole group, when "
            "nodes join and leave."
        )
    if target.number != owner:
        return target.name
    return DONE if move is None or move.target == owner else STAY


async def _carry_out(door: Door, name: str, plan: _Plan, call: Call) -> None:
    """Begin the moves of one topic, and cancel others; a refusal is the outcome of all partitions that it is about."""
    targets = {number: group for number, group in plan.targets.items() if group != STAY}
    staying = [number for number, group in plan.targets.items() if group == STAY]
    steps: list[tuple[list[int], Operation[int]]] = []
    if staying:
        steps.append((staying, CancelPartitionMoves(name, staying)))
    if targets:
        steps.append((list(targets), MovePartitions(name, targets)))
    for numbers, operation in steps:
        try:
            await door.service.dispatch(operation, call.caller)
        except LonghallError as error:
            plan.outcomes.update(dict.fromkeys(numbers, (error_of(error.code), str(error))))
