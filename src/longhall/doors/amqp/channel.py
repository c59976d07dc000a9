"""One channel of a connection: its consumers, the deliveries that it has not ended, and the order of its methods.

A method that has to wait runs as a task; the methods behind it on the same channel wait for it, those of other channels
do not. Publishing and acknowledging need no task.

    state      it takes                    it leaves by
    open       every method                channel.close of the client, or an error
    closing    close and close_ok only     close_ok (an error was sent)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, final

from longhall.broker.queues.sending.publication import Publication
from longhall.doors.amqp.errors import AmqpError, error_of
from longhall.doors.amqp.unacknowledged import ChannelConsumer, Unacknowledged, end_deliveries
from longhall.doors.amqp.wire.methods import Arguments
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection

WORK_MAX: Final = 256  # Methods that wait for the one before; beyond it the connection is not read.


@final
class Content:
    """A content that arrives: the method, then its header, then its body."""

    __slots__ = ("arguments", "body", "held_bytes", "left", "parts", "properties")

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.properties: bytes | None = None
        self.left = 0
        self.parts: list[bytes] = []
        self.held_bytes = 0  # Of the parts, in the memory budget.
        self.body = b""


@final
class Channel:
    """The state of one channel."""

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        connection.server.statistics.counts.channels_opened += 1
        self.connection = connection
        self.number = number
        self.is_closing = False
        self.content: Content | None = None
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacknowledged: dict[int, Unacknowledged] = {}
        self.delivery_number = 0
        self.prefetch = 0  # Of consumers that are opened from now on.
        self.limit = 0  # Of all consumers together; 0: none.
        self.confirms = False
        self.published = 0  # Confirmed publishing: the number of the last message.
        self.is_transactional = False
        self.transaction: list[tuple[Publication, bool]] = []
        self.transaction_bytes = 0
        self.transaction_ends: list[tuple[int, list[Unacknowledged]]] = []
        self.queue = ""  # The last one that was declared.
        self.reply_tag = ""  # The consumer of direct replies.
        self._work: deque[tuple[int, Arguments, Content | None]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """True while a method waits."""
        return self._task is not None

    @property
    def is_crowded(self) -> bool:
        """True if too many methods wait behind it."""
        return len(self._work) >= WORK_MAX

    @property
    def limited(self) -> int | None:
        """The number of the channel if all its consumers together have a limit."""
        return self.number if self.limit else None

    def take(self, method: int, arguments: Arguments, content: Content | None) -> None:
        """Handle a method, or let it wait for those before it."""
        if self._task is not None:
            self._work.append((method, arguments, content))
            return
        self._begin(method, arguments, content)

    def _begin(self, method: int, arguments: Arguments, content: Content | None) -> None:
        connection = self.connection
        try:
            outcome = connection.handle(self, method, arguments, content)
        except AmqpError as error:
            connection.fail(self, error, method)
            return
        except LonghallError as error:
            connection.fail(self, error_of(error), method)
            return
        if outcome is not None:
            self._task = connection.start(self._finish(method, outcome))

    async def _finish(self, method: int, outcome: Coroutine[Any, Any, None]) -> None:
        connection = self.connection
        try:
            await outcome
        except AmqpError as error:
            connection.fail(self, error, method)
        except LonghallError as error:
            connection.fail(self, error_of(error), method)
        finally:
            self._task = None
        while self._work and not self.is_busy and not connection.is_over:
            self._begin(*self._work.popleft())
        connection.worked()

    def abandon(self) -> None:
        """The channel is gone: nothing waits any more, and a content that arrives holds no memory."""
        self.content = None
        self._work.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def ended(self, number: int, multiple: bool) -> list[Unacknowledged] | None:
        """Remove deliveries that the client ends: this one, or all up to it (0: all). None for an unknown number."""
        return end_deliveries(self.unacknowledged, self.delivery_number, number, multiple)
