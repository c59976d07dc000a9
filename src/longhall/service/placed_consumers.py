"""Consumers and gets of queues that other replication groups store: the operations of sessions, sent to the groups.

The process that has the client's connection opens a session at the leader of each group (`placed_session`), so that
messages come from there without a detour, and go back when the connection ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.queues.receipts import bare
from longhall.service import exchange_operations as ops
from longhall.service.placed_queue import AskGroup, PlacedQueue
from longhall.service.placed_session import BETWEEN, PlacedSession
from longhall.service.sessions import Sessions

if TYPE_CHECKING:
    from longhall.service.placed_queues import Groups

SESSION_ACTIONS: Final = (ops.CancelConsumer, ops.LimitChannel)


@final
class PlacedConsumers:
    """The sessions of this process's connections in other groups."""

    def __init__(self, groups: Groups, sessions: Sessions, ask: AskGroup) -> None:
        self._groups = groups
        self._sessions = sessions
        self._ask = ask

    def _session(self, session_id: str) -> PlacedSession:
        link = self._sessions.links.get(session_id)
        if link is None:
            raise LonghallError(Code.NOT_READY, "the session of the connection is not open; try again")
        return self._found(session_id) or PlacedSession(link, self._groups, self._ask)

    def _found(self, session_id: str) -> PlacedSession | None:
        link = self._sessions.links.get(session_id)
        parts = link.parts if link is not None else ()
        return next((part for part in parts if isinstance(part, PlacedSession)), None)

    # Sessions

    async def cancel(self, op: ops.CancelConsumer, caller: Caller) -> bool:
        """Remove a consumer; False if it is none of a queue in groups."""
        session = self._found(op.session)
        return session is not None and await session.cancel(op.key, caller)

    async def limit(self, op: ops.LimitChannel) -> None:
        """Limit a channel in all groups, also in those where it has its first consumer later."""
        await self._session(op.session).limit(op.channel, op.left)

    # Queues

    async def add(self, queue: PlacedQueue, op: ops.AddConsumer, caller: Caller) -> None:
        """Add a consumer."""
        await self._session(op.session).add(queue, op, caller)

    async def take(self, queue: PlacedQueue, op: ops.TakeMessage, caller: Caller) -> ops.TakenMessage:
        """Lease one message: of the nearest group that has one."""
        session = self._session(op.session)
        failure: LonghallError | None = None
        for number in self._groups.nearest(queue.settings.wings):
            group = session.at(number)
            try:
                await group.opened()
                taken: ops.TakenMessage = await self._ask(queue, number, op, caller)
            except LonghallError as error:
                failure = error
                continue
            if taken.delivery is not None:
                if taken.delivery.receipt and not op.no_ack:
                    group.held[taken.delivery.receipt] = (0, 0)
                    taken.delivery.receipt = f"{number}{BETWEEN}{taken.delivery.receipt}"
                taken.left += await self._ready_elsewhere(queue, number, caller)
                return taken
        if failure is not None:
            raise failure  # A group that was not asked may have messages.
        return ops.TakenMessage()

    async def _ready_elsewhere(self, queue: PlacedQueue, number: int, caller: Caller) -> int:
        others = [one for one in queue.settings.wings if one != number]
        asked = ops.UseQueue(queue.name, counts=False)
        uses = await asyncio.gather(*(self._ask(queue, one, asked, caller) for one in others), return_exceptions=True)
        return sum(use.ready for use in uses if isinstance(use, ops.QueueUse))

    async def end(self, queue: PlacedQueue, op: ops.EndHeld, caller: Caller) -> None:
        """End messages in the groups from which they came."""
        by_group: dict[int, list[str]] = {}
        for receipt in op.receipts:
            number, _, rest = receipt.partition(BETWEEN)
            if len(queue.settings.wings) == 1:  # Another group may have issued it, before the queue moved.
                by_group.setdefault(queue.settings.wings[0], []).append(bare(receipt))
            elif number.isdecimal() and int(number) in queue.settings.wings:
                by_group.setdefault(int(number), []).append(rest)
        session = self._session(op.session) if op.session in self._sessions.links else None
        credits = dict(op.credits)
        calls = []
        moved: dict[int, int] = {}
        for group, receipts in by_group.items():
            given, others = session.ended(group, receipts, credits) if session is not None else ([], {})
            moved = others if len(queue.settings.wings) == 1 else {}
            asked = msgspec.structs.replace(op, receipts=receipts, credits=given)
            calls.append(self._ask(queue, group, asked, caller))
        for failure in await asyncio.gather(*calls, return_exceptions=True):
            if failure is not None:
                raise failure
        if session is not None and moved:
            session.moved_credit(queue.settings.wings[0], moved)
