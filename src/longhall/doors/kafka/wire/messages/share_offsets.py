"""Offsets of share groups, for administrators (KIP-932)."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = string("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        "0+", DescribeShareGroupOffsetsRequestTopic, null="0+", default=None
    )


class DescribeShareGroupOffsetsRequest(Message, flexible=0):
    """Asks for the positions of groups; without topics, for all of a group."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array("0+", DescribeShareGroupOffsetsRequestGroup)


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")
    leader_epoch: int = int32("0+")
    lag: int = int64("1+", default=-1)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        "0+", DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = string("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array("0+", DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, flexible=0):
    """The first offset that is not done with, and how many records are not."""

    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array("0+", DescribeShareGroupOffsetsResponseGroup)


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = int32("0+")
    start_offset: int = int64("0+")


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = string("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array("0+", AlterShareGroupOffsetsRequestPartition)


class AlterShareGroupOffsetsRequest(Message, flexible=0):
    """Moves the positions of a group without members."""

    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array("0+", AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array("0+", AlterShareGroupOffsetsResponsePartition)


class AlterShareGroupOffsetsResponse(Message, flexible=0):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array("0+", AlterShareGroupOffsetsResponseTopic)


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = string("0+")


class DeleteShareGroupOffsetsRequest(Message, flexible=0):
    """Deletes the positions of a group without members on whole topics."""

    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array("0+", DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = string("0+")
    topic_id: bytes = uuid("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, flexible=0):
    """One error a topic."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array("0+", DeleteShareGroupOffsetsResponseTopic)
