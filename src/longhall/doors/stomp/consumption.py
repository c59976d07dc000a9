"""Consuming of one connection: its session with the leader, its subscriptions, and the deliveries it has not ended.

Deliveries are numbered over all subscriptions. ACK in mode `client` ends every delivery up to its number, whichever
subscription it belongs to, as RabbitMQ does. A delivery keeps the mode of its subscription after UNSUBSCRIBE, and when
another subscription has got the id.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, final

from longhall.broker.pending import Pending
from longhall.broker.queues.consumers.session import SESSION_ID_BYTES, PushedMessages
from longhall.broker.queues.consumers.stream_reader import StreamStart
from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import RECEIVE
from longhall.doors.amqp.acknowledgements import Acknowledgements
from longhall.doors.amqp.declarations import is_quorum
from longhall.doors.amqp.deliveries import with_position, with_stream_offset
from longhall.doors.amqp.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    AmqpError,
    queue_text,
)
from longhall.doors.amqp.queue_creation import found_queue, use_queue
from longhall.doors.amqp.streams import is_stream, start_of
from longhall.doors.amqp.unacknowledged import ChannelConsumer, Unacknowledged, end_deliveries
from longhall.doors.stomp.errors import StompError, stomp_error
from longhall.doors.stomp.message_headers import message_headers
from longhall.doors.stomp.selectors import selects
from longhall.doors.stomp.subscription import StompSubscription, delivery_name, delivery_number
from longhall.doors.stomp.wire.frames import V1_2
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.queues.messages import Delivery
from longhall.service.exchange_operations import SETTLE, UNSEEN, AddConsumer, CancelConsumer, EndHeld
from longhall.service.sessions import SessionLink

if TYPE_CHECKING:
    from longhall.doors.stomp.connection import StompConnection

CHANNEL: Final = 1  # STOMP has no channels; a session wants one.
AWAITED_QUEUES_MAX: Final = 64  # Whose leases DISCONNECT waits for.


@final
class Consumption:
    """The consuming side of one connection. It is the receiver of the pushes of its session."""

    def __init__(self, connection: StompConnection) -> None:
        self.session_id = connection.server.new_id(SESSION_ID_BYTES)
        self.service = connection.service
        self.consumers: dict[int, StompSubscription] = {}  # By their keys in the session.
        self.subscriptions: dict[str, StompSubscription] = {}  # By tag.
        self.pace = connection.pace
        self.acknowledgements = Acknowledgements(self)
        self._connection = connection
        self._unacknowledged: dict[int, Unacknowledged] = {}
        self._number = 0
        self._keys = count(1)  # Of consumers.
        self._link: SessionLink | None = None
        self._ready: asyncio.Future[None] | None = None

    @property
    def caller(self) -> Caller:
        """The client."""
        return self._connection.caller

    # The session

    async def session(self) -> str:
        """The id of the session, when it is open."""
        if self._link is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._link = self._connection.server.sessions.open(self.session_id, self)
        if not self._link.is_ready:
            assert self._ready is not None
            await asyncio.shield(self._ready)
        return self.session_id

    @property
    def is_writable(self) -> bool:
        """False while the client does not read what was sent."""
        return self._connection.is_writable

    def readable(self) -> None:
        """The client reads again."""
        if self._link is not None:
            self._link.readable()

    def close(self) -> None:
        """The connection is gone: the leader gives back what it holds."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def session_opened(self) -> None:
        """Open the consumers at a leader that does not know them."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        for key, subscription in list(self.consumers.items()):
            asked = self.service.call(self._operation(subscription), self.caller)
            asked.when_done(partial(self._reopened, key, subscription.consumer.queue))

    def _reopened(self, key: int, queue: str, done: Pending[None]) -> None:
        if done.error is not None:
            self.push(PushedMessages(key, queue, []))  # The client is told that its subscription has ended.

    def session_lost(self) -> None:
        """The leader is gone: consumers are opened again at the next one."""
        self._ready = asyncio.get_running_loop().create_future()

    def push_failed(self, consumer: int, error: LonghallError) -> None:
        """Messages of a subscription cannot be opened, and go back: the client gets the error."""
        if consumer in self.consumers:
            self._connection.fail(stomp_error(error))

    # Subscriptions

    def new_consumer(self, tag: str, queue: str, no_ack: bool, prefetch: int) -> ChannelConsumer:
        """A consumer of a queue; it is open after `subscribe`."""
        host = self._connection.host
        return ChannelConsumer(tag, next(self._keys), hall_name(host, queue), queue, no_ack, prefetch)

    def _operation(self, subscription: StompSubscription) -> AddConsumer:
        one = subscription.consumer
        exclusive, priority = one.asked
        return AddConsumer(
            one.queue,
            self.session_id,
            one.key,
            CHANNEL,
            one.credit,
            one.no_ack,
            exclusive,
            priority,
            subscription.filter,
            stream=one.stream,
        )

    async def subscribe(self, subscription: StompSubscription) -> None:
        """Open the consumer of a subscription. AmqpError if its queue does not exist or belongs to another one."""
        consumer = subscription.consumer
        view = await found_queue(self._connection, consumer.shown_queue)
        consumer.counts = is_quorum(view.settings)
        if is_stream(view.settings):
            consumer.stream = self._stream_start(subscription)
        elif subscription.stream_arguments:
            name = next(iter(subscription.stream_arguments))
            raise StompError("Invalid header", f"'{name}' would have no effect: the queue is no stream\n")
        await self.session()
        self.subscriptions[subscription.tag] = subscription
        self.consumers[consumer.key] = subscription
        try:
            await self.service.call(self._operation(subscription), self.caller)
        except LonghallError as error:
            self._forget(subscription)
            resource = queue_text(consumer.shown_queue, self._connection.host)
            if error.code is Code.QUEUE_IN_USE:
                raise AmqpError(ACCESS_REFUSED, f"{resource} in exclusive use") from None
            if error.code is Code.UNKNOWN_QUEUE:
                raise AmqpError(NOT_FOUND, f"no {resource}") from None
            raise
        early, consumer.early = consumer.early or [], None
        for push in early:
            self.push(push)

    def _stream_start(self, subscription: StompSubscription) -> StreamStart:
        """Where a subscription to a stream begins. AmqpError if it does not acknowledge."""
        consumer = subscription.consumer
        resource = queue_text(consumer.shown_queue, self._connection.host)
        if consumer.no_ack:
            raise AmqpError(NOT_IMPLEMENTED, f"automatic acknowledgement not supported by stream {resource}")
        return start_of(subscription.stream_arguments, resource, 0)

    def close_revoked(self) -> None:
        """Refuse a client with a subscription that it may not have any more: its permissions have changed."""
        if not self.service.is_guarded:
            return
        for subscription in list(self.consumers.values()):
            try:
                self.service.check(self._operation(subscription), self.caller)
            except LonghallError as error:
                self._connection.fail(stomp_error(error))
                return

    async def unsubscribe(self, subscription: StompSubscription) -> None:
        """End a subscription. The client keeps the messages that it has, and may still acknowledge them."""
        await self.service.call(CancelConsumer(self.session_id, subscription.consumer.key), self.caller)
        self._forget(subscription)

    def _forget(self, subscription: StompSubscription) -> None:
        self.consumers.pop(subscription.consumer.key, None)
        if self.subscriptions.get(subscription.tag) is subscription:
            del self.subscriptions[subscription.tag]

    # Deliveries

    def push(self, push: PushedMessages) -> None:
        """Messages for a subscription, or its end."""
        subscription = self.consumers.get(push.consumer)
        if subscription is None:
            receipts = [delivery.receipt for delivery in push.deliveries if delivery.receipt]
            if receipts:
                self.service.call(EndHeld(push.queue, self.session_id, receipts, UNSEEN, []), self.caller)
            return
        if subscription.consumer.early is not None:
            subscription.consumer.early.append(push)
            return
        if not push.deliveries:
            self._forget(subscription)
            self._connection.fail(_cancelled(subscription))
            return
        if subscription.consumer.stream is not None:
            subscription.consumer.stream.offset = push.deliveries[-1].offset + 1
            for delivery in push.deliveries:
                delivery.amqp = with_stream_offset(delivery, subscription.consumer.shown_queue)
        if subscription.consumer.positions:
            for delivery in push.deliveries:
                delivery.amqp = with_position(delivery, subscription.consumer.shown_queue)
        for delivery in push.deliveries:
            self._deliver(subscription, delivery)
        if self.pace.limits.active:
            size_bytes = sum([len(delivery.body) for delivery in push.deliveries])
            count = len(push.deliveries)
            queue = subscription.consumer.queue
            self.pace.charge(self.caller, RECEIVE, queue, size_bytes=size_bytes, messages=count, requests=count)

    def _deliver(self, subscription: StompSubscription, delivery: Delivery) -> None:
        consumer = subscription.consumer
        connection = self._connection
        if subscription.selector is not None and not selects(subscription.selector, delivery):
            if not consumer.no_ack:
                consumer.outstanding += 1
                self.acknowledgements.end([Unacknowledged(0, consumer.queue, delivery.receipt, consumer)], SETTLE)
                self.acknowledgements.flush()
            return
        self._number += 1
        name = delivery_name(subscription.tag, self.session_id, self._number)
        headers = [("subscription", subscription.shown_id), ("message-id", name)]
        headers += message_headers(delivery, consumer.shown_queue, consumer.counts)
        if not consumer.no_ack:
            consumer.outstanding += 1
            self._unacknowledged[self._number] = Unacknowledged(
                self._number, consumer.queue, delivery.receipt, consumer
            )
            if connection.version == V1_2:
                headers.append(("ack", name))
        headers.append(("redelivered", "true" if delivery.attempts > 1 else "false"))
        connection.send("MESSAGE", headers, delivery.body)
        connection.server.delivered += 1

    def ended(self, name: str) -> list[Unacknowledged]:
        """Remove the deliveries that an ACK or NACK names. StompError if it names none."""
        number = delivery_number(name, self.session_id)
        one = self._unacknowledged.get(number)
        is_cumulative = one is not None and one.consumer is not None and one.consumer.is_cumulative
        found = end_deliveries(self._unacknowledged, self._number, number, is_cumulative) if number else None
        if found is None:
            raise StompError("Message not found", f'No message with the id "{name[:300]}" waits for ACK or NACK\n')
        return found

    def restore(self, ended: list[Unacknowledged]) -> None:
        """Deliveries that an aborted transaction has not ended."""
        for one in ended:
            self._unacknowledged[one.number] = one
        self._unacknowledged = dict(sorted(self._unacknowledged.items()))

    async def leave(self) -> None:
        """End all subscriptions and give back what the client holds, before DISCONNECT is answered.

        What is on its way to subscriptions that acknowledge automatically is delivered first: a client that saw the
        receipt of its own message, and then disconnects, expects to have received it.
        """
        await self.acknowledgements.ended()
        automatic = {one.consumer.shown_queue for one in self.consumers.values() if one.consumer.no_ack}
        for name in list(automatic)[:AWAITED_QUEUES_MAX]:
            await use_queue(self._connection, name)
        held = list(self._unacknowledged.values())
        self._unacknowledged.clear()
        await self.acknowledgements.give_back(list(self.consumers), held)
        self.consumers.clear()
        self.subscriptions.clear()
        await self.acknowledgements.delete_queues(list(self._connection.owned))


def _cancelled(subscription: StompSubscription) -> StompError:
    return StompError(
        "Server cancelled subscription",
        "The server has canceled a subscription.\n"
        f'No more messages will be delivered for "{subscription.description}".\n',
        headers=[("subscription", subscription.shown_id)],
    )
