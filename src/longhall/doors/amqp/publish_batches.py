"""Publishing of one connection of a door with AMQP's model: what arrives in one pass is one call of the service.

Batches are confirmed in the order of publishing, whichever is done first. What is under way counts in the memory
budget, and beyond a bound the connection is not read. The dialect of a confirm is the door's own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, final

from longhall.broker.pending import Pending, completed
from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.sending.transaction import EndedMessages
from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import SEND
from longhall.doors.amqp.errors import error_of
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.front.admission import Budget
from longhall.front.pace import ConnectionPace
from longhall.queues.messages import Delivery
from longhall.service.exchange_operations import CommitTransaction, PublishMessages, ReplyDirectly
from longhall.service.router import Router

BATCH_MESSAGES_MAX: Final = 1000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
UNDER_WAY_BYTES_MAX: Final = 32 * 1024 * 1024  # Of one connection; beyond it the connection is not read.
MESSAGE_OVERHEAD_BYTES: Final = 200
REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."

_NOT_PUBLISHED: Final = (Code.UNKNOWN_EXCHANGE, Code.INVALID_REQUEST, Code.ACCESS_REFUSED)


class UnconfirmedMessage(Protocol):
    """A message on its way, with what the door needs to confirm it."""

    publication: Publication


class PublishingConnection(Protocol):
    """The connection that publishes."""

    host: str
    service: Router
    caller: Caller
    is_over: bool
    pace: ConnectionPace

    def worked(self) -> None:
        """Something that was waited for is done."""


MessageT = TypeVar("MessageT", bound=UnconfirmedMessage)


@final
class _Batch(Generic[MessageT]):
    """Messages of one call, and the call."""

    __slots__ = ("is_counted", "messages", "pending", "size_bytes", "waiter")

    def __init__(self, messages: list[MessageT], pending: Pending[list[Published]], size_bytes: int) -> None:
        self.messages = messages
        self.pending = pending
        self.is_counted = True  # By the memory budget.
        self.size_bytes = size_bytes
        self.waiter: asyncio.Future[None] | None = None  # Done when this batch and all before it are confirmed.


@final
class PublishBatches(Generic[MessageT]):
    """The messages of one connection that are not confirmed yet, in the order in which they were published."""

    def __init__(
        self,
        connection: PublishingConnection,
        budget: Budget,
        confirm: Callable[[list[MessageT], list[Published]], None],
        refuse: Callable[[MessageT, Published], None],
    ) -> None:
        """`confirm` gets the messages of a batch with their answers; `refuse` those that cannot be published, at once,
        before the next frame of the client is handled. A refused message comes to `confirm` as well.
        """
        self._connection = connection
        self._budget = budget
        self._confirm = confirm
        self._refuse = refuse
        self._gathered: list[MessageT] = []
        self._gathered_bytes = 0
        self._batches: deque[_Batch[MessageT]] = deque()
        self._under_way_bytes = 0

    @property
    def is_crowded(self) -> bool:
        """True if too much is under way."""
        if self._under_way_bytes > UNDER_WAY_BYTES_MAX:
            return True
        if self._under_way_bytes == 0:
            return False
        connection = self._connection
        return self._budget.used_bytes >= self._budget.bytes_max or connection.service.is_behind(connection.caller)

    @property
    def is_busy(self) -> bool:
        """True if something is under way."""
        return bool(self._batches or self._gathered)

    @property
    def messages(self) -> list[MessageT]:
        """The messages under way."""
        return [message for batch in self._batches for message in batch.messages] + self._gathered

    def publish(self, message: MessageT) -> None:
        """Take one message for the next call."""
        publication = message.publication
        if is_reply(publication):
            self._reply(message)
            return
        if self._connection.service.is_guarded and self._is_refused(message):
            return
        self._gathered.append(message)
        self._gathered_bytes += len(publication.message.body) + MESSAGE_OVERHEAD_BYTES
        if len(self._gathered) >= BATCH_MESSAGES_MAX or self._gathered_bytes >= BATCH_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        messages, self._gathered = self._gathered, []
        size_bytes, self._gathered_bytes = self._gathered_bytes, 0
        if messages:
            operation = PublishMessages(self._connection.host, [message.publication for message in messages])
            pending = self._connection.service.pass_on(operation, self._connection.caller)  # Checked by `publish`.
            self._begin(_Batch(messages, pending, size_bytes))
            if self._connection.pace.limits.active:
                self._charge([message.publication for message in messages])

    def _charge(self, publications: list[Publication]) -> None:
        """Count messages in rate limits. Those to the default exchange count for the queue that their key names."""
        connection = self._connection
        sizes: dict[str, tuple[int, int]] = {}
        for one in publications:
            queue = hall_name(connection.host, one.keys[0]) if not one.exchange else ""
            count, size_bytes = sizes.get(queue, (0, 0))
            sizes[queue] = (count + 1, size_bytes + len(one.message.body))
        for queue, (count, size_bytes) in sizes.items():
            connection.pace.charge(
                connection.caller, SEND, queue, size_bytes=size_bytes, messages=count, requests=count
            )

    async def commit(self, publications: list[Publication], ends: Sequence[EndedMessages] = ()) -> list[Published]:
        """Publish the messages of a transaction and end others together, behind everything that was gathered."""
        self.flush()
        if not publications and not ends:
            return []
        if self._connection.pace.limits.active:
            self._charge(publications)
        operation = CommitTransaction(self._connection.host, publications, list(ends))
        return await self._connection.service.call(operation, self._connection.caller)

    async def done(self) -> None:
        """Wait until everything that was published so far is confirmed; later messages are not waited for."""
        self.flush()
        if self._batches:
            last = self._batches[-1]
            if last.waiter is None:
                last.waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(last.waiter)

    def _is_refused(self, message: MessageT) -> bool:
        """Refuse a message that the client may not publish. Those before it are published all the same."""
        connection = self._connection
        try:
            connection.service.check(PublishMessages(connection.host, [message.publication]), connection.caller)
        except LonghallError as error:
            refused = error_of(error)
            answer = Published(code=Code.ACCESS_REFUSED, reason=str(refused))
            self.flush()
            self._refuse(message, answer)
            self._begin(_Batch([message], completed([answer]), 0))
            return True
        return False

    def _reply(self, message: MessageT) -> None:
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

    def _begin(self, batch: _Batch[MessageT]) -> None:
        self._batches.append(batch)
        self._under_way_bytes += batch.size_bytes
        if not self._budget.take(batch.size_bytes):
            batch.is_counted = False
        if batch.pending.known and not batch.pending.done:
            for message, answer in zip(batch.messages, batch.pending.reply, strict=True):
                if cannot_be_published(answer):
                    self._refuse(message, answer)
        batch.pending.when_done(self._done)

    def _done(self, done: Pending[list[Published]]) -> None:
        """Confirm batches in their order."""
        while self._batches and self._batches[0].pending.done:
            batch = self._batches.popleft()
            self._under_way_bytes -= batch.size_bytes
            if batch.is_counted:
                self._budget.give(batch.size_bytes)
            if not self._connection.is_over:
                pending = batch.pending
                count = len(batch.messages)
                answers = pending.result() if pending.error is None else [Published(code=Code.NOT_READY)] * count
                self._confirm(batch.messages, answers)
            if batch.waiter is not None:
                batch.waiter.set_result(None)
        if not self._connection.is_over:
            self._connection.worked()


def is_reply(publication: Publication) -> bool:
    """True for a direct reply, which passes every queue."""
    return not publication.exchange and publication.keys[0].startswith(REPLY_PREFIX)


def cannot_be_published(answer: Published) -> bool:
    """True for a message whose exchange does not exist or is internal, or that the client may not publish."""
    return answer.code is not None and answer.code in _NOT_PUBLISHED
