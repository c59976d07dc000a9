"""The replicas of the metadata log."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequestPartition(Message):
    partition_index: int = int32("0+")


class DescribeQuorumRequestTopic(Message):
    topic_name: str = string("0+")
    partitions: list[DescribeQuorumRequestPartition] = array("0+", DescribeQuorumRequestPartition)


class DescribeQuorumRequest(Message, flexible=0):
    """Clients ask for partition 0 of `__cluster_metadata`."""

    topics: list[DescribeQuorumRequestTopic] = array("0+", DescribeQuorumRequestTopic)


class DescribeQuorumResponseReplica(Message):
    replica_id: int = int32("0+")
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribeQuorumResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", null="2+", default=None)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: list[DescribeQuorumResponseReplica] = array("0+", DescribeQuorumResponseReplica)
    observers: list[DescribeQuorumResponseReplica] = array("0+", DescribeQuorumResponseReplica)


class DescribeQuorumResponseTopic(Message):
    topic_name: str = string("0+")
    partitions: list[DescribeQuorumResponsePartition] = array("0+", DescribeQuorumResponsePartition)


class DescribeQuorumResponseListener(Message):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class DescribeQuorumResponseNode(Message):
    node_id: int = int32("2+")
    listeners: list[DescribeQuorumResponseListener] = array("2+", DescribeQuorumResponseListener)


class DescribeQuorumResponse(Message, flexible=0):
    """The leader, and how far each replica has the log."""

    error_code: int = int16("0+")
    error_message: str | None = string("2+", null="2+", default=None)
    topics: list[DescribeQuorumResponseTopic] = array("0+", DescribeQuorumResponseTopic)
    nodes: list[DescribeQuorumResponseNode] = array("2+", DescribeQuorumResponseNode)
