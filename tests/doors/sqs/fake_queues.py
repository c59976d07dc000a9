"""The queue service in memory, for tests of the door alone: enough that clients find the messages that they sent."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar, cast

from longhall.broker.pending import Pending, completed, started
from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, Delivery, Depth, MoveTask, Outgoing, QueueView
from longhall.queues.receipts import CURRENT
from longhall.queues.settings import QueueSettings
from longhall.service.local import LocalBroker
from longhall.service.router import Router

NOW_MS: Final = 1_700_000_000_000

# The method `list` hides the type of that name inside the class.
Views = list[QueueView]
Accepteds = list[Accepted]
Deliveries = list[Delivery]
Names = list[str]
Codes = list[Code | None]
Tasks = list[MoveTask]

R = TypeVar("R")


class FakeQueue:
    def __init__(self, view: QueueView) -> None:
        self.view = view
        self.waiting: list[Delivery] = []
        self.in_flight: dict[str, Delivery] = {}
        self.settled: set[str] = set()
        self.superseded: set[str] = set()
        self.sent: list[Outgoing] = []
        self.deduplicated: dict[str, Accepted] = {}
        self.changed: list[tuple[str, int]] = []
        self.received: list[tuple[int, int, int, str]] = []
        self.purged = False


def _committed_soon(reply: R) -> Pending[R]:
    pending: Pending[R] = Pending()
    pending.decide(reply)
    asyncio.get_running_loop().call_soon(pending.committed, 0)
    return pending


class FakeQueues:
    """See the module. `refusal` is raised by the next verb that may refuse, once."""

    def __init__(self) -> None:
        self.queues: dict[str, FakeQueue] = {}
        self.tasks: dict[str, MoveTask] = {}
        self.deleted: set[str] = set()
        self.refusal: Exception | None = None
        self.refusals_of_sends: list[Code | None] = []
        self.cancelled = 0
        self.held_ms = 0  # How long all leases have lasted.
        self.pollers = 0
        self._number = 0
        self._arrived = asyncio.Event()

    @property
    def service(self) -> Router:
        """The service of a lone node that has these queues."""
        queues = cast(QueueService, self)
        return Router(LocalBroker(queues), queues)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _of(self, name: str) -> FakeQueue:
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        if name not in self.queues:
            raise LonghallError(Code.UNKNOWN_QUEUE)
        return self.queues[name]

    async def create(self, name: str, settings: QueueSettings, deleted_before_ms: int = 0) -> QueueView:
        if name not in self.queues and name in self.deleted and deleted_before_ms:
            raise LonghallError(Code.QUEUE_DELETED_RECENTLY)
        if name in self.queues:
            raise LonghallError(Code.QUEUE_EXISTS)
        view = QueueView(
            name=name, queue_id=str(self._next()), settings=settings, created_ms=NOW_MS, modified_ms=NOW_MS
        )
        self.queues[name] = FakeQueue(view)
        return view

    async def delete(self, name: str) -> None:
        self._of(name)
        del self.queues[name]
        self.deleted.add(name)

    @property
    def is_whole(self) -> bool:
        return True

    def view(self, name: str) -> QueueView | None:
        found = self.queues.get(name)
        return None if found is None else found.view

    def describe(self, name: str) -> Pending[QueueView]:
        return completed(self._of(name).view)

    def names(self, prefix: str) -> Names:
        return [name for name in self.queues if name.startswith(prefix)]

    async def configure(self, name: str, settings: QueueSettings) -> None:
        queue = self._of(name)
        queue.view = QueueView(
            name=name, queue_id=queue.view.queue_id, settings=settings, created_ms=NOW_MS, modified_ms=NOW_MS + 5_000
        )

    def send(self, name: str, messages: list[Outgoing]) -> Pending[Accepteds]:
        return _committed_soon(self._send(name, messages))

    def _send(self, name: str, messages: list[Outgoing]) -> Accepteds:
        queue = self._of(name)
        out: Accepteds = []
        for message in messages:
            code = self.refusals_of_sends.pop(0) if self.refusals_of_sends else None
            if code is not None:
                out.append(Accepted(code=code))
                continue
            if message.deduplication_id in queue.deduplicated:
                out.append(queue.deduplicated[message.deduplication_id])
                continue
            number = self._next()
            accepted = Accepted(message_id=f"{number:032x}", sequence=number)
            if message.deduplication_id:
                queue.deduplicated[message.deduplication_id] = accepted
            queue.sent.append(message)
            queue.waiting.append(
                Delivery(
                    message_id=accepted.message_id,
                    receipt="",
                    body=message.body,
                    attributes=message.attributes,
                    system=message.system,
                    group=message.group,
                    deduplication_id=message.deduplication_id,
                    sequence=number if queue.view.settings.fifo else -1,
                    sent_ms=NOW_MS,
                    first_received_ms=NOW_MS + 1,
                    attempts=0,
                )
            )
            out.append(accepted)
        self._arrived.set()
        return out

    def receive(
        self,
        name: str,
        count_max: int,
        wait_ms: int = -1,
        lease_ms: int = -1,
        attempt_id: str = "",
        filter: str = "",
        consumer: str = "",
        in_parts: bool = True,
    ) -> Pending[Deliveries]:
        return started(self._receive(name, count_max, wait_ms, lease_ms, attempt_id))

    async def _receive(self, name: str, count_max: int, wait_ms: int, lease_ms: int, attempt_id: str) -> Deliveries:
        queue = self._of(name)
        wait_ms = wait_ms if wait_ms >= 0 else queue.view.settings.wait_ms
        lease_ms = lease_ms if lease_ms >= 0 else queue.view.settings.lease_ms
        queue.received.append((count_max, wait_ms, lease_ms, attempt_id))
        if not queue.waiting and wait_ms:
            await self._wait(wait_ms)
        return self._give(queue, name, count_max)

    def _give(self, queue: FakeQueue, name: str, count_max: int) -> Deliveries:
        given = queue.waiting[:count_max]
        del queue.waiting[:count_max]
        for delivery in given:
            delivery.attempts += 1
            delivery.receipt = f"{name}/{self._next()}"
            queue.in_flight[delivery.receipt] = delivery
        return given

    async def _wait(self, wait_ms: int) -> None:
        self._arrived.clear()
        self.pollers += 1
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.pollers -= 1

    def settle(self, name: str, receipts: Names, consumer: str = "", accepts: str = CURRENT) -> Pending[Codes]:
        queue = self._of(name)
        return _committed_soon([self._settle(queue, receipt, accepts) for receipt in receipts])

    def _settle(self, queue: FakeQueue, receipt: str, accepts: str) -> Code | None:
        if receipt in queue.superseded:
            return Code.RECEIPT_SUPERSEDED
        if queue.in_flight.pop(receipt, None) is not None:
            queue.settled.add(receipt)
            return None
        return Code.NOT_IN_FLIGHT if receipt in queue.settled else Code.INVALID_RECEIPT

    async def answer(self, name: str, receipt: str, message: Outgoing, consumer: str = "") -> Accepted:
        queue = self._of(name)
        delivery = queue.in_flight[receipt]
        (accepted,) = await self.send(delivery.reply_to, [message])
        self._settle(queue, receipt, CURRENT)
        return accepted

    async def change_lease(
        self,
        name: str,
        changes: list[tuple[str, int]],
        consumer: str = "",
        accepts: str = CURRENT,
        lease_ms_max: int = 0,
    ) -> Codes:
        queue = self._of(name)
        out: Codes = []
        for receipt, lease_ms in changes:
            if receipt in queue.superseded:
                out.append(Code.RECEIPT_SUPERSEDED)
            elif lease_ms + self.held_ms > lease_ms_max:
                out.append(Code.INVALID_REQUEST)
            elif receipt in queue.in_flight:
                queue.changed.append((receipt, lease_ms))
                if not lease_ms:
                    queue.waiting.append(queue.in_flight.pop(receipt))
                    queue.settled.add(receipt)
                out.append(None)
            else:
                out.append(Code.NOT_IN_FLIGHT if receipt in queue.settled else Code.INVALID_RECEIPT)
        return out

    async def purge(self, name: str, apart_ms: int = 60_000) -> None:
        queue = self._of(name)
        if queue.purged:
            raise LonghallError(Code.PURGE_RUNNING)
        queue.purged = True
        queue.waiting.clear()

    def depth(self, name: str) -> Depth:
        queue = self._of(name)
        return Depth(available=len(queue.waiting), in_flight=len(queue.in_flight), delayed=3)

    def sources(self, name: str) -> Names:
        return [
            other
            for other, queue in self.queues.items()
            if queue.view.settings.dead_letters is not None and queue.view.settings.dead_letters.queue == name
        ]

    async def start_move(
        self, source: str, target: str, rate_max: int, ids: Names | None = None, filter: str = ""
    ) -> MoveTask:
        if any(task.source == source and task.state == "RUNNING" for task in self.tasks.values()):
            raise LonghallError(Code.MOVE_RUNNING)
        number = self._next()
        task = MoveTask(
            task_id=f"task-{number}", source=source, target=target, rate_max=rate_max, to_move=7,
            started_ms=NOW_MS + number,
        )  # fmt: skip
        self.tasks[task.task_id] = task
        return task

    async def cancel_move(self, task_id: str, queue: str = "") -> MoveTask:
        if task_id not in self.tasks:
            raise LonghallError(Code.MOVE_UNKNOWN)
        task = self.tasks[task_id]
        task.state = "CANCELLED"
        task.moved = 2
        return task

    def moves(self, source: str) -> Tasks:
        return [task for task in self.tasks.values() if task.source == source]
