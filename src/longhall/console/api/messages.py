"""Messages: send, receive, settle, extend or return a lease, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import BYTES, Asked, Reply
from longhall.console.api.bodies import (
    Given,
    Text,
    Typed,
    shown,
    shown_attributes,
    understood,
    understood_attributes,
)
from longhall.console.api.content_digest import crc32c_text, verify_crc32c
from longhall.console.api.refusals import refusal_of
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, Delivery, Outgoing, WriteBack
from longhall.service.queue_operations import (
    AnswerMessage,
    ChangeLeases,
    ReceiveFromAny,
    ReceiveMessages,
    SendMessages,
    SettleMessages,
    SettleWithSends,
)

if TYPE_CHECKING:
    from longhall.service.router import Router

COUNT_MAX: Final = 100  # Messages of one reply,
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024  # and fewer if their largest possible sizes add up to more than this.
SEND_MAX: Final = 1000
RECEIPTS_MAX: Final = 1000
SENDS_MAX: Final = 100  # Queues and topics that one settle sends to.
WAIT_MS_MAX: Final = 60_000
QUEUES_MAX: Final = 100  # In one receive.
FILTER_CHARACTERS_MAX: Final = 16_384
STAMP_MAX: Final = 10**18 - 1
YEARS_MS: Final = 10 * 365 * 24 * 3_600_000

_Name = Annotated[str, Meta(max_length=1024)]
_OrQueues = Annotated[int, Meta(ge=-1, le=YEARS_MS)]  # -1: the queue's setting.


class MessageFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All fields of a message except its body."""

    attributes: dict[str, Given] = {}
    key: Text | None = None
    group: _Name = ""
    deduplication_id: _Name = ""
    delay_ms: _OrQueues = -1
    time_to_live_ms: _OrQueues = -1
    priority: Annotated[int, Meta(ge=0, le=254)] = 0
    reply_to: _Name = ""
    correlation_id: _Name = ""
    report_fate: bool = False
    stamp: Annotated[int, Meta(ge=0, le=STAMP_MAX)] = 0


class CheckedFields(MessageFields, kw_only=True, forbid_unknown_fields=True):
    """The fields of a message whose body comes with them, and the checksum of the body."""

    crc32c: Annotated[str, Meta(pattern="^([0-9a-fA-F]{8})?$")] = ""


class MessageIn(CheckedFields, kw_only=True, forbid_unknown_fields=True):
    """One message to send."""

    body: Text


