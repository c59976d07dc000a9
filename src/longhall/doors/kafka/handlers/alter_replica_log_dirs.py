"""AlterReplicaLogDirs: a node has one data directory, so a partition is there already or cannot be moved."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.storage import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from longhall.errors import Code


def handle(door: Door, request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    rows: dict[str, AlterReplicaLogDirsResponseTopic] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            row = rows.setdefault(topic.name, AlterReplicaLogDirsResponseTopic(topic_name=topic.name))
            row.partitions += [
                AlterReplicaLogDirsResponsePartition(
                    partition_index=number, error_code=_code(door, directory.path, topic.name, number)
                )
                for number in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(rows.values()))


def _code(door: Door, path: str, name: str, number: int) -> int:
    if path.rstrip("/") != door.data.rstrip("/"):
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = door.hall.partition(name, number)
    if partition is None:
        return error_of(Code.UNKNOWN_TOPIC)
    return ErrorCode.REPLICA_NOT_AVAILABLE if partition.elsewhere or not door.keeps else 0
