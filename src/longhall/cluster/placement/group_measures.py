"""Sizes and traffic of the topics in one replication group, at its leader.

The hall's leader asks every group for them: sizes for the cluster map, traffic for the placement of new topics.
"""

from __future__ import annotations

from collections.abc import Iterable

from longhall.broker.hall import Hall
from longhall.cluster.placement.topic_operations import GroupTraffic, PartitionSize


def sizes_of(hall: Hall, names: Iterable[str]) -> dict[str, list[PartitionSize]]:
    """The partitions of these topics that this group stores, with their sizes."""
    return {
        name: [
            PartitionSize(
                partition.number, partition.log.bytes_kept(), partition.high_watermark - partition.log.start_offset
            )
            for partition in hall.routes[name]
            if not partition.elsewhere
        ]
        for name in names
        if name in hall.routes
    }


def traffic_of(hall: Hall) -> GroupTraffic:
    """The bytes of the write-ahead log and the messages since the start of this process. The log has leases and
    settlements as well, which are work too.
    """
    counted = [hall.traffic, *hall.topic_traffic.values()]
    return GroupTraffic(hall.wal.end, sum(one.messages_in for one in counted))
