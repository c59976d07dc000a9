"""Requests that this process may not answer from its own state: it follows a leader, or has another replication group.

The table of operations says what a follower does with each API. The process of another replication group answers what
is about the records of its own log, gives out producer ids of its own block, and passes every other request to the main
hall, whose answer goes to the client.

This module does not know how a request reaches the other process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from longhall.broker.feature_gates import may_reserve_producer_ids
from longhall.cluster.placement.group_client import GroupClient
from longhall.doors.kafka.authorization import carry_out
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.operations import Follower, Operation
from longhall.doors.kafka.refusals import refuse
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import Code, LonghallError
from longhall.service.kafka_operations import AnswerKafkaRequest

PATIENCE_S: Final = 1.0  # Without an answer of the leader in this time a follower describes topics itself.

_ERROR_OF: Final = {
    Follower.HAS_BLOCK: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Follower.NOT_LEADER: error_of(Code.NOT_LEADER),
    Follower.NOT_COORDINATOR: error_of(Code.NOT_COORDINATOR),
}
_ASKING: Final = (Follower.ASKS, Follower.ASKS_OR_ANSWERS, Follower.HAS_BLOCK)

_log = logging.getLogger("longhall.kafka")

Outcome = Message | Coroutine[Any, Any, Message | bytes]


def answer(door: Door, operation: Operation, call: Call, request: Message) -> Outcome:
    """The response or the frame of a response, now or as a coroutine, wherever the request is answered."""
    follower = operation.follower_of(request)
    has_block = follower is Follower.HAS_BLOCK
    if has_block and may_reserve_producer_ids(door.hall):
        return _handle(door, operation, call, request)
    if door.main is not None and (has_block or not operation.is_for_group(request)):
        return _ask_main(door.main, call)
    if not door.follows:
        return _handle(door, operation, call, request)
    if follower in _ASKING:
        return _ask_leader(door, operation, follower, call, request)
    return _answer_here(door, operation, call, request)


def refusal_of(operation: Operation, request: Message, version: int) -> Message | None:
    """What a follower answers without its leader and without its own state; None if it needs its state."""
    follower = operation.follower_of(request)
    if follower is Follower.EMPTY:
        return operation.api.response()
    error_code = _ERROR_OF.get(follower)
    return refuse(operation.api, request, version, error_code) if error_code is not None else None


def _answer_here(door: Door, operation: Operation, call: Call, request: Message) -> Outcome:
    """What a follower answers without its leader."""
    refusal = refusal_of(operation, request, call.header.version)
    return refusal if refusal is not None else _handle(door, operation, call, request)


def _handle(door: Door, operation: Operation, call: Call, request: Message) -> Outcome:
    assert operation.handler is not None
    return carry_out(door, operation.api, operation.handler, request, call)


async def _ask_leader(
    door: Door, operation: Operation, follower: Follower, call: Call, request: Message
) -> Message | bytes:
    """The leader's answer. A node without a replica has no state to answer from: the client is hung up on."""
    is_described_here = follower is Follower.ASKS_OR_ANSWERS
    try:
        async with asyncio.timeout(PATIENCE_S if is_described_here and door.keeps else None):
            return await door.service.dispatch(AnswerKafkaRequest(call.frame), call.caller)
    except (LonghallError, TimeoutError) as error:
        _log.info("the leader did not answer a request", extra={"api": operation.api.name, "reason": str(error)})
        if is_described_here and not door.keeps:
            raise
    outcome = _answer_here(door, operation, call, request)
    return outcome if isinstance(outcome, Message) else await outcome


async def _ask_main(main: GroupClient, call: Call) -> bytes:
    """The main hall's answer. Without one the client is hung up on, and asks another broker."""
    return await main.call(AnswerKafkaRequest(call.frame), call.caller)
