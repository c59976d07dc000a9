"""Directories of partitions and their sizes."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, int64, string


class AlterReplicaLogDirsRequestTopic(Message):
    name: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class AlterReplicaLogDirsRequestDir(Message):
    path: str = string("0+")
    topics: list[AlterReplicaLogDirsRequestTopic] = array("0+", AlterReplicaLogDirsRequestTopic)


class AlterReplicaLogDirsRequest(Message, flexible=2):
    """Asks a broker to store partitions in another of its directories."""

    dirs: list[AlterReplicaLogDirsRequestDir] = array("0+", AlterReplicaLogDirsRequestDir)


class AlterReplicaLogDirsResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class AlterReplicaLogDirsResponseTopic(Message):
    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirsResponsePartition] = array("0+", AlterReplicaLogDirsResponsePartition)


class AlterReplicaLogDirsResponse(Message, flexible=2):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirsResponseTopic] = array("0+", AlterReplicaLogDirsResponseTopic)


class DescribeLogDirsRequestTopic(Message):
    topic: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class DescribeLogDirsRequest(Message, flexible=2):
    """Null topics mean all."""

    topics: list[DescribeLogDirsRequestTopic] | None = array("0+", DescribeLogDirsRequestTopic, null="0+")


class DescribeLogDirsResponsePartition(Message):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


class DescribeLogDirsResponseTopic(Message):
    name: str = string("0+")
    partitions: list[DescribeLogDirsResponsePartition] = array("0+", DescribeLogDirsResponsePartition)


class DescribeLogDirsResponseDirectory(Message):
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsResponseTopic] = array("0+", DescribeLogDirsResponseTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


class DescribeLogDirsResponse(Message, flexible=2):
    """Directories with their partitions."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResponseDirectory] = array("0+", DescribeLogDirsResponseDirectory)
