"""Reassignments of partitions to other replicas."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, string


class AlterPartitionReassignmentsRequestPartition(Message):
    partition_index: int = int32("0+")
    replicas: list[int] | None = array("0+", "int32", null="0+")


class AlterPartitionReassignmentsRequestTopic(Message):
    name: str = string("0+")
    partitions: list[AlterPartitionReassignmentsRequestPartition] = array(
        "0+", AlterPartitionReassignmentsRequestPartition
    )


class AlterPartitionReassignmentsRequest(Message, flexible=0):
    """Null replicas cancel the reassignment of a partition."""

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequestTopic] = array("0+", AlterPartitionReassignmentsRequestTopic)


class AlterPartitionReassignmentsResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class AlterPartitionReassignmentsResponseTopic(Message):
    name: str = string("0+")
    partitions: list[AlterPartitionReassignmentsResponsePartition] = array(
        "0+", AlterPartitionReassignmentsResponsePartition
    )


class AlterPartitionReassignmentsResponse(Message, flexible=0):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    responses: list[AlterPartitionReassignmentsResponseTopic] = array("0+", AlterPartitionReassignmentsResponseTopic)


class ListPartitionReassignmentsRequestTopic(Message):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", "int32")


class ListPartitionReassignmentsRequest(Message, flexible=0):
    """Null topics mean all reassignments."""

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsRequestTopic] | None = array(
        "0+", ListPartitionReassignmentsRequestTopic, null="0+"
    )


class ListPartitionReassignmentsResponsePartition(Message):
    partition_index: int = int32("0+")
    replicas: list[int] = array("0+", "int32")
    adding_replicas: list[int] = array("0+", "int32")
    removing_replicas: list[int] = array("0+", "int32")


class ListPartitionReassignmentsResponseTopic(Message):
    name: str = string("0+")
    partitions: list[ListPartitionReassignmentsResponsePartition] = array(
        "0+", ListPartitionReassignmentsResponsePartition
    )


class ListPartitionReassignmentsResponse(Message, flexible=0):
    """The reassignments under way."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    topics: list[ListPartitionReassignmentsResponseTopic] = array("0+", ListPartitionReassignmentsResponseTopic)
