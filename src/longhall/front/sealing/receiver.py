"""Pushes to a connection of this process: opened, in their order, without holding up those that are in clear.

While the key of a push is fetched, later pushes of the session wait behind it, and the session is not writable beyond
WAITING_MAX of them. Messages that do not open go back to their queue, and their consumer ends with the error: it would
get them again at once otherwise. A broken message counts an attempt, so that it becomes a dead letter in the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, final

from longhall.broker.queues.consumers.session import DIRECT, PushedMessages
from longhall.errors import Code, LonghallError
from longhall.front.sealing.messages import MessageSealer
from longhall.queues.messages import Delivery
from longhall.service.exchange_operations import REQUEUE, UNSEEN, EndHeld
from longhall.service.router import Router
from longhall.service.sessions import ConnectionReceiver, start_of_session

WAITING_MAX: Final = 16


@final
class OpeningReceiver:
    """Stands between a session and its connection. Fulfils `PushReceiver`."""

    def __init__(self, router: Router, sealer: MessageSealer, session_id: str, owner: ConnectionReceiver) -> None:
        self._router = router
        self._sealer = sealer
        self._session_id = session_id
        self._owner = owner
        self._waiting: deque[PushedMessages] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_writable(self) -> bool:
        """False while too much is on its way to the client."""
        return self._owner.is_writable and len(self._waiting) < WAITING_MAX

    def session_opened(self) -> None:
        self._owner.session_opened()

    def session_lost(self) -> None:
        self._waiting.clear()  # Another leader pushes them again.
        self._owner.session_lost()

    def push(self, push: PushedMessages) -> None:
        """Pass a push on, now or when those before it are opened."""
        if self._waiting:
            self._waiting.append(push)
            return
        opened = self._open_now(push)
        if opened is not None:
            self._owner.push(opened)
            return
        self._waiting.append(push)
        if self._task is None or self._task.done():
            self._task = start_of_session(self._pass_on(), "open pushed messages")

    def _open_now(self, push: PushedMessages) -> PushedMessages | None:
        """The push in clear; None if a key has to be fetched, or something does not open."""
        if push.consumer == DIRECT or not any(delivery.seal for delivery in push.deliveries):
            return push
        try:
            opened = self._sealer.open_now(push.queue, push.deliveries)
        except LonghallError:
            return None
        return PushedMessages(push.consumer, push.queue, opened) if opened is not None else None

    async def _pass_on(self) -> None:
        while self._waiting:
            push = self._waiting[0]
            opened, error = await self._open(push)
            if not self._waiting or self._waiting[0] is not push:
                continue  # The session was lost meanwhile.
            if opened or not push.deliveries:
                self._owner.push(PushedMessages(push.consumer, push.queue, opened))
            if error is not None:
                self._owner.push_failed(push.consumer, error)
            self._waiting.popleft()

    async def _open(self, push: PushedMessages) -> tuple[list[Delivery], LonghallError | None]:
        """The messages up to the first that does not open; it and those behind it go back."""
        opened: list[Delivery] = []
        for at, delivery in enumerate(push.deliveries):
            try:
                opened.append(await self._sealer.open_one(push.queue, delivery))
            except LonghallError as error:
                how = REQUEUE if error.code is Code.SEAL_BROKEN else UNSEEN
                self._end(push.queue, [delivery], how)
                self._end(push.queue, push.deliveries[at + 1 :], UNSEEN)
                return opened, error
        return opened, None

    def _end(self, queue: str, deliveries: list[Delivery], how: int) -> None:
        receipts = [delivery.receipt for delivery in deliveries if delivery.receipt]
        if receipts:
            self._router.dispatch(EndHeld(queue, self._session_id, receipts, how, []))
