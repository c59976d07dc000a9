"""DescribeTransactions: state, times and partitions."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransaction,
)
from longhall.errors import Code


def handle(door: Door, request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(door, name) for name in request.transactional_ids]
    )


def _describe(door: Door, name: str) -> DescribeTransactionsResponseTransaction:
    found = door.transactor.describe_transaction(name)
    if found is None:
        code = error_of(Code.TRANSACTION_UNKNOWN)
        return DescribeTransactionsResponseTransaction(transactional_id=name, error_code=code)
    topics: dict[str, list[int]] = {}
    for topic, number in found.partitions:
        topics.setdefault(topic, []).append(number)
    return DescribeTransactionsResponseTransaction(
        transactional_id=name,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=topic, partitions=numbers) for topic, numbers in topics.items()
        ],
    )
