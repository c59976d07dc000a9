"""Topics created, extended and deleted."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int8, int16, int32, string, uuid


class CreateTopicsRequestAssignment(Message):
    partition_index: int = int32("0+")
    broker_ids: list[int] = array("0+", "int32")


class CreateTopicsRequestConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", null="0+")


class CreateTopicsRequestTopic(Message):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreateTopicsRequestAssignment] = array("0+", CreateTopicsRequestAssignment)
    configs: list[CreateTopicsRequestConfig] = array("0+", CreateTopicsRequestConfig)


class CreateTopicsRequest(Message, flexible=5):
    """Counts of -1 mean the server's default."""

    topics: list[CreateTopicsRequestTopic] = array("0+", CreateTopicsRequestTopic)
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreateTopicsResponseConfig(Message):
    name: str = string("5+")
    value: str | None = string("5+", null="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


class CreateTopicsResponseTopic(Message):
    name: str = string("0+")
    topic_id: bytes = uuid("7+")
    error_code: int = int16("0+")
    error_message: str | None = string("1+", null="0+", default=None)
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreateTopicsResponseConfig] | None = array("5+", CreateTopicsResponseConfig, null="5+")


class CreateTopicsResponse(Message, flexible=5):
    """One error a topic, and from version 5 on what was created."""

    throttle_time_ms: int = int32("2+")
    topics: list[CreateTopicsResponseTopic] = array("0+", CreateTopicsResponseTopic)


class DeleteTopicsRequestTopic(Message):
    name: str | None = string("6+", null="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, flexible=4):
    """By name up to version 5, by name or id from version 6."""

    topics: list[DeleteTopicsRequestTopic] = array("6+", DeleteTopicsRequestTopic)
    topic_names: list[str] = array("0-5", "string")
    timeout_ms: int = int32("0+")


class DeleteTopicsResponseTopic(Message):
    name: str | None = string("0+", null="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", null="5+", default=None)


class DeleteTopicsResponse(Message, flexible=4):
    """One error a topic."""

    throttle_time_ms: int = int32("1+")
    responses: list[DeleteTopicsResponseTopic] = array("0+", DeleteTopicsResponseTopic)


class CreatePartitionsRequestAssignment(Message):
    broker_ids: list[int] = array("0+", "int32")


class CreatePartitionsRequestTopic(Message):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsRequestAssignment] | None = array(
        "0+", CreatePartitionsRequestAssignment, null="0+"
    )


class CreatePartitionsRequest(Message, flexible=2):
    """`count` is the new total."""

    topics: list[CreatePartitionsRequestTopic] = array("0+", CreatePartitionsRequestTopic)
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsResponseTopic(Message):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class CreatePartitionsResponse(Message, flexible=2):
    """One error a topic."""

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsResponseTopic] = array("0+", CreatePartitionsResponseTopic)


class ElectLeadersRequestTopic(Message):
    topic: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class ElectLeadersRequest(Message, flexible=2):
    """Null topics mean all partitions."""

    election_type: int = int8("1+")
    topic_partitions: list[ElectLeadersRequestTopic] | None = array("0+", ElectLeadersRequestTopic, null="0+")
    timeout_ms: int = int32("0+", default=60000)


class ElectLeadersResponsePartition(Message):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class ElectLeadersResponseTopic(Message):
    topic: str = string("0+")
    partition_result: list[ElectLeadersResponsePartition] = array("0+", ElectLeadersResponsePartition)


class ElectLeadersResponse(Message, flexible=2):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ElectLeadersResponseTopic] = array("0+", ElectLeadersResponseTopic)
