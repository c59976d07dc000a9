"""Committed offsets of groups."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Message):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", null="0+")


class OffsetCommitRequestTopic(Message):
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array("0+", OffsetCommitRequestPartition)


class OffsetCommitRequest(Message, flexible=8):
    """A generation of -1 commits from outside the group's membership."""

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", null="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array("0+", OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetCommitResponseTopic(Message):
    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array("0+", OffsetCommitResponsePartition)


class OffsetCommitResponse(Message, flexible=8):
    """One error a partition."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array("0+", OffsetCommitResponseTopic)


class OffsetFetchRequestTopic(Message):
    name: str = string("0-7")
    partition_indexes: list[int] = array("0-7", "int32")


class OffsetFetchRequestGroupTopic(Message):
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array("8+", "int32")


class OffsetFetchRequestGroup(Message):
    group_id: str = string("8+")
    member_id: str | None = string("9+", null="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestGroupTopic] | None = array("8+", OffsetFetchRequestGroupTopic, null="8+")


class OffsetFetchRequest(Message, flexible=6):
    """One group in the message itself up to version 7, a list from version 8. Null topics mean all."""

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array("0-7", OffsetFetchRequestTopic, null="2-7")
    groups: list[OffsetFetchRequestGroup] = array("8+", OffsetFetchRequestGroup)
    require_stable: bool = boolean("7+")


class OffsetFetchResponsePartition(Message):
    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7", default=-1)
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("0-7", null="0-7")
    error_code: int = int16("0-7")


class OffsetFetchResponseTopic(Message):
    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array("0-7", OffsetFetchResponsePartition)


class OffsetFetchResponseGroupTopicPartition(Message):
    partition_index: int = int32("8+")
    committed_offset: int = int64("8+", default=-1)
    committed_leader_epoch: int = int32("8+", default=-1)
    metadata: str | None = string("8+", null="8+")
    error_code: int = int16("8+")


class OffsetFetchResponseGroupTopic(Message):
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponseGroupTopicPartition] = array("8+", OffsetFetchResponseGroupTopicPartition)


class OffsetFetchResponseGroup(Message):
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseGroupTopic] = array("8+", OffsetFetchResponseGroupTopic)
    error_code: int = int16("8+")


class OffsetFetchResponse(Message, flexible=6):
    """An offset of -1 means that none is committed."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array("0-7", OffsetFetchResponseTopic)
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array("8+", OffsetFetchResponseGroup)


class OffsetDeleteRequestPartition(Message):
    partition_index: int = int32("0+")


class OffsetDeleteRequestTopic(Message):
    name: str = string("0+")
    partitions: list[OffsetDeleteRequestPartition] = array("0+", OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Message):
    """Deletes the committed offsets of a group for these partitions."""

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array("0+", OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetDeleteResponseTopic(Message):
    name: str = string("0+")
    partitions: list[OffsetDeleteResponsePartition] = array("0+", OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Message):
    """One error a partition."""

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+")
    topics: list[OffsetDeleteResponseTopic] = array("0+", OffsetDeleteResponseTopic)
