"""Offsets by time and epoch, and deleted records."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, int8, int16, int32, int64, string


class ListOffsetsRequestPartition(Message):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsRequestTopic(Message):
    name: str = string("0+")
    partitions: list[ListOffsetsRequestPartition] = array("0+", ListOffsetsRequestPartition)


class ListOffsetsRequest(Message, flexible=6):
    """Timestamps below zero have names: -1 latest, -2 earliest, -3 the highest timestamp."""

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsRequestTopic] = array("0+", ListOffsetsRequestTopic)
    timeout_ms: int = int32("10+")


class ListOffsetsResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array("0", "int64")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsResponseTopic(Message):
    name: str = string("0+")
    partitions: list[ListOffsetsResponsePartition] = array("0+", ListOffsetsResponsePartition)


class ListOffsetsResponse(Message, flexible=6):
    """The offset of the first record that is not older."""

    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsResponseTopic] = array("0+", ListOffsetsResponseTopic)


class OffsetForLeaderEpochRequestPartition(Message):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32("0+")


class OffsetForLeaderEpochRequestTopic(Message):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderEpochRequestPartition] = array("0+", OffsetForLeaderEpochRequestPartition)


class OffsetForLeaderEpochRequest(Message, flexible=4):
    """Asks for the end of a leader epoch, to detect a truncated log."""

    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderEpochRequestTopic] = array("0+", OffsetForLeaderEpochRequestTopic)


class OffsetForLeaderEpochResponsePartition(Message):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderEpochResponseTopic(Message):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderEpochResponsePartition] = array("0+", OffsetForLeaderEpochResponsePartition)


class OffsetForLeaderEpochResponse(Message, flexible=4):
    """The end of the largest epoch that is not larger."""

    throttle_time_ms: int = int32("2+")
    topics: list[OffsetForLeaderEpochResponseTopic] = array("0+", OffsetForLeaderEpochResponseTopic)


class DeleteRecordsRequestPartition(Message):
    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsRequestTopic(Message):
    name: str = string("0+")
    partitions: list[DeleteRecordsRequestPartition] = array("0+", DeleteRecordsRequestPartition)


class DeleteRecordsRequest(Message, flexible=2):
    """Deletes all records before these offsets; -1 means up to the high watermark."""

    topics: list[DeleteRecordsRequestTopic] = array("0+", DeleteRecordsRequestTopic)
    timeout_ms: int = int32("0+")


class DeleteRecordsResponsePartition(Message):
    partition_index: int = int32("0+")
    low_watermark: int = int64("0+", default=-1)
    error_code: int = int16("0+")


class DeleteRecordsResponseTopic(Message):
    name: str = string("0+")
    partitions: list[DeleteRecordsResponsePartition] = array("0+", DeleteRecordsResponsePartition)


class DeleteRecordsResponse(Message, flexible=2):
    """The new start offsets."""

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsResponseTopic] = array("0+", DeleteRecordsResponseTopic)
