"""AddOffsetsToTxn: add the offsets of a group to a transaction."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_FROM = 2


async def handle(door: Door, request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    decision = await door.transactor.add(
        request.transactional_id, request.producer_id, request.producer_epoch, groups=[request.group_id]
    )
    return AddOffsetsToTxnResponse(error_code=error_of(fenced_as(decision.code, call.header.version >= FENCED_FROM)))
