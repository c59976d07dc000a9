"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which readers detect a truncated log."""

from __future__ import annotations

from longhall.broker.fetch import check_epoch
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)


def handle(door: Door, request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic, partitions=[_end(door, topic.topic, part) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(door: Door, name: str, part: OffsetForLeaderEpochRequestPartition) -> OffsetForLeaderEpochResponsePartition:
    row = OffsetForLeaderEpochResponsePartition(partition=part.partition)
    partition = door.hall.partition(name, part.partition)
    if partition is None:
        row.error_code = error_of(door.unknown(False))
        return row
    row.error_code = error_of(check_epoch(partition, part.current_leader_epoch))
    if row.error_code == 0:
        row.leader_epoch, row.end_offset = partition.end_of_epoch(part.leader_epoch)
        if row.leader_epoch < 0 <= part.leader_epoch < partition.epoch and partition.high_watermark:
            # Retention has removed what was written in that epoch: it ended where the log begins now.
            row.leader_epoch, row.end_offset = part.leader_epoch, partition.log.start_offset
    return row
