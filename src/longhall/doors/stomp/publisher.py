"""Publishing of one STOMP connection: the receipt of a SEND leaves when its message is confirmed.

outcome of a message                     the client gets
durable in its queues, or no queue       RECEIPT, if it asked for one
refused by a queue, or not confirmed     ERROR with the receipt-id, if it asked for one
no such exchange                         ERROR, and the connection is closed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.sending.transaction import EndedMessages
from longhall.doors.amqp.errors import ACCESS_REFUSED, NOT_FOUND, AmqpError, exchange_text
from longhall.doors.amqp.publish_batches import PublishBatches, cannot_be_published
from longhall.doors.stomp.errors import StompError, stomp_error
from longhall.errors import Code

if TYPE_CHECKING:
    from longhall.doors.stomp.connection import StompConnection


@final
class SentMessage:
    """A message on its way; `receipt` is empty if the client asked for none."""

    __slots__ = ("publication", "receipt")

    def __init__(self, publication: Publication, receipt: str) -> None:
        self.publication = publication
        self.receipt = receipt


@final
class StompPublisher:
    """The messages of one connection that are not confirmed yet."""

    def __init__(self, connection: StompConnection) -> None:
        self._connection = connection
        self.batches: PublishBatches[SentMessage] = PublishBatches(
            connection, connection.server.budget, self._confirm, self._refuse
        )

    async def commit(self, messages: list[SentMessage], ends: list[EndedMessages]) -> None:
        """Publish the messages of a transaction and end others together, and send the receipts. Raises AmqpError or
        StompError.
        """
        answers = await self.batches.commit([message.publication for message in messages], ends)
        for message, answer in zip(messages, answers, strict=True):
            if cannot_be_published(answer):
                raise self._error(message, answer)
            if answer.code is not None:
                raise _refused(message, answer)
        for message in messages:
            self._connection.send_receipt(message.receipt)

    def _confirm(self, messages: list[SentMessage], answers: list[Published]) -> None:
        for message, answer in zip(messages, answers, strict=True):
            if cannot_be_published(answer):
                self._refuse(message, answer)
            elif answer.code is None:
                self._connection.send_receipt(message.receipt)
            elif message.receipt:
                self._connection.fail(_refused(message, answer), "SEND")
            else:
                self._connection.server.note_refused("SEND", _refused(message, answer))

    def _refuse(self, message: SentMessage, answer: Published) -> None:
        self._connection.fail(stomp_error(self._error(message, answer)), "SEND")

    def _error(self, message: SentMessage, answer: Published) -> AmqpError:
        resource = exchange_text(message.publication.exchange, self._connection.host)
        if answer.code is Code.UNKNOWN_EXCHANGE:
            return AmqpError(NOT_FOUND, f"no {resource}")
        if answer.code is Code.ACCESS_REFUSED:
            return AmqpError(ACCESS_REFUSED, answer.reason)
        return AmqpError(ACCESS_REFUSED, f"cannot publish to internal {resource}")


def _refused(message: SentMessage, answer: Published) -> StompError:
    receipt = [("receipt-id", message.receipt)] if message.receipt else []
    if answer.code is Code.NOT_READY:
        return StompError(
            "Message not confirmed", "the leader of the queue has changed; send it again\n", headers=receipt
        )
    return StompError("Message refused", f"{answer.reason or answer.code}\n", headers=receipt)
