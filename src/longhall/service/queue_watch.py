"""Queues as a process without data knows them: the leader streams its catalogue, and every change of it.

An item is a list of names with their queues, None for a queue that is gone. An empty item says that the receiver has
all queues from before it opened the stream. Changes of one turn of the leader's loop
are sent together, before the reply to the operation that made them, so a client reads its own writes through the same
worker. While the stream is broken this process knows no queues, and asks the leader for each.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

import msgspec

from longhall.broker.background import BackgroundTasks
from longhall.broker.hall import Hall
from longhall.broker.queues.service import QueueService
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.stream import OutgoingStream
from longhall.errors import LonghallError
from longhall.queues.messages import QueueView

WATCH_QUEUES: Final = "watch-queues"
CREDIT: Final = 16  # Items in progress.
NAMES_AN_ITEM: Final = 200
PAUSE_S: Final = 0.2  # Before the next attempt after the stream broke.

Changes = list[tuple[str, QueueView | None]]

_encode = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(Changes)
_log = logging.getLogger("longhall.workers")


@final
class QueueWatchSource:
    """The leader's side: one subscription for each open stream."""

    def __init__(self, hall: Hall, queues: QueueService) -> None:
        self._hall = hall
        self._queues = queues
        self._subscriptions: dict[_Subscription, None] = {}
        hall.catalogue.queues.watch(self._changed)

    def serve(self, peers: Peers) -> None:
        """Serve the stream to other processes."""
        peers.serve_stream(WATCH_QUEUES, self._open)

    def _open(self, node: int, body: bytes, stream: OutgoingStream) -> None:
        subscription = _Subscription(self._queues, stream)
        self._subscriptions[subscription] = None
        stream.watch(subscription.send, lambda: self._close(subscription))
        for name in self._hall.catalogue.queues.by_name:
            subscription.changed(name)
        subscription.send_soon()

    def _close(self, subscription: _Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    def _changed(self, name: str) -> None:
        for subscription in self._subscriptions:
            subscription.changed(name)


@final
class _Subscription:
    """One stream: the names that changed and were not sent yet."""

    def __init__(self, queues: QueueService, stream: OutgoingStream) -> None:
        self._queues = queues
        self._stream = stream
        self._unsent: dict[str, None] = {}
        self._is_due = False
        self._is_whole = False  # True when the receiver was told that it has all queues.

    def changed(self, name: str) -> None:
        """Send this queue at the end of the current turn of the loop, when the change is applied everywhere."""
        self._unsent[name] = None
        self.send_soon()

    def send_soon(self) -> None:
        """Send at the end of the current turn of the loop."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.send)

    def send(self) -> None:
        """Send the changed queues as far as there is credit."""
        self._is_due = False
        while self._unsent and self._stream.is_open and self._stream.credit > 0:
            names = list(self._unsent)[:NAMES_AN_ITEM]
            for name in names:
                del self._unsent[name]
            self._stream.send(_encode([(name, self._queues.view(name)) for name in names]))
        if not self._is_whole and not self._unsent and self._stream.is_open and self._stream.credit > 0:
            self._is_whole = True
            self._stream.send(_encode([]))


@final
class RemoteQueueViews:
    """The side of a process without data: the queues that the leader has sent."""

    def __init__(self, peers: Peers, leader: int, background: BackgroundTasks) -> None:
        self._peers = peers
        self._leader = leader
        self.is_whole = False  # True while this process knows every queue that the leader knows.
        self._views: dict[str, QueueView] = {}
        self._task = background.start("watch queues", self._watch)

    def view(self, name: str) -> QueueView | None:
        """The queue of this name; None if it is not known here."""
        return self._views.get(name)

    def close(self) -> None:
        """Stop watching."""
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                stream = await self._peers.open_stream(self._leader, WATCH_QUEUES, b"", CREDIT)
                async for item in stream:
                    self._take(_decoder.decode(item))
            except (OSError, TimeoutError, LonghallError) as error:
                _log.debug("the queues of the leader cannot be watched", extra={"reason": str(error)})
            finally:
                self.is_whole = False
                self._views.clear()
            await asyncio.sleep(PAUSE_S)

    def _take(self, changes: Changes) -> None:
        self.is_whole = self.is_whole or not changes
        for name, view in changes:
            if view is None:
                self._views.pop(name, None)
            else:
                self._views[name] = view
