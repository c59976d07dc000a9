"""Receiving from several replication groups: the nearest first, then the others; a receiver waits for all at once.

No delivery is lost. A call that is not needed any more is cancelled, and messages that it delivers all the same are
returned to their queue without counting an attempt. A group that does not answer at once does not delay a receiver:
the others are asked meanwhile.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from longhall.service.queue_operations import ReceiveMessages, undelivered

if TYPE_CHECKING:
    from longhall.service.placed_queues import Groups

ANSWER_S_MAX: Final = 0.5  # For a receive without waiting.
ATTEMPTS_MAX: Final = 10_000

Found = tuple[int, list[Delivery]]  # The group, and its messages.


@final
class PlacedReceive:
    """The groups that are asked for messages, in their order."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._attempts: dict[str, int] = {}  # By attempt id: the group that delivered, for a repeated request.

    async def receive(self, numbers: tuple[int, ...], op: ReceiveMessages, caller: Caller, topic_id: bytes) -> Found:
        """Messages of one group. LonghallError if no group could be asked."""
        near = self._groups.nearest(numbers)
        if op.attempt_id in self._attempts:
            near.sort(key=lambda number: number != self._attempts[op.attempt_id])
        if len(near) == 1:
            late = partial(self._return, near[0], op.queue)
            return near[0], await self._groups.call(near[0], op, caller, incarnation=topic_id, on_late=late)
        number, found = await self._at_hand(near, op, caller, topic_id)
        if not found and op.wait_ms > 0:
            number, found = await self._wait(near, op, caller, topic_id)
        if found and op.attempt_id:
            if len(self._attempts) >= ATTEMPTS_MAX:
                self._attempts.pop(next(iter(self._attempts)))
            self._attempts[op.attempt_id] = number
        return number, found

    async def _at_hand(self, near: list[int], op: ReceiveMessages, caller: Caller, topic_id: bytes) -> Found:
        """The messages of the first group that has some now."""
        at_once = msgspec.structs.replace(op, wait_ms=0)
        failure: LonghallError | None = None
        answered = False
        for number in near:
            late = partial(self._return, number, op.queue)
            pending = self._groups.call(number, at_once, caller, now=True, incarnation=topic_id, on_late=late)
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    found = await pending
            except TimeoutError:
                continue
            except LonghallError as error:
                if error.code is Code.INVALID_REQUEST:  # An invalid filter is invalid in every group.
                    raise
                failure = error
                continue
            answered = True
            if found:
                return number, found
        if failure is not None and not answered and not op.wait_ms:
            raise _none_asked(failure)
        return near[0], []

    async def _wait(self, near: list[int], op: ReceiveMessages, caller: Caller, topic_id: bytes) -> Found:
        """Wait for the first messages of any group."""
        calls: dict[int, Pending[list[Delivery]]] = {}
        done = asyncio.Event()
        for number in near:
            late = partial(self._return, number, op.queue)
            pending = calls[number] = self._groups.call(number, op, caller, incarnation=topic_id, on_late=late)
            pending.when_done(lambda _: done.set())
        failure: LonghallError | None = None
        answered = False
        waiting = list(calls)
        try:
            while waiting:
                await done.wait()
                done.clear()
                for number in [one for one in waiting if calls[one].done]:  # The nearest first.
                    waiting.remove(number)
                    try:
                        found = calls[number].result()
                    except LonghallError as error:
                        failure = error
                        continue
                    answered = True
                    if found:
                        return number, found
            if failure is not None and not answered:
                raise _none_asked(failure)
            return near[0], []
        finally:
            for number in waiting:
                pending = calls[number]
                if not pending.done:
                    pending.cancel()
                elif pending.error is None:
                    self._return(number, op.queue, pending.reply)  # Another group delivered first.

    def _return(self, number: int, queue: str, deliveries: list[Delivery]) -> None:
        """Return messages that no receiver gets."""
        operation = undelivered(queue, deliveries)
        if operation is not None:
            self._groups.call(number, operation)


def _none_asked(failure: LonghallError) -> LonghallError:
    return LonghallError(Code.NOT_READY, f"none of its groups can be asked at the moment: {failure}")
