"""OffsetCommit: store the offsets of a group."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from longhall.errors import Code
from longhall.topics.effects import CommitRequest

MEMBER_EPOCHS_FROM = 9
TOPIC_IDS_FROM = 10


async def handle(door: Door, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    by_id = call.header.version >= TOPIC_IDS_FROM
    rows: list[tuple[str, int, int, int, str | None]] = []
    missing: set[tuple[str, int]] = set()
    names: list[str] = []
    for topic in request.topics:
        name = door.hall.topic_name(topic.topic_id) if by_id else topic.name
        names.append(name)
        for part in topic.partitions:
            if door.hall.partition(name, part.partition_index) is None:
                missing.add((name, part.partition_index))
                continue
            rows.append(
                (
                    name,
                    part.partition_index,
                    part.committed_offset,
                    part.committed_leader_epoch,
                    part.committed_metadata,
                )
            )
    result = await door.coordinator.commit_offsets(
        CommitRequest(
            group_id=request.group_id,
            generation=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            knows_epochs=call.header.version >= MEMBER_EPOCHS_FROM,
            offsets=tuple(rows),
        )
    )

    def code_of(name: str, number: int) -> int:
        if (name, number) in missing:
            return error_of(Code.UNKNOWN_TOPIC_ID if by_id and not name else Code.UNKNOWN_TOPIC)
        return error_of(result.code or result.refused.get((name, number)))

    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=code_of(name, part.partition_index)
                    )
                    for part in topic.partitions
                ],
            )
            for topic, name in zip(request.topics, names, strict=True)
        ]
    )
