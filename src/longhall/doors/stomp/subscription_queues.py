"""The queues that destinations stand for: declared and bound as SEND and SUBSCRIBE need them.

    destination                        queue
    /queue/n                           durable; an existing queue is used as it is unless the frame describes one
    /topic/k, /exchange/x/k            named by the server, exclusive and deleted with its subscription
      with durable:true                named by the destination and the id, or by x-queue-name; durable, and shared by
                                       all who subscribe so
      with x-queue-name                of that name, deleted with its last subscription

    header                             queue
    durable, auto-delete, exclusive    flags
    x-message-ttl, x-expires, ...      arguments, as in AMQP's queue.declare

What describes an existing queue differently is refused as in AMQP: `precondition_failed`.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from longhall.broker.queues.consumers.stream_reader import FIRST, LAST, NEXT
from longhall.doors.amqp.declarations import ACCEPTED, GROUP_SIZES
from longhall.doors.amqp.errors import NOT_FOUND, AmqpError, exchange_text, queue_text
from longhall.doors.amqp.queue_creation import bind_queue, declare_queue, found_queue
from longhall.doors.amqp.streams import FILTER, FILTER_BYTES, OFFSET, SEGMENT_BYTES, UNFILTERED
from longhall.doors.stomp.destinations import EXCHANGE, QUEUE, TOPIC, StompDestination
from longhall.doors.stomp.errors import StompError, invalid_header
from longhall.doors.stomp.message_headers import flag, number
from longhall.doors.stomp.wire.frames import NUMBER_DIGITS_MAX as DIGITS_MAX
from longhall.doors.stomp.wire.frames import StompFrame
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import SHORT_BYTES_MAX, Timestamp, encode_table
from longhall.exchanges.names import hall_name
from longhall.service.exchange_operations import DescribeExchange

if TYPE_CHECKING:
    from longhall.doors.stomp.connection import StompConnection

SUBSCRIPTION_QUEUE: Final = "stomp-subscription-"
GENERATED: Final = "amq.gen-"
_DESCRIBING: Final = ("durable", "auto-delete", "exclusive")
_NUMBERS: Final = frozenset(
    (
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-delivery-limit",
        SEGMENT_BYTES,
        FILTER_BYTES,
        *GROUP_SIZES,
    )
)
_NUMBER_MAX: Final = (1 << 62) - 1


def arguments_of(frame: StompFrame) -> bytes:
    """The queue arguments among the headers of a frame, as a field table."""
    table: dict[str, Any] = {}
    for name, text in frame.headers.items():
        if name not in ACCEPTED:
            continue
        if name in _NUMBERS:
            table[name] = int(text) if text == "-1" else number(frame, name, _NUMBER_MAX)
        elif name == "x-single-active-consumer":
            table[name] = flag(frame, name)
        else:
            table[name] = text
    return encode_table(table)


def describes_queue(frame: StompFrame) -> bool:
    """True if the headers of a frame say what the queue shall be like."""
    return any(name in frame.headers for name in _DESCRIBING) or any(name in ACCEPTED for name in frame.headers)


def needs_queue(connection: StompConnection, destination: StompDestination, frame: StompFrame) -> bool:
    """True if `ensure_queue` has to be called before a SEND."""
    if destination.kind != QUEUE:
        return False
    return connection.service.view(hall_name(connection.host, destination.key)) is None or describes_queue(frame)


async def ensure_source(connection: StompConnection, destination: StompDestination, frame: StompFrame) -> str:
    """The name of the queue that a SUBSCRIBE reads; created and bound if it is one of the subscription."""
    if destination.kind == QUEUE:
        await ensure_queue(connection, destination.key, frame)
        return destination.key
    if destination.kind not in (TOPIC, EXCHANGE):
        return destination.key
    if destination.kind == EXCHANGE:
        await _check_exchange(connection, destination.exchange)
    is_durable = is_durable_subscription(frame)
    name = queue_name(destination, frame) or SUBSCRIPTION_QUEUE + connection.server.new_name()
    is_private = not is_durable and "x-queue-name" not in frame.headers
    owner = await connection.consumption.session() if flag(frame, "exclusive", is_private) else ""
    auto_delete = flag(frame, "auto-delete", not is_durable)
    await declare_queue(connection, name, is_durable, auto_delete, owner, arguments_of(frame))
    await bind_queue(connection, name, destination.exchange, destination.key, b"")
    return name


def stream_arguments_of(frame: StompFrame) -> dict[str, Any]:
    """The headers of a SUBSCRIBE that say where it begins in a stream and what it wants of it, as AMQP has them.

    `x-stream-offset` is first, last, next, offset=N or timestamp=SECONDS; `x-stream-filter` has commas.
    """
    found: dict[str, Any] = {}
    offset = frame.headers.get(OFFSET)
    if offset is not None:
        kind, _, digits = offset.partition("=")
        if offset in (FIRST, LAST, NEXT):
            found[OFFSET] = offset
        elif kind in ("offset", "timestamp") and digits.isascii() and digits.isdigit() and len(digits) < DIGITS_MAX:
            found[OFFSET] = int(digits) if kind == "offset" else Timestamp(int(digits))
        else:
            raise invalid_header(OFFSET, offset, "it must be first, last, next, offset=N or timestamp=SECONDS")
    if FILTER in frame.headers:
        found[FILTER] = frame.headers[FILTER].split(",")
    if UNFILTERED in frame.headers:
        found[UNFILTERED] = flag(frame, UNFILTERED)
    return found


def is_durable_subscription(frame: StompFrame) -> bool:
    """True if a frame is about a subscription that outlives its connection."""
    return flag(frame, "durable") or flag(frame, "persistent")


def queue_name(destination: StompDestination, frame: StompFrame) -> str:
    """The name of the queue of a subscription to a topic or exchange; empty if the server names it."""
    name = frame.headers.get("x-queue-name")
    if name:
        if len(name.encode("utf-8", "replace")) > SHORT_BYTES_MAX:
            raise StompError("Invalid header", f"'x-queue-name' has more than {SHORT_BYTES_MAX} bytes\n")
        return name
    if not is_durable_subscription(frame):
        return ""
    shown = frame.headers.get("id")
    if shown is None:
        raise StompError("Missing Header", "Header 'id' is required for durable subscriptions")
    known = "\0".join((destination.exchange, destination.key, shown)).encode("utf-8", "replace")
    return SUBSCRIPTION_QUEUE + urlsafe_b64encode(hashlib.sha256(known).digest()[:16]).decode().rstrip("=")


async def reply_queue(connection: StompConnection) -> str:
    """A new private queue for replies."""
    name = GENERATED + connection.server.new_name()
    owner = await connection.consumption.session()
    await declare_queue(connection, name, False, True, owner, encode_table({}))
    return name


async def ensure_queue(connection: StompConnection, name: str, frame: StompFrame) -> None:
    """Create the queue of a SEND or SUBSCRIBE, or compare it with what the frame describes. Raises AmqpError."""
    if not describes_queue(frame):
        if connection.service.view(hall_name(connection.host, name)) is not None:
            if frame.command == "SUBSCRIBE":
                await found_queue(connection, name)
            return
        if await _exists(connection, name):
            return
    if name.startswith("amq."):
        raise AmqpError(NOT_FOUND, f"no {queue_text(name, connection.host)}")
    owner = await connection.consumption.session() if flag(frame, "exclusive") else ""
    durable = flag(frame, "durable", True)
    await declare_queue(connection, name, durable, flag(frame, "auto-delete"), owner, arguments_of(frame))


async def _exists(connection: StompConnection, name: str) -> bool:
    try:
        await connection.service.find(hall_name(connection.host, name), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        return False
    return True


async def _check_exchange(connection: StompConnection, name: str) -> None:
    try:
        await connection.service.call(DescribeExchange(connection.host, name), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_EXCHANGE:
            raise
        raise AmqpError(NOT_FOUND, f"no {exchange_text(name, connection.host)}") from None
