"""Produce and Fetch by table.

The server uses the handwritten codecs in `wire.produce` and `wire.fetch`; these tables are for the other direction, and
tests hold both to the same bytes.
"""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, data, int8, int16, int32, int64, string, structure, uuid


class ProduceRequestPartition(Message):
    index: int = int32("0+")
    records: bytes | None = data("0+", null="0+")


class ProduceRequestTopic(Message):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[ProduceRequestPartition] = array("0+", ProduceRequestPartition)


class ProduceRequest(Message, flexible=9):
    """Batches to append. With acks 0 there is no answer."""

    transactional_id: str | None = string("3+", null="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[ProduceRequestTopic] = array("0+", ProduceRequestTopic)


class ProduceResponseRecordError(Message):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", null="8+", default=None)


class ProduceResponseCurrentLeader(Message):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class ProduceResponsePartition(Message):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[ProduceResponseRecordError] = array("8+", ProduceResponseRecordError)
    error_message: str | None = string("8+", null="8+", default=None)
    current_leader: ProduceResponseCurrentLeader = structure("10+", ProduceResponseCurrentLeader, tag=0)


class ProduceResponseTopic(Message):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[ProduceResponsePartition] = array("0+", ProduceResponsePartition)


class ProduceResponseNodeEndpoint(Message):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", null="10+", default=None)


class ProduceResponse(Message, flexible=9):
    """The offset of each batch, or its error."""

    responses: list[ProduceResponseTopic] = array("0+", ProduceResponseTopic)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[ProduceResponseNodeEndpoint] = array("10+", ProduceResponseNodeEndpoint, tag=0)


class FetchRequestReplicaState(Message):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchRequestPartition(Message):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1)


class FetchRequestTopic(Message):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchRequestPartition] = array("0+", FetchRequestPartition)


class FetchRequestForgottenTopic(Message):
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array("7+", "int32")


class FetchRequest(Message, flexible=12):
    """Partitions with offsets to read from, and how long to wait for how many bytes."""

    cluster_id: str | None = string("12+", null="12+", default=None, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: FetchRequestReplicaState = structure("15+", FetchRequestReplicaState, tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=0x7FFFFFFF)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchRequestTopic] = array("0+", FetchRequestTopic)
    forgotten_topics_data: list[FetchRequestForgottenTopic] = array("7+", FetchRequestForgottenTopic)
    rack_id: str = string("11+")


class FetchResponseDivergingEpoch(Message):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class FetchResponseCurrentLeader(Message):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class FetchResponseSnapshotId(Message):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class FetchResponseAbortedTransaction(Message):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class FetchResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: FetchResponseDivergingEpoch = structure("12+", FetchResponseDivergingEpoch, tag=0)
    current_leader: FetchResponseCurrentLeader = structure("12+", FetchResponseCurrentLeader, tag=1)
    snapshot_id: FetchResponseSnapshotId = structure("12+", FetchResponseSnapshotId, tag=2)
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = array(
        "4+", FetchResponseAbortedTransaction, null="4+"
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | None = data("0+", null="0+")


class FetchResponseTopic(Message):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchResponsePartition] = array("0+", FetchResponsePartition)


class FetchResponseNodeEndpoint(Message):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", null="16+", default=None)


class FetchResponse(Message, flexible=12):
    """Batches, with the offsets at which each partition begins and ends."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchResponseTopic] = array("0+", FetchResponseTopic)
    node_endpoints: list[FetchResponseNodeEndpoint] = array("16+", FetchResponseNodeEndpoint, tag=0)
