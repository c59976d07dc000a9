"""A transaction of a client: what it publishes and what it is done with, in one atomic write.

    sends       appended to all their queues
    settles     the messages leave their queues
    rejects     the messages die: their dead letters are part of the write

Everything happens, through every crash and failover, or nothing does: a message that another consumer has by now, or a
full queue, refuses the transaction. What is given back is no part of it: that happens to every message that a client
has not ended, so a crash before it changes nothing.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.message_lookup import Place, look_up_infos, look_up_record
from longhall.broker.queues.delivery.settle import change_leases, write_settles
from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.planned_sends import PlannedSends
from longhall.broker.queues.write import check_here, together
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import MessageInfo
from longhall.queues.events import Settled
from longhall.queues.messages import Accepted, WriteBack
from longhall.queues.outcomes import REJECTED, Candidate, Death
from longhall.queues.receipts import Receipts
from longhall.records.record import Record

# How a client ends what it holds.
SETTLE: Final = 0
REQUEUE: Final = 1
REJECT: Final = 2
UNSEEN: Final = 3  # Given back before the client has seen it.
DONE: Final = 4  # Ended by a transaction already: only credit is given.


class EndedMessages(msgspec.Struct, array_like=True):
    """Messages of one queue that a client ends in the same way: SETTLE, REQUEUE or REJECT."""

    queue: str
    receipts: list[str]
    how: int


async def commit_transaction(
    hall: Hall,
    stager: DelayStager,
    sends: list[WriteBack],
    ends: list[EndedMessages],
    consumer: str,
    carrier: OutboxCarrier | None = None,
) -> None:
    """Carry out all of it, or raise LonghallError and do nothing. The ends are those of queues of this hall."""
    planned = PlannedTransaction(hall, PlannedSends(hall, stager, sends, carrier), ends, consumer)
    await planned.make_ready()
    planned.decide()
    with together(hall):
        planned.write()
    await planned.finish()


@final
class PlannedTransaction:
    """A transaction between its request and its atomic write. Fulfils `OutcomeWrite`."""

    def __init__(self, hall: Hall, sends: PlannedSends, ends: list[EndedMessages], consumer: str) -> None:
        self.answers: list[list[Accepted]] = []
        self._hall = hall
        self._sends = sends
        self._ends = ends
        self._consumer = consumer
        self._steps = [
            _End(hall, queue, one.receipts, one.how)
            for one in ends
            if one.how != REQUEUE and (queue := hall.running_queue(one.queue)) is not None
        ]

    async def make_ready(self) -> None:
        """Read what the write needs, and wait for room."""
        for step in self._steps:
            await step.look_up()
        await self._sends.make_room()

    def decide(self) -> None:
        """From here on nothing may be refused, and nothing may await."""
        for step in self._steps:
            step.decide()
        self._sends.plan()

    def write(self) -> None:
        """Inside the atomic write."""
        try:
            self.answers = self._sends.write()
            for step in self._steps:
                step.write(self._consumer)
        except LonghallError as error:
            self._hall.halt(error)  # A part is appended: recovery drops it.
            raise

    async def finish(self) -> None:
        """After the write: wake receivers, wait until it may be acknowledged, and give back what was returned."""
        hall = self._hall
        self._sends.finish()
        for step in self._steps:
            step.finish()
        await self._sends.acknowledged()
        for step in self._steps:
            await committed(hall, step.queue.shard)
        for one in self._ends:
            queue = hall.running_queue(one.queue)
            if one.how == REQUEUE and queue is not None:
                await change_leases(hall, queue, [(receipt, 0) for receipt in one.receipts], self._consumer)


@final
class _End:
    """Settles or rejects of one queue."""

    def __init__(self, hall: Hall, queue: RunningQueue, receipts: list[str], how: int) -> None:
        self.queue = queue
        self._hall = hall
        self._receipts = receipts
        self._how = how
        self._places: list[tuple[int, int, int]] = []
        for receipt in receipts:
            place = queue.receipts.verify(receipt)
            if isinstance(place, Code):
                raise LonghallError(place, "A receipt is not one of this queue.")
            self._places.append(place)
        self._infos: dict[Place, MessageInfo] = {}
        self._records: dict[Place, Record | None] = {}
        self._settled: list[Settled] = []
        self._deaths: list[Death] = []

    async def look_up(self) -> None:
        """Read what the write needs of the messages."""
        if self._how == REJECT:
            for lane, offset, _ in self._places:
                if lane in self.queue.lanes:
                    self._records[lane, offset] = await look_up_record(self._hall, self.queue, lane, offset)
            return
        reported = [
            place[:2]
            for receipt, place in zip(self._receipts, self._places, strict=True)
            if audits(self.queue) or Receipts.reports(receipt)
        ]
        self._infos = dict(await look_up_infos(self._hall, self.queue, reported))

    def decide(self) -> None:
        """Raises RECEIPT_SUPERSEDED if the client does not hold one of the messages any more, and QUEUE_MOVED."""
        if self.queue.removed:
            return
        check_here(self.queue)
        if self._how == REJECT:
            self._deaths = [self._death(place) for place in self._places]
            return
        self._settled, codes = self.queue.queue.decide_settle(self._hall.time.now_ms(), self._places)
        held = sum(len(event.offsets) for event in self._settled)
        if any(code is not None for code in codes) or held != len({place[:2] for place in self._places}):
            raise _superseded()

    def _death(self, place: tuple[int, int, int]) -> Death:
        lane, offset, number = place
        lease = self.queue.queue.lease_of(lane, offset) if lane in self.queue.lanes else None
        if lease is None or lease[0] != number:
            raise _superseded()
        record = self._records.get((lane, offset))
        size_bytes = len(record.value or b"") if record is not None else 0
        candidate = Candidate(offset, offset + 1, size_bytes, "", -1, record)
        return Death(lane, offset, REJECTED, lease[2], lease[3], candidate)

    def write(self, consumer: str) -> None:
        """Inside the atomic write."""
        if self._deaths:
            dead_letter(self._hall, self.queue, self._deaths)
        if self._settled:
            self.queue.on_settled(self._settled)
            write_settles(self._hall, self.queue, self._settled, self._infos, consumer)

    def finish(self) -> None:
        """After the write: receivers that wait for what these messages held back."""
        if len(self.queue.waiters):
            self.queue.waiters.offer(len(self._places))


def _superseded() -> LonghallError:
    return LonghallError(Code.RECEIPT_SUPERSEDED, "a message of the transaction was delivered again meanwhile")
