"""Publishing of one connection: what arrives in one pass is one call, and confirms leave in the order of publishing.

    outcome of a message           the client gets
    routed, durable in its queues  ack
    no queue                       return if mandatory, then ack
    refused by a queue, or lost    nack; without confirms nothing
    no such exchange               the channel is closed with 404

Consecutive acks of a channel are one, with `multiple`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from longhall.broker.pending import Pending
from longhall.broker.queues.sending.publish import Publication, Published
from longhall.broker.queues.sending.transaction import EndedMessages
from longhall.doors.amqp import errors
from longhall.doors.amqp.errors import AmqpError, exchange_text
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import content_frames, method_frame
from longhall.doors.amqp.wire.methods import encode_arguments
from longhall.errors import Code
from longhall.exchanges.properties import decode_stored
from longhall.queues.messages import Delivery
from longhall.service.exchange_operations import CommitTransaction, PublishMessages, ReplyDirectly

if TYPE_CHECKING:
    from longhall.doors.amqp.channel import Channel
    from longhall.doors.amqp.connection import AmqpConnection

BATCH_MESSAGES_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
UNDER_WAY_BYTES_MAX: Final = 32 * 1024 * 1024  # Of one connection; beyond it the connection is not read.
REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."


def _is_reply(publication: Publication) -> bool:
    """True for a direct reply, which passes every queue."""
    return not publication.exchange and publication.keys[0].startswith(REPLY_PREFIX)


@final
class _Message:
    """A message on its way. `number` is its confirm number; 0 without confirms."""

    __slots__ = ("channel", "is_mandatory", "number", "publication")

    def __init__(self, channel: Channel, publication: Publication, is_mandatory: bool, number: int) -> None:
        self.channel = channel
        self.publication = publication
        self.is_mandatory = is_mandatory
        self.number = number


@final
class _Batch:
    """Messages of one call, and the call."""

    __slots__ = ("is_counted", "messages", "pending", "size_bytes")

    def __init__(self, messages: list[_Message], pending: Pending[list[Published]], size_bytes: int) -> None:
        self.messages = messages
        self.pending = pending
        self.is_counted = True  # By the memory budget.
        self.size_bytes = size_bytes


@final
class Publisher:
    """The messages of one connection that are not confirmed yet, in the order in which they were published."""

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._gathered: list[_Message] = []
        self._gathered_bytes = 0
        self._batches: deque[_Batch] = deque()
        self._under_way_bytes = 0

    @property
    def is_crowded(self) -> bool:
        """True if too much is under way."""
        if self._under_way_bytes > UNDER_WAY_BYTES_MAX:
            return True
        budget = self._connection.server.budget
        return self._under_way_bytes > 0 and budget.used_bytes >= budget.bytes_max

    @property
    def is_busy(self) -> bool:
        """True if something is under way."""
        return bool(self._batches or self._gathered)

    def publish(self, channel: Channel, publication: Publication, is_mandatory: bool) -> None:
        """Take one message for the next call; under an alarm it waits."""
        connection = self._connection
        connection.blockage.check(connection.handshake.capabilities.get("connection.blocked") is True)
        number = 0
        if channel.confirms:
            channel.published += 1
            number = channel.published
        self._gathered.append(_Message(channel, publication, is_mandatory, number))
        self._gathered_bytes += len(publication.message.body) + 200
        if _is_reply(publication):
            self._reply(self._gathered.pop())
        elif len(self._gathered) >= BATCH_MESSAGES_MAX or self._gathered_bytes >= BATCH_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered, unless the connection is blocked."""
        if self._connection.blockage.is_blocked:
            return
        messages, self._gathered = self._gathered, []
        size_bytes, self._gathered_bytes = self._gathered_bytes, 0
        if messages:
            operation = PublishMessages(self._connection.host, [message.publication for message in messages])
            pending = self._connection.service.call(operation, self._connection.caller)
            self._begin(_Batch(messages, pending, size_bytes))

    async def commit(
        self, channel: Channel, published: list[tuple[Publication, bool]], ends: list[EndedMessages]
    ) -> None:
        """Publish the messages of a transaction and end others together. AmqpError if nothing of it was done."""
        self.flush()
        connection = self._connection
        replies = [one for one in published if _is_reply(one[0])]
        published = [one for one in published if not _is_reply(one[0])]
        if published or ends:
            operation = CommitTransaction(connection.host, [publication for publication, _ in published], ends)
            self._returned(channel, published, await connection.service.call(operation, connection.caller))
        for publication, is_mandatory in replies:
            self._reply(_Message(channel, publication, is_mandatory, 0))

    def _returned(self, channel: Channel, published: list[tuple[Publication, bool]], answers: list[Published]) -> None:
        for (publication, is_mandatory), answer in zip(published, answers, strict=True):
            message = _Message(channel, publication, is_mandatory, 0)
            if answer.code is not None:
                raise self._error(message, answer)
            if not answer.routed and is_mandatory:
                self._return(message)

    def _reply(self, message: _Message) -> None:
        """A direct reply goes to the session that its routing key names, past every queue."""
        self.flush()
        connection = self._connection
        session, _, channel = message.publication.keys[0][len(REPLY_PREFIX) :].partition(".")
        sent = message.publication.message
        delivery = Delivery(
            message_id="", receipt="", body=sent.body, amqp=sent.amqp, group=channel, attributes=sent.attributes
        )
        asked = connection.service.call(ReplyDirectly(session, delivery), connection.caller)
        replied: Pending[list[Published]] = Pending()
        asked.when_done(lambda done: replied.complete([Published(int(done.error is None and done.reply))]))
        self._begin(_Batch([message], replied, len(sent.body)))

    def _begin(self, batch: _Batch) -> None:
        self._batches.append(batch)
        self._under_way_bytes += batch.size_bytes
        if not self._connection.server.budget.take(batch.size_bytes):
            batch.is_counted = False
        if batch.pending.known and not batch.pending.done:
            self._close_at_once(batch)
        batch.pending.when_done(self._done)

    def _close_at_once(self, batch: _Batch) -> None:
        """Close channels that published to an exchange that does not exist, before their next method is handled."""
        for message, answer in zip(batch.messages, batch.pending.reply, strict=True):
            if answer.code in (Code.UNKNOWN_EXCHANGE, Code.INVALID_REQUEST):
                self._refuse(message, answer)

    def _done(self, done: Pending[list[Published]]) -> None:
        """Confirm batches in their order."""
        while self._batches and self._batches[0].pending.done:
            batch = self._batches.popleft()
            self._under_way_bytes -= batch.size_bytes
            if batch.is_counted:
                self._connection.server.budget.give(batch.size_bytes)
            if not self._connection.is_over:
                self._confirm(batch)
        if not self._connection.is_over and self._connection.publisher is self:
            self._connection.worked()

    def _confirm(self, batch: _Batch) -> None:
        pending = batch.pending
        answers = pending.result() if pending.error is None else [Published(code=Code.NOT_READY)] * len(batch.messages)
        acks: dict[Channel, int] = {}
        for message, answer in zip(batch.messages, answers, strict=True):
            channel = message.channel
            if channel.is_closing:
                continue
            if answer.code in (Code.UNKNOWN_EXCHANGE, Code.INVALID_REQUEST):
                self._refuse(message, answer)
                acks.pop(channel, None)
                continue
            if answer.code is None and not answer.routed and message.is_mandatory:
                self._return(message)
            if not message.number:
                continue
            if answer.code is None:
                acks[channel] = message.number
                continue
            if answer.code is Code.STORAGE_FULL:
                self._connection.server.alarms.note_full()
            self._ack(channel, acks.pop(channel, 0))
            self._connection.write(method_frame(channel.number, methods.BASIC_NACK, message.number, False, False))
        for channel, number in acks.items():
            self._ack(channel, number)

    def _ack(self, channel: Channel, number: int) -> None:
        if number:
            self._connection.write(method_frame(channel.number, methods.BASIC_ACK, number, True))

    def _refuse(self, message: _Message, answer: Published) -> None:
        self._connection.fail(message.channel, self._error(message, answer), methods.BASIC_PUBLISH)

    def _error(self, message: _Message, answer: Published) -> AmqpError:
        resource = exchange_text(message.publication.exchange, self._connection.host)
        if answer.code is Code.UNKNOWN_EXCHANGE:
            return AmqpError(errors.NOT_FOUND, f"no {resource}")
        if answer.code is Code.INVALID_REQUEST:
            return AmqpError(errors.ACCESS_REFUSED, f"cannot publish to internal {resource}")
        return errors.precondition(f"a queue of the transaction has refused a message: {answer.reason}")

    def _return(self, message: _Message) -> None:
        """basic.return, with the content as it was stored."""
        connection = self._connection
        publication = message.publication
        properties = decode_stored(publication.message.amqp)[2]
        arguments = [errors.NO_ROUTE, "NO_ROUTE", publication.exchange, publication.keys[0]]
        payload = methods.BASIC_RETURN.to_bytes(4, "big") + encode_arguments("hsss", arguments)
        connection.write(
            content_frames(
                message.channel.number, payload, properties, publication.message.body, connection.handshake.frame_max
            )
        )
