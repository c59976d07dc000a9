"""Streams of items between two processes, under credit.

The receiving side gives credit: the sending side may have sent at most so many items that were not taken yet. So a slow
receiver holds back its own stream and nothing else on the connection, and its buffer is bounded by its credit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import final

from longhall.errors import LonghallError


@final
class IncomingStream:
    """The receiving side: an asynchronous iterator. It raises the error with which the stream ended, if any."""

    def __init__(self, credit: int, give_credit: Callable[[int], None], close: Callable[[], None]) -> None:
        self._credit = credit
        self._give_credit = give_credit
        self._close = close
        self._items: deque[bytes] = deque()
        self._taken = 0  # Since credit was given last.
        self._ended = False
        self._error: Exception | None = None
        self._arrived = asyncio.Event()

    def __aiter__(self) -> IncomingStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self._taken += 1
        if self._taken * 2 >= self._credit:  # Returned in halves, so that the sender does not stall.
            self._give_credit(self._taken)
            self._taken = 0
        return self._items.popleft()

    def close(self) -> None:
        """Receive nothing more."""
        if not self._ended:
            self._ended = True
            self._close()

    # What the connection calls

    def received(self, item: bytes) -> None:
        """One item came. More than the credit allows ends the stream."""
        if len(self._items) >= self._credit:
            self.ended(ConnectionError("the other side sent more than it had credit for"))
            return
        self._items.append(item)
        self._arrived.set()

    def ended(self, error: Exception | None) -> None:
        """The other side has sent everything, or cannot go on."""
        self._ended = True
        self._error = error
        self._arrived.set()


@final
class OutgoingStream:
    """The sending side. `send` without credit is refused: the producer waits until `on_credit` is called."""

    def __init__(
        self, credit: int, write: Callable[[bytes], None], end: Callable[[LonghallError | None], None]
    ) -> None:
        self.credit = credit
        self.is_open = True
        self._write = write
        self._end = end
        self._on_credit: Callable[[], None] | None = None
        self._on_close: Callable[[], None] | None = None

    def watch(self, on_credit: Callable[[], None], on_close: Callable[[], None]) -> None:
        """Call these when there is credit again, and when the other side wants nothing more."""
        self._on_credit = on_credit
        self._on_close = on_close

    def send(self, item: bytes) -> bool:
        """Send one item; False if there is no credit or the stream is over, and nothing was sent."""
        if not self.is_open or self.credit <= 0:
            return False
        self.credit -= 1
        self._write(item)
        return True

    def end(self, error: LonghallError | None = None) -> None:
        """Everything is sent, or the stream cannot go on."""
        if self.is_open:
            self.is_open = False
            self._end(error)

    # What the connection calls

    def add_credit(self, more: int) -> None:
        """The other side has taken so many items."""
        self.credit += more
        if self._on_credit is not None and self.is_open:
            self._on_credit()

    def close(self) -> None:
        """The other side wants nothing more, or is gone."""
        if self.is_open:
            self.is_open = False
            if self._on_close is not None:
                self._on_close()


StreamHandler = Callable[[int, bytes, OutgoingStream], None]