class Sending(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Messages to send."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=SEND_MAX)]


class SentOne(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The position of an accepted message, or its refusal."""

    message_id: str = ""
    sequence: int = -1
    repeated: bool = False
    code: str = ""
    message: str = ""


class Sent(msgspec.Struct, kw_only=True):
    """The results, in the order of the messages."""

    messages: list[SentOne]


class Receiving(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The number of messages, the time to wait, and the lease time; -1 means the queue's setting."""

    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    wait_ms: Annotated[int, Meta(ge=-1, le=WAIT_MS_MAX)] = -1
    lease_ms: _OrQueues = -1
    attempt_id: _Name = ""
    filter: Annotated[str, Meta(max_length=FILTER_CHARACTERS_MAX)] = ""


class ReceivingAny(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The same for several queues, each with its weight."""

    queues: Annotated[dict[str, Annotated[int, Meta(ge=1, le=1_000_000)]], Meta(min_length=1, max_length=QUEUES_MAX)]
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0
    lease_ms: _OrQueues = -1
    filter: Annotated[str, Meta(max_length=FILTER_CHARACTERS_MAX)] = ""


class MessageOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One delivered message."""

    message_id: str
    queue: str = ""  # Set in a receive from several queues.
    body: Text = ""
    parts: int = 0  # The number of parts of a body that is too large for one reply; see `uploads`.
    whole_bytes: int = 0
    receipt: str = ""
    attempts: int = 0
    sent_ms: int = 0
    first_received_ms: int = 0
    attempts_before: int = 0
    attributes: dict[str, str | Typed] = {}
    system: dict[str, str] = {}
    key: Text | None = None
    group: str = ""
    deduplication_id: str = ""
    partition: int = -1
    offset: int = -1
    sequence: int = -1
    stamp: int = 0
    crc32c: str = ""  # Of the bytes of the body; not of a body in parts.
    priority: int = 0
    sender: str = ""
    reply_to: str = ""
    correlation_id: str = ""
    report_fate: bool = False
    fate: str = ""
    dead_letter_source: str = ""
    dead_letter_reason: str = ""


class Received(msgspec.Struct, kw_only=True):
    """Delivered messages; empty when the wait timed out."""

    messages: list[MessageOut]


class SendAlong(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Messages to send to a queue, or to a topic: to a partition of it, or (-1) by their keys."""

    queue: str = ""
    topic: str = ""
    partition: Annotated[int, Meta(ge=-1)] = -1
    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=SEND_MAX)]


class Settling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Receipts of messages to settle. With `sends`, both happen in one atomic step, or nothing does."""

    receipts: Annotated[list[str], Meta(min_length=1, max_length=RECEIPTS_MAX)]
    sends: Annotated[list[SendAlong], Meta(max_length=SENDS_MAX)] = []


class Answering(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An answer to a message that names a reply queue; it settles the message."""

    receipt: str
    message: MessageIn


class LeaseChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new remaining time for a lease; 0 returns the message to the queue."""

    receipt: str
    lease_ms: Annotated[int, Meta(ge=0, le=YEARS_MS)]


class Changing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Leases to change."""

    changes: Annotated[list[LeaseChange], Meta(min_length=1, max_length=RECEIPTS_MAX)]


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result for one receipt: success, or a refusal."""

    code: str = ""
    message: str = ""


class Results(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The results, in the order of the receipts; an empty object is a success. `sends` has those of the sends."""

    results: list[Result]
    sends: list[Sent] = []


async def send_messages(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/messages"""
    priorities = await _priorities_of(service, asked.name, asked.caller)
    if asked.content_type == BYTES:
        outgoings = [_raw(asked)]
    else:
        outgoings = [checked_outgoing(message, understood(message.body)) for message in asked.read(Sending).messages]
    for outgoing in outgoings:
        if outgoing.priority >= max(priorities, 1):
            known = "one priority, 0" if priorities == 1 else f"priorities from 0 to {priorities - 1}"
            raise LonghallError(Code.INVALID_REQUEST, f"queue '{asked.name}' has {known}")
    answers = await service.call(SendMessages(asked.name, outgoings), asked.caller)
    if len(answers) == 1 and answers[0].code is not None:
        raise LonghallError(answers[0].code, answers[0].message)
    return Reply(Sent(messages=[sent_one(answer) for answer in answers]))


async def _priorities_of(service: Router, name: str, caller: Caller) -> int:
    """The levels of a queue. A deleted queue has one: its messages may become dead letters, or the broker refuses."""
    try:
        return (await service.find(name, caller)).settings.priorities
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        return 1


def sent_one(answer: Accepted) -> SentOne:
    """The result for one message, for JSON."""
    if answer.code is not None:
        refusal = refusal_of(answer.code, answer.message)
        return SentOne(code=refusal.code, message=refusal.message)
    return SentOne(message_id=answer.message_id, sequence=answer.sequence, repeated=answer.repeated)


def _raw(asked: Asked) -> Outgoing:
    """A message whose body is the body of the request; a field of the query `attribute.NAME` is an attribute."""
    attributes: dict[str, Given] = {}
    for name in list(asked.query):
        if name.startswith("attribute."):
            attributes[name.removeprefix("attribute.")] = asked.query.pop(name)
    fields = asked.question(CheckedFields)
    return checked_outgoing(msgspec.structs.replace(fields, attributes=attributes), asked.body)


def checked_outgoing(fields: CheckedFields, body: bytes) -> Outgoing:
    """A message for the broker, if its body has the checksum that its sender gave. Raises CORRUPT_MESSAGE."""
    verify_crc32c(fields.crc32c, body)
    return outgoing_of(fields, body)


def outgoing_of(fields: MessageFields, body: bytes) -> Outgoing:
    """A message for the broker."""
    return Outgoing(
        body=body,
        attributes=understood_attributes(fields.attributes),
        key=None if fields.key is None else understood(fields.key),
        group=fields.group,
        deduplication_id=fields.deduplication_id,
        delay_ms=fields.delay_ms,
        time_to_live_ms=fields.time_to_live_ms,
        priority=fields.priority,
        reply_to=fields.reply_to,
        correlation_id=fields.correlation_id,
        report_fate=fields.report_fate,
        stamp=fields.stamp,
    )


async def receive_messages(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/receive"""
    wish = asked.read(Receiving)
    count = bounded_count(wish.count, (await service.find(asked.name, asked.caller)).settings.message_bytes_max)
    operation = ReceiveMessages(asked.name, count, wish.wait_ms, wish.lease_ms, wish.attempt_id, wish.filter)
    deliveries = await service.call(operation, asked.caller)
    return Reply(Received(messages=[message_out(delivery) for delivery in deliveries]))


async def receive_any(service: Router, asked: Asked) -> Reply:
    """POST /receive"""
    wish = asked.read(ReceivingAny)
    size = max([(await service.find(name, asked.caller)).settings.message_bytes_max for name in wish.queues])
    count = bounded_count(wish.count, size)
    operation = ReceiveFromAny(wish.queues, count, wish.wait_ms, wish.lease_ms, wish.filter)
    received = await service.call(operation, asked.caller)
    return Reply(Received(messages=[message_out(delivery, name) for name, delivery in received]))


async def settle_messages(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/settle"""
    wish = asked.read(Settling)
    if wish.sends:
        sends = [_write_back(each) for each in wish.sends]
        answers = await service.call(SettleWithSends(asked.name, wish.receipts, sends), asked.caller)
        sent = [Sent(messages=[sent_one(answer) for answer in each]) for each in answers]
        return Reply(Results(results=[Result() for _ in wish.receipts], sends=sent))
    return _each(await service.call(SettleMessages(asked.name, wish.receipts), asked.caller))


def _write_back(send: SendAlong) -> WriteBack:
    messages = [outgoing_of(message, understood(message.body)) for message in send.messages]
    return WriteBack(queue=send.queue, topic=send.topic, partition=send.partition, messages=messages)


async def answer_message(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/answer"""
    wish = asked.read(Answering)
    message = checked_outgoing(wish.message, understood(wish.message.body))
    answer = await service.call(AnswerMessage(asked.name, wish.receipt, message), asked.caller)
    if answer.code is not None:
        raise LonghallError(answer.code, answer.message)
    return Reply(sent_one(answer))


async def change_leases(service: Router, asked: Asked) -> Reply:
    """POST /queues/*/leases"""
    changes = [(change.receipt, change.lease_ms) for change in asked.read(Changing).changes]
    return _each(await service.call(ChangeLeases(asked.name, changes), asked.caller))


def bounded_count(count: int, message_bytes_max: int) -> int:
    """The count, reduced so that the reply stays within ANSWER_BYTES_MAX whatever the size of each message."""
    return min(count, max(1, ANSWER_BYTES_MAX // message_bytes_max))


def message_out(delivery: Delivery, queue: str = "") -> MessageOut:
    """A message for JSON."""
    return MessageOut(
        message_id=delivery.message_id,
        queue=queue,
        body=shown(delivery.body),
        parts=delivery.parts,
        whole_bytes=delivery.whole_bytes,
        receipt=delivery.receipt,
        attempts=delivery.attempts,
        sent_ms=delivery.sent_ms,
        first_received_ms=delivery.first_received_ms,
        attempts_before=delivery.attempts_before,
        attributes=shown_attributes(delivery.attributes),
        system=delivery.system,
        key=None if delivery.key is None else shown(delivery.key),
        group=delivery.group,
        deduplication_id=delivery.deduplication_id,
        partition=delivery.partition,
        offset=delivery.offset,
        sequence=delivery.sequence if delivery.sequence >= 0 else delivery.offset,
        stamp=delivery.stamp,
        crc32c="" if delivery.whole_bytes else crc32c_text(delivery.body),
        priority=delivery.priority,
        sender=delivery.sender,
        reply_to=delivery.reply_to,
        correlation_id=delivery.correlation_id,
        report_fate=delivery.report_fate,
        fate=delivery.fate,
        dead_letter_source=delivery.dead_letter_source,
        dead_letter_reason=delivery.dead_letter_reason,
    )


def _each(codes: Sequence[Code | None]) -> Reply:
    if len(codes) == 1 and codes[0] is not None:
        refusal = refusal_of(codes[0])
        raise LonghallError(codes[0], refusal.message)
    return Reply(Results(results=[_result(code) for code in codes]))


def _result(code: Code | None) -> Result:
    if code is None:
        return Result()
    refusal = refusal_of(code)
    return Result(code=refusal.code, message=refusal.message)
