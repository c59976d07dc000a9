"""Brokers, topics, leaders and coordinators."""

from __future__ import annotations

from enum import IntEnum

from longhall.doors.kafka.wire.schema import Message, array, boolean, int8, int16, int32, string, structure, uuid


class MetadataRequestTopic(Message):
    topic_id: bytes = uuid("10+")
    name: str | None = string("0+", null="10+")


class MetadataRequest(Message, flexible=9):
    """Null topics mean all of them; in version 0 the empty list does."""

    topics: list[MetadataRequestTopic] | None = array("0+", MetadataRequestTopic, null="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Message):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", null="1+", default=None)


class MetadataResponsePartition(Message):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array("0+", "int32")
    isr_nodes: list[int] = array("0+", "int32")
    offline_replicas: list[int] = array("5+", "int32")


class MetadataResponseTopic(Message):
    error_code: int = int16("0+")
    name: str | None = string("0+", null="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array("0+", MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Message, flexible=9):
    """Brokers, topics, and the leader of each partition."""

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array("0+", MetadataResponseBroker)
    cluster_id: str | None = string("2+", null="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array("0+", MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+")


class CoordinatorType(IntEnum):
    """What a coordinator is asked for: `key_type` in the request."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2  # A share partition: group, topic id and partition, with colons between them.


class FindCoordinatorRequest(Message, flexible=3):
    """`key` up to version 3, `coordinator_keys` from version 4."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("4+", "string")


class FindCoordinatorResponseCoordinator(Message):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", null="4+", default=None)


class FindCoordinatorResponse(Message, flexible=3):
    """One coordinator in the message itself up to version 3, a list from version 4."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", null="1-3", default=None)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[FindCoordinatorResponseCoordinator] = array("4+", FindCoordinatorResponseCoordinator)


class DescribeClusterRequest(Message, flexible=0):
    """Asks for the brokers alone."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterResponseBroker(Message):
    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", null="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message, flexible=0):
    """The brokers, and the id of the hall."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterResponseBroker] = array("0+", DescribeClusterResponseBroker)
    cluster_authorized_operations: int = int32("0+", default=-2147483648)


class DescribeTopicPartitionsRequestTopic(Message):
    name: str = string("0+")


class DescribeTopicPartitionsRequestCursor(Message):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsRequest(Message, flexible=0):
    """Metadata in pages."""

    topics: list[DescribeTopicPartitionsRequestTopic] = array("0+", DescribeTopicPartitionsRequestTopic)
    response_partition_limit: int = int32("0+", default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = structure(
        "0+", DescribeTopicPartitionsRequestCursor, null="0+"
    )


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1)
    replica_nodes: list[int] = array("0+", "int32")
    isr_nodes: list[int] = array("0+", "int32")
    eligible_leader_replicas: list[int] | None = array("0+", "int32", null="0+", default=None)
    last_known_elr: list[int] | None = array("0+", "int32", null="0+", default=None)
    offline_replicas: list[int] = array("0+", "int32")


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = int16("0+")
    name: str | None = string("0+", null="0+")
    topic_id: bytes = uuid("0+")
    is_internal: bool = boolean("0+")
    partitions: list[DescribeTopicPartitionsResponsePartition] = array("0+", DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32("0+", default=-2147483648)


class DescribeTopicPartitionsResponseCursor(Message):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsResponse(Message, flexible=0):
    """One page, and where the next one begins."""

    throttle_time_ms: int = int32("0+")
    topics: list[DescribeTopicPartitionsResponseTopic] = array("0+", DescribeTopicPartitionsResponseTopic)
    next_cursor: DescribeTopicPartitionsResponseCursor | None = structure(
        "0+", DescribeTopicPartitionsResponseCursor, null="0+"
    )
