"""InitProducerId: the id and epoch of a producer, with or without a transactional id."""

from __future__ import annotations

import logging

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from longhall.errors import LonghallError

FENCED_FROM = 4

_log = logging.getLogger("longhall.kafka")


async def handle(door: Door, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is None:
        return await _take(door)
    decision = await door.transactor.init(
        request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )
    code = fenced_as(decision.code, call.header.version >= FENCED_FROM)
    if code is not None:
        return InitProducerIdResponse(error_code=error_of(code))
    return InitProducerIdResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)


async def _take(door: Door) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await door.producer_ids.take(), producer_epoch=0)
    except LonghallError as error:
        _log.info("no producer id can be given out now", extra={"reason": str(error)})
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)  # Clients ask again.
