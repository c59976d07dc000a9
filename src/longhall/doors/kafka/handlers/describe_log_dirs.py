"""DescribeLogDirs: the size of the partitions that this process stores, and the free space of the data directory."""

from __future__ import annotations

from collections.abc import Sequence

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.storage import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDirectory,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseTopic,
)


def handle(door: Door, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    hall = door.hall
    wanted: list[tuple[str, Sequence[int]]]
    if request.topics is None:
        wanted = [(name, range(len(route))) for name, route in sorted(hall.routes.items())]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topics]
    topics: list[DescribeLogDirsResponseTopic] = []
    for name, numbers in wanted:
        found = [
            partition
            for number in numbers
            if (partition := hall.partition(name, number)) is not None and not partition.elsewhere and door.keeps
        ]
        if found:
            rows = [
                DescribeLogDirsResponsePartition(
                    partition_index=partition.number, partition_size=partition.log.bytes_kept()
                )
                for partition in found
            ]
            topics.append(DescribeLogDirsResponseTopic(name=name, partitions=rows))
    free = hall.world.disk.free_bytes()
    used = sum(partition.log.bytes_kept() for partition in hall.partitions.values())
    directory = DescribeLogDirsResponseDirectory(
        log_dir=door.data, topics=topics, total_bytes=free + used, usable_bytes=free
    )
    return DescribeLogDirsResponse(results=[directory])
