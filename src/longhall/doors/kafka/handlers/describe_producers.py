"""DescribeProducers: the active producers of partitions, and where their open transactions begin."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)
from longhall.errors import Code


def handle(door: Door, request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponseTopic(
                name=topic.name, partitions=[_describe(door, topic.name, number) for number in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(door: Door, name: str, number: int) -> DescribeProducersResponsePartition:
    partition = door.hall.partition(name, number)
    row = DescribeProducersResponsePartition(partition_index=number)
    if partition is None:
        row.error_code = error_of(door.unknown(False))
    elif partition.elsewhere:
        row.error_code = error_of(Code.NOT_LEADER)
    elif partition.producers is not None:
        row.active_producers = [
            DescribeProducersResponseProducer(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start_offset,
            )
            for producer in partition.producers.active()
        ]
    return row
