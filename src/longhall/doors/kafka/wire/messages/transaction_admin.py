"""Producers and transactions, for administrators."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, int16, int32, int64, string


class DescribeProducersRequestTopic(Message):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", "int32")


class DescribeProducersRequest(Message, flexible=0):
    """Asks for the active producers of these partitions."""

    topics: list[DescribeProducersRequestTopic] = array("0+", DescribeProducersRequestTopic)


class DescribeProducersResponseProducer(Message):
    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


class DescribeProducersResponsePartition(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    active_producers: list[DescribeProducersResponseProducer] = array("0+", DescribeProducersResponseProducer)


class DescribeProducersResponseTopic(Message):
    name: str = string("0+")
    partitions: list[DescribeProducersResponsePartition] = array("0+", DescribeProducersResponsePartition)


class DescribeProducersResponse(Message, flexible=0):
    """Producers with their last sequence, and where an open transaction began."""

    throttle_time_ms: int = int32("0+")
    topics: list[DescribeProducersResponseTopic] = array("0+", DescribeProducersResponseTopic)


class DescribeTransactionsRequest(Message, flexible=0):
    """Asks for transactions by transactional id."""

    transactional_ids: list[str] = array("0+", "string")


class DescribeTransactionsResponseTopic(Message):
    topic: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class DescribeTransactionsResponseTransaction(Message):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: list[DescribeTransactionsResponseTopic] = array("0+", DescribeTransactionsResponseTopic)


class DescribeTransactionsResponse(Message, flexible=0):
    """States, times and partitions."""

    throttle_time_ms: int = int32("0+")
    transaction_states: list[DescribeTransactionsResponseTransaction] = array(
        "0+", DescribeTransactionsResponseTransaction
    )


class ListTransactionsRequest(Message, flexible=0):
    """Empty filters mean all; a duration of -1 means any."""

    state_filters: list[str] = array("0+", "string")
    producer_id_filters: list[int] = array("0+", "int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", null="2+", default=None)


class ListTransactionsResponseTransaction(Message):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(Message, flexible=0):
    """All transactions of this coordinator."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("0+", "string")
    transaction_states: list[ListTransactionsResponseTransaction] = array("0+", ListTransactionsResponseTransaction)
