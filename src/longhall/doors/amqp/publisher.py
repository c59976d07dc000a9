"""Confirms of one connection; they leave in the order of publishing (`publish_batches`).

    outcome of a message           the client gets
    routed, durable in its queues  ack
    no queue                       return if mandatory, then ack
    refused by a queue, or lost    nack; without confirms nothing
    no such exchange               the channel is closed with 404

Consecutive acks of a channel are one, with `multiple`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.sending.transaction import EndedMessages
from longhall.doors.amqp import errors
from longhall.doors.amqp.errors import AmqpError, exchange_text
from longhall.doors.amqp.publish_batches import PublishBatches, cannot_be_published, is_reply
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import content_frames, method_frame
from longhall.doors.amqp.wire.methods import encode_arguments
from longhall.errors import Code
from longhall.exchanges.properties import decode_stored

if TYPE_CHECKING:
    from longhall.doors.amqp.channel import Channel
    from longhall.doors.amqp.connection import AmqpConnection


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
class Publisher:
    """The confirms and returns for the messages that a client publishes."""

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._batches: PublishBatches[_Message] = PublishBatches(
            connection, connection.server.budget, self._confirm, self._refuse
        )

    @property
    def is_crowded(self) -> bool:
        """True if too much is under way."""
        return self._batches.is_crowded

    @property
    def is_busy(self) -> bool:
        """True if something is under way."""
        return self._batches.is_busy

    def unconfirmed(self, channel: Channel) -> int:
        """Messages of a channel whose confirms are outstanding."""
        return sum([one.channel is channel and one.number > 0 for one in self._batches.messages])

    def publish(self, channel: Channel, publication: Publication, is_mandatory: bool) -> None:
        """Take one message for the next call; under an alarm it waits."""
        connection = self._connection
        connection.blockage.check(connection.handshake.capabilities.get("connection.blocked") is True)
        number = 0
        if channel.confirms:
            channel.published += 1
            number = channel.published
        self._batches.publish(_Message(channel, publication, is_mandatory, number))

    def flush(self) -> None:
        """Send what was gathered, unless the connection is blocked."""
        if not self._connection.blockage.is_blocked:
            self._batches.flush()

    async def done(self) -> None:
        """Wait until what was published so far is in its queues, so that a method that looks at one finds it.

        A blocked connection publishes nothing, and nothing waits for it.
        """
        if not self._connection.blockage.is_blocked:
            await self._batches.done()

    async def commit(
        self, channel: Channel, published: list[tuple[Publication, bool]], ends: list[EndedMessages]
    ) -> None:
        """Publish the messages of a transaction and end others together. AmqpError if nothing of it was done."""
        replies = [one for one in published if is_reply(one[0])]
        published = [one for one in published if not is_reply(one[0])]
        answers = await self._batches.commit([publication for publication, _ in published], ends)
        for publication, is_mandatory in replies:
            self._batches.publish(_Message(channel, publication, is_mandatory, 0))
        for (publication, is_mandatory), answer in zip(published, answers, strict=True):
            message = _Message(channel, publication, is_mandatory, 0)
            if answer.code is not None:
                raise self._error(message, answer)
            self._count([message], [answer])
            if not answer.routed and is_mandatory:
                self._return(message)

    def _confirm(self, messages: list[_Message], answers: list[Published]) -> None:
        self._count(messages, answers)
        acks: dict[Channel, int] = {}
        for message, answer in zip(messages, answers, strict=True):
            channel = message.channel
            if channel.is_closing:
                continue
            if cannot_be_published(answer):
                self._refuse(message, answer)
                acks.pop(channel, None)
                continue
            if answer.code is not None:
                self._connection.server.note_refused("basic.publish", answer.code.value, answer.reason)
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

    def _count(self, messages: list[_Message], answers: list[Published]) -> None:
        """Count what was published, in runs of messages with the same outcome."""
        statistics, host = self._connection.server.statistics, self._connection.host
        last: tuple[str, int, bool, bool] | None = None
        count = 0
        for message, answer in zip(messages, answers, strict=True):
            if answer.code is not None:
                continue
            outcome = (message.publication.exchange, answer.routed, message.is_mandatory, message.number > 0)
            if outcome != last:
                if last is not None:
                    statistics.ended(host, *last, count)
                last, count = outcome, 0
            count += 1
        if last is not None:
            statistics.ended(host, *last, count)

    def _ack(self, channel: Channel, number: int) -> None:
        if number:
            self._connection.write(method_frame(channel.number, methods.BASIC_ACK, number, True))

    def _refuse(self, message: _Message, answer: Published) -> None:
        self._connection.fail(message.channel, self._error(message, answer), methods.BASIC_PUBLISH)

    def _error(self, message: _Message, answer: Published) -> AmqpError:
        resource = exchange_text(message.publication.exchange, self._connection.host)
        if answer.code is Code.UNKNOWN_EXCHANGE:
            return AmqpError(errors.NOT_FOUND, f"no {resource}")
        if answer.code is Code.ACCESS_REFUSED:
            return AmqpError(errors.ACCESS_REFUSED, answer.reason)
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
