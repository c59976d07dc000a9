"""Acknowledgements of one connection: what is ended in one pass is one call for each queue, with its credit.

A method that looks at a queue waits until messages that the connection has given back or rejected before are in it:
`returned`. Messages that are settled are in no queue, so nothing waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, final

from longhall.broker.pending import Pending
from longhall.broker.queues.sending.transaction import EndedMessages
from longhall.cluster.rpc.operation import Caller
from longhall.directory import rate_limits
from longhall.doors.amqp.unacknowledged import Unacknowledged
from longhall.errors import Code, LonghallError
from longhall.front.pace import ConnectionPace
from longhall.service.exchange_operations import DONE, REQUEUE, SETTLE, CancelConsumer, EndHeld
from longhall.service.queue_operations import DeleteQueue
from longhall.service.router import Router


class ConsumingConnection(Protocol):
    """The connection that consumes. `consumers` are those that are open, by their keys in the session."""

    service: Router
    session_id: str
    pace: ConnectionPace

    @property
    def caller(self) -> Caller: ...

    @property
    def consumers(self) -> Mapping[int, object]: ...


@final
class _Ended:
    """Receipts of one queue that end in the same way, and credit by consumer."""

    __slots__ = ("credits", "receipts")

    def __init__(self) -> None:
        self.receipts: list[str] = []
        self.credits: dict[int, int] = {}


def ended_messages(ends: list[tuple[int, list[Unacknowledged]]]) -> list[EndedMessages]:
    """The deliveries that a transaction ends, by queue and by outcome."""
    gathered: dict[tuple[str, int], list[str]] = {}
    for how, ended in ends:
        for one in ended:
            if one.consumer is None or one.consumer.stream is None:
                gathered.setdefault((one.queue, how), []).append(one.receipt)
    return [EndedMessages(queue, receipts, how) for (queue, how), receipts in gathered.items()]


@final
class Acknowledgements:
    """The deliveries of one connection that were ended and are not sent to the service yet."""

    def __init__(self, connection: ConsumingConnection) -> None:
        self._connection = connection
        self._gathered: dict[tuple[str, int], _Ended] = {}
        self._returning = 0  # Calls under way that give messages back or reject them.
        self._all_returned: asyncio.Future[None] | None = None

    def end(self, ended: list[Unacknowledged], how: int, limited_channel: int | None = None) -> None:
        """Settle, give back or reject deliveries. `limited_channel` is their channel if it has a limit of its own."""
        consumers = self._connection.consumers
        gathered: _Ended | None = None
        queue = ""
        for one in ended:
            is_stream = one.consumer is not None and one.consumer.stream is not None
            if gathered is None or one.queue != queue or is_stream:
                queue = one.queue
                done = DONE if is_stream else how  # A stream keeps its messages.
                gathered = self._gathered.get((queue, done))
                if gathered is None:
                    gathered = self._gathered[queue, done] = _Ended()
            gathered.receipts.append(one.receipt)
            consumer = one.consumer
            if consumer is not None:
                consumer.outstanding -= 1
                if consumer.prefetch and consumer.key in consumers:
                    gathered.credits[consumer.key] = gathered.credits.get(consumer.key, 0) + 1
                if limited_channel is not None:
                    gathered.credits[~limited_channel] = gathered.credits.get(~limited_channel, 0) + 1

    def flush(self) -> list[Pending[None]]:
        """Send what was gathered. Clients get no answer, so mostly nobody waits for one."""
        if not self._gathered:
            return []
        gathered, self._gathered = self._gathered, {}
        pace, caller = self._connection.pace, self._connection.caller
        calls: list[Pending[None]] = []
        for (queue, how), ended in gathered.items():
            call = self._connection.service.call(self._operation(queue, how, ended), caller)
            calls.append(call)
            if pace.limits.active:
                count = len(ended.receipts)
                pace.charge(caller, rate_limits.SETTLE, queue, messages=count, requests=count)
            if how not in (SETTLE, DONE) and not call.done:
                self._returning += 1
                call.when_done(self._has_returned)
        return calls

    def _has_returned(self, call: Pending[None]) -> None:
        self._returning -= 1
        if not self._returning and self._all_returned is not None:
            self._all_returned.set_result(None)
            self._all_returned = None

    async def returned(self) -> None:
        """Done when everything that was given back or rejected so far is in its queue again, or has left it."""
        self.flush()
        if self._returning:
            if self._all_returned is None:
                self._all_returned = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_returned)

    async def ended(self) -> None:
        """Send what was gathered, and wait until it is durable."""
        for pending in self.flush():
            await pending

    def _operation(self, queue: str, how: int, ended: _Ended) -> EndHeld:
        return EndHeld(queue, self._connection.session_id, ended.receipts, how, list(ended.credits.items()))

    async def give_back(self, keys: list[int], held: list[Unacknowledged]) -> None:
        """End consumers, and return what the client holds; done when it is."""
        connection = self._connection
        self.flush()
        under_way = [
            connection.service.call(CancelConsumer(connection.session_id, key), connection.caller) for key in keys
        ]
        by_queue: dict[str, list[str]] = {}
        for one in held:
            by_queue.setdefault(one.queue, []).append(one.receipt)
        ends = [
            connection.service.call(EndHeld(queue, connection.session_id, receipts, REQUEUE, []), connection.caller)
            for queue, receipts in by_queue.items()
        ]
        for pending in (*ends, *under_way):
            try:
                await pending
            except LonghallError:
                continue  # The leader ends them with the session.
        await self.returned()

    async def delete_queues(self, names: list[str]) -> None:
        """Delete the exclusive queues of the connection."""
        for name in names:
            try:
                await self._connection.service.dispatch(DeleteQueue(name), self._connection.caller)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_QUEUE:
                    continue  # The leader deletes them with the session.
