"""The frames of clients, one function each: done when it returns, or by the coroutine that it returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from longhall.doors.amqp.acknowledgements import ended_messages
from longhall.doors.amqp.deliveries import POSITIONS
from longhall.doors.amqp.virtual_host import has_virtual_host
from longhall.doors.stomp.destinations import (
    REPLY_PREFIX,
    TEMPORARY,
    TEMPORARY_PREFIX,
    StompDestination,
    parse_destination,
)
from longhall.doors.stomp.errors import VERSIONS, StompError, missing_header
from longhall.doors.stomp.heart_beat import agreed
from longhall.doors.stomp.message_headers import flag, publication
from longhall.doors.stomp.publisher import SentMessage
from longhall.doors.stomp.selectors import selector_of
from longhall.doors.stomp.subscription import (
    AUTO,
    CLIENT,
    SUBSCRIPTIONS_MAX,
    StompSubscription,
    acknowledgement_of,
    delivery_number,
    prefetch_of,
    priority_of,
    tag_of,
)
from longhall.doors.stomp.subscription_queues import (
    ensure_queue,
    ensure_source,
    is_durable_subscription,
    needs_queue,
    reply_queue,
    stream_arguments_of,
)
from longhall.doors.stomp.wire.frames import V1_0, V1_1, V1_2, StompFrame
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST
from longhall.front.identity import Principal, caller_of, is_encrypted
from longhall.queues.selector import compile_selector
from longhall.service.exchange_operations import DONE, REJECT, REQUEUE, SETTLE
from longhall.service.queue_operations import DeleteQueue

if TYPE_CHECKING:
    from longhall.doors.stomp.connection import StompConnection

Work = Coroutine[Any, Any, None]
SERVER: Final = "Longhall/1.0"
USER: Final = "guest"  # Of a client that names none, and its password.
_MATERIAL: Final = ("message-id",)


# The connection


def connect(connection: StompConnection, frame: StompFrame) -> Work | None:
    """CONNECT, STOMP"""
    if connection.state != "new":
        raise StompError("Bad CONNECT", "the connection is open already\n", closes=True)
    version = _version(frame)
    send_ms, receive_ms = agreed(frame.headers.get("heart-beat", "0,0"))
    origin = connection.origin
    if origin is not None and origin.user and "login" not in frame.headers:
        user, principal = origin.user, connection.server.login_by_certificate(origin)
        _log_in(connection, user, principal)
        return _open(connection, frame, version, send_ms, receive_ms)
    connection.state = "connecting"
    return _open_with_password(connection, frame, version, send_ms, receive_ms)


def _log_in(connection: StompConnection, user: str, principal: Principal | None) -> None:
    if principal is None:
        raise StompError("Bad CONNECT", f"Access refused for user '{user}'", closes=True)
    connection.state = "connecting"
    connection.user = user
    connection.principal = principal


async def _open_with_password(
    connection: StompConnection, frame: StompFrame, version: str, send_ms: int, receive_ms: int
) -> None:
    user, password = frame.headers.get("login", USER), frame.headers.get("passcode", USER)
    authentication = connection.server.authentication
    if authentication is not None and authentication.required:
        await authentication.prepare_login(user, password, connection.peer)
    _log_in(connection, user, connection.server.login(user, password, connection.peer))
    await _open(connection, frame, version, send_ms, receive_ms)


def _version(frame: StompFrame) -> str:
    accepted = frame.headers.get("accept-version")
    if accepted is None:
        return V1_0
    offered = {version.strip() for version in accepted.split(",")}
    for version in (V1_2, V1_1, V1_0):
        if version in offered:
            return version
    raise StompError("Version mismatch", f"Supported versions are {VERSIONS}\n", closes=True)


async def _open(connection: StompConnection, frame: StompFrame, version: str, send_ms: int, receive_ms: int) -> None:
    host = frame.headers.get("host") or DEFAULT_HOST
    if not await has_virtual_host(connection.service, host):
        # stomp.py and others send the address of the server, which names no virtual host.
        if host.startswith("/"):
            raise StompError("Bad CONNECT", f"Virtual host '{host}' access denied", closes=True)
        host = DEFAULT_HOST
    connection.host = host
    assert connection.principal is not None
    connection.caller = caller_of(
        connection.principal.shown_as(connection.user),
        connection.peer,
        is_encrypted(connection.origin),
        door="stomp",
    )
    if not connection.service.may_enter(host, connection.caller):
        raise StompError("Bad CONNECT", f"Virtual host '{host}' access denied", closes=True)
    connection.version = version
    headers = [
        ("version", version),
        ("heart-beat", f"{send_ms},{receive_ms}"),
        ("session", f"session-{connection.session_id}"),
        ("server", SERVER),
    ]
    connection.send("CONNECTED", headers)
    connection.connected(send_ms, receive_ms)


async def disconnect(connection: StompConnection, frame: StompFrame) -> None:
    """DISCONNECT: answered when everything that came before it is durable and given back."""
    await connection.publisher.batches.done()
    await connection.consumption.leave()
    connection.send_receipt(frame.headers.get("receipt", ""))
    connection.finish()


# Sending


def send(connection: StompConnection, frame: StompFrame) -> Work | None:
    """SEND"""
    for name in _MATERIAL:
        if name in frame.headers:
            raise StompError("Invalid header", f"'{name}' is not allowed on 'SEND'.\n")
    destination = _destination(frame)
    if frame.headers.get("reply-to", "").startswith(TEMPORARY_PREFIX) or needs_queue(connection, destination, frame):
        return _prepare(connection, frame, destination)
    _publish(connection, frame, destination)
    return None


async def _prepare(connection: StompConnection, frame: StompFrame, destination: StompDestination) -> None:
    """Create what the message needs, then publish it."""
    if needs_queue(connection, destination, frame):
        await ensure_queue(connection, destination.key, frame)
    reply_to = frame.headers.get("reply-to", "")
    if reply_to.startswith(TEMPORARY_PREFIX):
        frame.headers["reply-to"] = REPLY_PREFIX + await _reply_to(connection, reply_to)
    _publish(connection, frame, destination)


async def _reply_to(connection: StompConnection, text: str) -> str:
    """The queue of a temporary destination: it is made, and the client reads it."""
    destination = parse_destination(text)
    tag = f"T_{text}"
    known = connection.consumption.subscriptions.get(tag)
    if known is not None:
        return known.consumer.shown_queue
    _check_room(connection)
    name = await reply_queue(connection)
    consumer = connection.consumption.new_consumer(tag, name, True, 0)
    await connection.consumption.subscribe(StompSubscription(tag, destination, consumer))
    return name


def _publish(connection: StompConnection, frame: StompFrame, destination: StompDestination) -> None:
    transaction = connection.transactions.of(frame)
    message = SentMessage(
        publication(frame, destination, connection.host, connection.user), frame.headers.get("receipt", "")
    )
    connection.server.published += 1
    if transaction is not None:
        transaction.messages.append(message)
    else:
        connection.publisher.batches.publish(message)


def _destination(frame: StompFrame) -> StompDestination:
    text = frame.headers.get("destination")
    if text is None:
        raise StompError("Missing destination", f"\"{frame.command}\" must include a 'destination' header\n")
    destination = parse_destination(text)
    if destination.kind == TEMPORARY:
        raise StompError("Invalid destination", f"'{text}' is not a valid destination for '{frame.command}'\n")
    return destination


# Subscriptions


async def subscribe(connection: StompConnection, frame: StompFrame) -> None:
    """SUBSCRIBE"""
    destination = _destination(frame)
    tag = tag_of(frame)
    if tag in connection.consumption.subscriptions:
        raise StompError(
            "Duplicated subscription identifier",
            f"A subscription identified by '{tag}' already exists.",
            closes=True,
        )
    _check_room(connection)
    mode = acknowledgement_of(frame)
    prefetch, priority = prefetch_of(frame, mode), priority_of(frame)
    selector = selector_of(frame.headers["selector"]) if frame.headers.get("selector") else ""
    name = await ensure_source(connection, destination, frame)
    consumer = connection.consumption.new_consumer(tag, name, mode == AUTO, prefetch)
    consumer.asked = (False, priority)
    consumer.positions = flag(frame, POSITIONS)
    subscription = StompSubscription(tag, destination, consumer)
    consumer.is_cumulative = mode == CLIENT
    subscription.stream_arguments = stream_arguments_of(frame)
    if selector and destination.names_queue:
        subscription.filter = selector
    elif selector:
        subscription.selector = compile_selector(selector)
    await connection.consumption.subscribe(subscription)
    connection.send_receipt(frame.headers.get("receipt", ""))


def _check_room(connection: StompConnection) -> None:
    if len(connection.consumption.subscriptions) >= SUBSCRIPTIONS_MAX:
        raise StompError("Too many subscriptions", f"A connection has at most {SUBSCRIPTIONS_MAX}\n")


async def unsubscribe(connection: StompConnection, frame: StompFrame) -> None:
    """UNSUBSCRIBE. With the headers of a durable subscription its queue is deleted, whichever the frame names."""
    tag = tag_of(frame)
    subscription = connection.consumption.subscriptions.get(tag)
    if subscription is None:
        shown = f"id='{tag[2:]}'" if tag.startswith("T_") else f"destination='{tag[2:]}'"
        text = f'UNSUBSCRIBE must refer to an existing subscription.\nSubscription to "{shown}" not found.\n'
        raise StompError("No subscription found", text)
    await connection.consumption.unsubscribe(subscription)
    if is_durable_subscription(frame) and not subscription.destination.names_queue:
        try:
            await connection.service.call(DeleteQueue(subscription.consumer.queue), connection.caller)
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise
    connection.send_receipt(frame.headers.get("receipt", ""))


# The end of deliveries


def ack(connection: StompConnection, frame: StompFrame) -> Work | None:
    """ACK"""
    return _end(connection, frame, SETTLE)


def nack(connection: StompConnection, frame: StompFrame) -> Work | None:
    """NACK, of every version. The message goes back to its queue unless the frame says requeue:false."""
    return _end(connection, frame, REQUEUE if flag(frame, "requeue", True) else REJECT)


def _end(connection: StompConnection, frame: StompFrame, how: int) -> Work | None:
    header = "id" if connection.version == V1_2 else "message-id"
    name = frame.headers.get(header)
    if name is None:
        raise missing_header(frame.command, header)
    consumption = connection.consumption
    transaction = connection.transactions.of(frame)
    receipt = frame.headers.get("receipt", "")
    if transaction is not None:
        if how != SETTLE or not transaction.settles(delivery_number(name, consumption.session_id)):
            transaction.ends.append((how, consumption.ended(name)))
        connection.send_receipt(receipt)  # The transaction has the frame; COMMIT has a receipt of its own.
        return None
    consumption.acknowledgements.end(consumption.ended(name), how)
    return _ended(connection, receipt) if receipt else None


async def _ended(connection: StompConnection, receipt: str) -> None:
    """Send the receipt when the end of the deliveries is durable."""
    await connection.consumption.acknowledgements.ended()
    connection.send_receipt(receipt)


# Transactions


def begin(connection: StompConnection, frame: StompFrame) -> None:
    """BEGIN"""
    connection.transactions.begin(frame)
    connection.send_receipt(frame.headers.get("receipt", ""))


async def commit(connection: StompConnection, frame: StompFrame) -> None:
    """COMMIT: what was sent is appended and what was acknowledged is ended, in one atomic write."""
    transaction = connection.transactions.end(frame)
    consumption = connection.consumption
    try:
        await connection.publisher.commit(transaction.messages, ended_messages(transaction.ends))
    except BaseException:
        for _, ended in transaction.ends:
            consumption.restore(ended)
        raise
    for _, ended in transaction.ends:
        consumption.acknowledgements.end(ended, DONE)
    await consumption.acknowledgements.ended()
    connection.send_receipt(frame.headers.get("receipt", ""))


def abort(connection: StompConnection, frame: StompFrame) -> None:
    """ABORT"""
    transaction = connection.transactions.end(frame)
    for _, ended in transaction.ends:
        connection.consumption.restore(ended)
    connection.send_receipt(frame.headers.get("receipt", ""))


HANDLERS: Final[dict[str, Callable[[StompConnection, StompFrame], Work | None]]] = {
    "SEND": send,
    "SUBSCRIBE": subscribe,
    "UNSUBSCRIBE": unsubscribe,
    "ACK": ack,
    "NACK": nack,
    "BEGIN": begin,
    "COMMIT": commit,
    "ABORT": abort,
    "DISCONNECT": disconnect,
}
