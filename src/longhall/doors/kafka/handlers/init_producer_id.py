"""InitProducerId: the id and epoch of a producer, with or without a transactional id."""

from __future__ import annotations

from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

FENCED_FROM = 4


async def handle(door: Door, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is None:
        producer_id = await topic_operations.take_producer_id(door.hall)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    decision = await door.transactor.init(
        request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )
    code = fenced_as(decision.code, call.header.version >= FENCED_FROM)
    if code is not None:
        return InitProducerIdResponse(error_code=error_of(code))
    return InitProducerIdResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)
