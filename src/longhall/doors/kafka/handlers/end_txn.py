"""EndTxn: commit or abort a transaction."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.messages.transactions import EndTxnRequest, EndTxnResponse
from longhall.errors import Code

FENCED_FROM = 2
ABORTABLE_FROM = 4
RAISES_EPOCH_FROM = 5


async def handle(door: Door, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    version = call.header.version
    decision = await door.transactor.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        raises_epoch=version >= RAISES_EPOCH_FROM,
    )
    code = fenced_as(decision.code, version >= FENCED_FROM)
    if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        code = Code.INVALID_REQUEST  # Clients of older versions abort on it as well.
    if code is not None:
        return EndTxnResponse(error_code=error_of(code))
    return EndTxnResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)
