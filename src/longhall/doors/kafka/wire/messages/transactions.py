"""Producer ids and transactions."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int8, int16, int32, int64, string


class InitProducerIdRequest(Message, flexible=2):
    """Asks for an id, or for the next epoch of a known one. A transactional id fences its earlier holders."""

    transactional_id: str | None = string("0+", null="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Message, flexible=2):
    """The id and epoch to write with."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+", default=-1)


class AddPartitionsToTxnRequestTopic(Message):
    name: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class AddPartitionsToTxnRequestTransaction(Message):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnRequestTopic] = array("4+", AddPartitionsToTxnRequestTopic)


class AddPartitionsToTxnRequest(Message, flexible=3):
    """One transaction in the `v3_and_below` fields up to version 3, a list from version 4."""

    transactions: list[AddPartitionsToTxnRequestTransaction] = array("4+", AddPartitionsToTxnRequestTransaction)
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequestTopic] = array("0-3", AddPartitionsToTxnRequestTopic)


class AddPartitionsToTxnResponsePartition(Message):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnResponseTopic(Message):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnResponsePartition] = array("0+", AddPartitionsToTxnResponsePartition)


class AddPartitionsToTxnResponseTransactionResult(Message):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnResponseTopic] = array("4+", AddPartitionsToTxnResponseTopic)


class AddPartitionsToTxnResponse(Message, flexible=3):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResponseTransactionResult] = array(
        "4+", AddPartitionsToTxnResponseTransactionResult
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponseTopic] = array("0-3", AddPartitionsToTxnResponseTopic)


class AddOffsetsToTxnRequest(Message, flexible=3):
    """The offsets of this group become part of the transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Message, flexible=3):
    """One error for the whole request."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class EndTxnRequest(Message, flexible=3):
    """Commit or abort."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Message, flexible=3):
    """From version 5 on with the epoch to use in the next transaction."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string("0+", null="0+")


class TxnOffsetCommitRequestTopic(Message):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = array("0+", TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, flexible=3):
    """Offsets that are stored when the transaction commits."""

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", null="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array("0+", TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Message):
    name: str = string("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = array("0+", TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, flexible=3):
    """One error a partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array("0+", TxnOffsetCommitResponseTopic)


class WriteTxnMarkersRequestTopic(Message):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", "int32")


class WriteTxnMarkersRequestMarker(Message):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WriteTxnMarkersRequestTopic] = array("0+", WriteTxnMarkersRequestTopic)
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+")


class WriteTxnMarkersRequest(Message, flexible=1):
    """Ends a transaction in these partitions without its coordinator; administrators end hanging transactions so."""

    markers: list[WriteTxnMarkersRequestMarker] = array("0+", WriteTxnMarkersRequestMarker)


class WriteTxnMarkersResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WriteTxnMarkersResponseTopic(Message):
    name: str = string("0+")
    partitions: list[WriteTxnMarkersResponsePartition] = array("0+", WriteTxnMarkersResponsePartition)


class WriteTxnMarkersResponseMarker(Message):
    producer_id: int = int64("0+")
    topics: list[WriteTxnMarkersResponseTopic] = array("0+", WriteTxnMarkersResponseTopic)


class WriteTxnMarkersResponse(Message, flexible=1):
    """One error a partition."""

    markers: list[WriteTxnMarkersResponseMarker] = array("0+", WriteTxnMarkersResponseMarker)
