"""Publishing and getting messages over the management API.

    ackmode                                      what becomes of the messages
    ack_requeue_false                            they are taken from the queue
    reject_requeue_false                         they are rejected: dropped, or dead-lettered
    ack_requeue_true, reject_requeue_true        they stay where they are: they are shown, and nothing is counted

RabbitMQ takes messages and returns them for the last two, which marks them as redelivered. A message that is larger
than a reply is shown without its payload, and is not taken.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from typing import Any, Final

from longhall.broker.queue_policies import QUORUM, queue_type
from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import TEXTS, amqp_refusals, body_of, number, properties, shown_value, text
from longhall.console.management.declarations import exchange_named
from longhall.console.management.queues import check_host, states_of
from longhall.doors.amqp.declarations import check_owner
from longhall.doors.amqp.deliveries import address_and_properties
from longhall.doors.amqp.publications import publication_of
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import decode_short
from longhall.exchanges.names import hall_name
from longhall.exchanges.properties import decode_properties, encode_properties, headers_of
from longhall.queues.messages import Delivery, QueueView
from longhall.service.exchange_operations import REJECT, EndHeld, PublishMessages
from longhall.service.queue_operations import PeekMessages, ReceiveMessages, SettleMessages
from longhall.service.router import Router

COUNT_MAX: Final = 1_000
LEASE_MS: Final = 60_000
PEEKED_MAX: Final = 100  # Of one page of the queue.
TAKE: Final = "ack_requeue_false"
THROW: Final = "reject_requeue_false"
LOOK: Final = ("ack_requeue_true", "reject_requeue_true")


async def publish_message(service: Router, asked: Asked) -> Reply:
    """POST exchanges/VHOST/NAME/publish"""
    host, name = asked.names[0], exchange_named(asked.names[1])
    await check_host(service, asked.caller, host)
    body = body_of(asked)
    payload = _payload(text(body, "payload"), text(body, "payload_encoding", "string"))
    raw = encode_properties(properties(body))
    key = text(body, "routing_key")
    with amqp_refusals():
        publication = publication_of(host, name, key, raw, payload, asked.caller.identity)
    published = (await service.call(PublishMessages(host, [publication]), asked.caller))[0]
    if published.code is not None:
        raise LonghallError(published.code, published.reason or f"'{name}' does not take the message")
    return Reply({"routed": published.routed > 0})


def _payload(given: str, encoding: str) -> bytes:
    if encoding == "string":
        return given.encode()
    if encoding != "base64":
        raise LonghallError(Code.INVALID_REQUEST, "payload_encoding is string or base64")
    try:
        return b64decode(given, validate=True)
    except (Error, ValueError):
        raise LonghallError(Code.INVALID_REQUEST, "the payload is not base64") from None


async def get_messages(service: Router, asked: Asked) -> Reply:
    """POST queues/VHOST/NAME/get"""
    host, name = asked.names
    body = body_of(asked)
    count = number(body, "count", 1)
    if not 1 <= count <= COUNT_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"count is from 1 to {COUNT_MAX}")
    mode = text(body, "ackmode", LOOK[0] if body.get("requeue", True) in (True, "true") else TAKE)
    encoding = text(body, "encoding", "auto")
    if mode not in (TAKE, THROW, *LOOK) or encoding not in ("auto", "base64"):
        raise LonghallError(Code.INVALID_REQUEST, "ackmode and encoding have other values")
    view = await service.find(hall_name(host, name), asked.caller)
    with amqp_refusals():
        check_owner(view.settings, "", name, host)
    find = _looked_at if mode in LOOK else _taken
    deliveries = await find(service, asked, view, count)
    if mode not in LOOK and deliveries:
        await _end(service, asked, view, [one.receipt for one in deliveries if one.receipt], mode)
    left = sum(one.available for one in await states_of(service, asked.caller, [view.name]))
    truncate = number(body, "truncate", 0)
    counts = view.settings.amqp is not None and queue_type(view.settings.amqp) == QUORUM
    rows = [_shown(one, name, counts, encoding, truncate) for one in deliveries]
    for at, row in enumerate(rows):  # How many were behind it, as each answer of basic.get has it.
        row["message_count"] = left - at - 1 if mode in LOOK else left + len(rows) - at - 1
    return Reply(rows)


async def _looked_at(service: Router, asked: Asked, view: QueueView, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    position: int | str = ""
    while len(found) < count:
        page = await service.call(PeekMessages(view.name, PEEKED_MAX, position), asked.caller)
        found += [one.delivery for one in page.messages if one.state == "waiting"]
        if not page.next:
            break
        position = page.next
    return found[:count]


async def _taken(service: Router, asked: Asked, view: QueueView, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        wanted = min(count - len(found), PEEKED_MAX)
        operation = ReceiveMessages(view.name, wanted, wait_ms=0, lease_ms=LEASE_MS, in_parts=False)
        some = await service.call(operation, asked.caller)
        if not some:
            break
        found += some
    return found


async def _end(service: Router, asked: Asked, view: QueueView, receipts: list[str], mode: str) -> None:
    if mode == THROW:
        await service.call(EndHeld(view.name, "", receipts, REJECT, []), asked.caller)
    else:
        await service.call(SettleMessages(view.name, receipts), asked.caller)


def _shown(delivery: Delivery, queue: str, counts: bool, encoding: str, truncate: int) -> dict[str, Any]:
    address, raw = address_and_properties(delivery, queue, counts)
    exchange, at = decode_short(address, 0, len(address))
    key = decode_short(address, at, len(address))[0]
    payload = delivery.body
    cut = payload[:truncate] if truncate else payload
    try:
        if encoding == "base64":
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "base64 is wanted")
        said, how = cut.decode(), "string"
    except UnicodeDecodeError:
        said, how = b64encode(cut).decode(), "base64"
    return {
        "payload_bytes": delivery.whole_bytes or len(payload),
        "redelivered": delivery.attempts > (delivery.receipt != ""),  # One that is looked at is not delivered by that.
        "exchange": exchange,
        "routing_key": key,
        "message_count": 0,
        "properties": _properties(raw),
        "payload": said,
        "payload_encoding": how,
    }


def _properties(raw: bytes) -> dict[str, Any]:
    decoded = decode_properties(raw)
    fields: dict[str, Any] = {}
    for name in (*TEXTS, "delivery_mode", "priority", "timestamp"):
        value = getattr(decoded, name)
        if value is not None:
            fields[name] = value
    if decoded.headers is not None:
        fields["headers"] = shown_value(headers_of(decoded))
    return fields
