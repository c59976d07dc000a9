"""WriteTxnMarkers: an administrator ends a hanging transaction in some partitions."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from longhall.names import SYSTEM_TOPICS


async def handle(door: Door, request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        topics: list[WriteTxnMarkersResponseTopic] = []
        for topic in marker.topics:
            rows: list[WriteTxnMarkersResponsePartition] = []
            for number in topic.partition_indexes:
                if topic.name in SYSTEM_TOPICS:
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    rows.append(WriteTxnMarkersResponsePartition(partition_index=number, error_code=error))
                    continue
                code = await door.transactor.mark_partition(
                    topic.name,
                    number,
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                    marker.transaction_result,
                )
                rows.append(WriteTxnMarkersResponsePartition(partition_index=number, error_code=error_of(code)))
            topics.append(WriteTxnMarkersResponseTopic(name=topic.name, partitions=rows))
        response.markers.append(WriteTxnMarkersResponseMarker(producer_id=marker.producer_id, topics=topics))
    return response
