"""Settle and send in one atomic write: a consumer's messages are settled together with what it writes back.

The messages go to any number of queues, through the outbox to those of other replication groups, and to topics of this
one. All of it happens, through every crash and failover, or nothing does: a refused receipt or message refuses
everything. A repeated request, whose messages are settled already, sends nothing and succeeds, so a client retries
until it has the reply.
"""

from __future__ import annotations

from typing import final

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.message_lookup import look_up_infos
from longhall.broker.queues.delivery.settle import write_settles
from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.planned_sends import PlannedSends, repeated
from longhall.broker.queues.write import check_here, together
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.events import Settled
from longhall.queues.messages import Accepted, WriteBack
from longhall.queues.receipts import Receipts


async def settle_with_sends(
    hall: Hall,
    stager: DelayStager,
    carrier: OutboxCarrier | None,
    queue: RunningQueue,
    receipts: list[str],
    sends: list[WriteBack],
    consumer: str,
) -> list[list[Accepted]]:
    """Settle these messages and send those, or raise and do nothing. The results are in the order of the sends."""
    step = _Step(hall, queue, receipts)
    if not step.decide():
        await committed(hall, queue.shard)  # The first reply was lost.
        return repeated(sends)
    planned = PlannedSends(hall, stager, sends, carrier)
    places = [
        place[:2]
        for receipt, place in zip(receipts, step.places, strict=True)
        if audits(queue) or Receipts.reports(receipt)
    ]
    infos = await look_up_infos(hall, queue, places)
    await planned.make_room()
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    check_here(queue)
    if not step.decide():
        raise LonghallError(Code.RECEIPT_SUPERSEDED, "The messages were settled meanwhile.")
    planned.plan()
    with together(hall):
        try:
            answers = planned.write()
            write_settles(hall, queue, step.events, infos, consumer)
        except LonghallError as error:
            hall.halt(error)  # A part is appended: recovery drops it.
            raise
    planned.finish()
    if len(queue.waiters):
        queue.waiters.offer(len(receipts))
    await planned.acknowledged()
    await committed(hall, queue.shard)
    return answers


@final
class _Step:
    """The settles of the atomic write, with the places of the messages."""

    def __init__(self, hall: Hall, queue: RunningQueue, receipts: list[str]) -> None:
        self._hall = hall
        self._queue = queue
        self._receipts = receipts
        self.events: list[Settled] = []
        self.places: list[tuple[int, int, int]] = []

    def decide(self) -> bool:
        """Decide the settles; False if all messages are settled already. Raises if one cannot be settled."""
        self.places = []
        for receipt in self._receipts:
            place = self._queue.receipts.verify(receipt)
            if isinstance(place, Code):
                raise LonghallError(place, "A receipt is not one of this queue.")
            self.places.append(place)
        self.events, codes = self._queue.queue.decide_settle(self._hall.time.now_ms(), self.places)
        if any(self._queue.queue.is_held(lane, offset) for lane, offset, _ in self.places):
            raise LonghallError(
                Code.NOT_READY, "A transaction that is being decided has one of the messages; try again."
            )
        for code in codes:
            if code is not None:
                raise LonghallError(code, "Another consumer has one of the messages now.")
        left = sum(len(event.offsets) for event in self.events)
        if left and left != len({place[:2] for place in self.places}):
            raise LonghallError(Code.RECEIPT_SUPERSEDED, "Some of the messages are settled already.")
        return left > 0
