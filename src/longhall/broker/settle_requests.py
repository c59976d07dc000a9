"""The requests of a transaction's coordinator to the groups that store the queues whose messages it settles.

    extend     once for each group; a group that is not reached refuses the receipts
    prepare    while the transaction is open, again until PREPARE_S_MAX is over
    end        until every group has carried out the outcome, whatever dies

Invariant: each request of a coordinator has a higher number than all before it, and a request to prepare is numbered
only while the transaction is open. So a group that has carried out the outcome refuses every earlier request.

Nothing here decides the outcome; `transaction_participant` is the other side.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.transaction_participant import (
    ABORT,
    COMMIT,
    EXTEND,
    PREPARE,
    SettleRequest,
    TransactionParticipant,
    incarnation_of,
)
from longhall.errors import Code, LonghallError
from longhall.topics.decisions import Markers

PREPARE_S_MAX: Final = 5.0  # How long a commit waits for groups that do not answer; then the client retries.
PAUSE_S_MIN: Final = 0.05  # Before a group is asked again,
PAUSE_S_MAX: Final = 2.0  # doubled each time up to this.

Part = tuple[str, int]  # A queue, and one of its groups.

_UNANSWERED: Final = frozenset({Code.NOT_LEADER, Code.NOT_READY, Code.TIMED_OUT, Code.OVERLOADED})

_log = logging.getLogger("longhall.transactions")


@final
class SettleRequests:
    """The requests of one coordinator."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._here = TransactionParticipant(hall)
        self._number = 0

    async def extend(self, queue: RunningQueue, receipts: Mapping[int, list[str]], lease_ms: int) -> Code | None:
        """Extend the leases of these receipts, by group, to `lease_ms` from now. Returns the first error, or None;
        NOT_IN_FLIGHT if all messages are settled already.
        """
        name = queue.entry.name
        codes = await asyncio.gather(
            *(self._ask(EXTEND, (name, group), -1, 0, some, lease_ms) for group, some in receipts.items())
        )
        found = next((code for code in codes if code is not None), None)
        if found is Code.NOT_LEADER:
            return Code.NOT_READY  # Of the group; the client would look for another coordinator.
        some = found is Code.NOT_IN_FLIGHT and any(code is not found for code in codes)
        return Code.RECEIPT_SUPERSEDED if some else found

    async def prepare(
        self, producer_id: int, parts: Mapping[Part, list[str]], is_open: Callable[[], bool]
    ) -> Code | None:
        """Have all groups hold the messages. TRANSACTION_ABORTABLE if the lease of one has ended;
        CONCURRENT_TRANSACTIONS if the client has to try again.
        """
        loop = asyncio.get_running_loop()
        ends_s, pause_s = loop.time() + PREPARE_S_MAX, PAUSE_S_MIN
        left = dict(parts)
        while left and is_open():
            epoch = self._epoch
            asked = list(left)
            codes = await asyncio.gather(
                *(self._ask(PREPARE, part, producer_id, epoch, left[part], timeout_s=PREPARE_S_MAX) for part in asked)
            )
            for part, code in zip(asked, codes, strict=True):
                if code is None:
                    del left[part]
                elif code not in _UNANSWERED and code is not Code.CONCURRENT_TRANSACTIONS:
                    return Code.TRANSACTION_ABORTABLE
            if not left or loop.time() + pause_s > ends_s:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return Code.CONCURRENT_TRANSACTIONS if left else None

    async def end(self, markers: Markers, names: Iterable[str]) -> bool:
        """Have all groups carry out the outcome. False if this process stops before that: its successor repeats it."""
        step, pause_s = COMMIT if markers.committed else ABORT, PAUSE_S_MIN
        queues, done = list(names), set[Part]()
        while left := self._parts_of(queues, done):
            epoch = self._epoch
            codes = await asyncio.gather(*(self._ask(step, part, markers.producer_id, epoch) for part in left))
            for part, code in zip(left, codes, strict=True):
                if code is None or code is Code.UNKNOWN_QUEUE:  # Deleted, and its messages with it.
                    done.add(part)
            if done.issuperset(left):
                continue
            if self._hall.background.is_closing:
                return False
            _log.info(
                "groups have not acknowledged the outcome of a transaction; it is sent again",
                extra={"transactional_id": markers.transactional_id, "queue": left[0][0], "group": left[0][1]},
            )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return True

    def _parts_of(self, names: list[str], done: set[Part]) -> list[Part]:
        """The queues and groups that do not know the outcome. A queue that has moved has its holds where it is now."""
        left: list[Part] = []
        for name in names:
            queue = self._hall.running_queue(name)
            if queue is not None:
                left += [(name, group) for group in queue.settings.wings or (self._hall.options.wing,)]
        return [part for part in left if part not in done]

    @property
    def _epoch(self) -> int:
        """The epoch of this coordinator. In a cluster all shards of the hall have the same one."""
        return max(shard.epoch for shard in self._hall.shards)

    async def _ask(
        self,
        step: str,
        part: Part,
        producer_id: int,
        epoch: int,
        receipts: list[str] | None = None,
        lease_ms: int = 0,
        timeout_s: float | None = None,
    ) -> Code | None:
        """Ask one group. The queue is looked up before each request, so that a deleted one ends the attempts."""
        name, group = part
        queue = self._hall.running_queue(name)
        if queue is None:
            return Code.UNKNOWN_QUEUE
        if self._hall.wings is None:
            return Code.NOT_READY
        self._number += 1
        request = SettleRequest(
            step=step,
            queue=name,
            incarnation=incarnation_of(queue),
            producer_id=producer_id,
            coordinator_epoch=epoch,
            number=self._number,
            receipts=receipts or [],
            lease_ms=lease_ms,
        )
        try:
            async with asyncio.timeout(timeout_s):
                if group == self._hall.options.wing:
                    code = await self._here.carry_out(request)  # The queue has moved to the hall.
                else:
                    code = await self._hall.wings.settle_in_group(group, request)
            reason = code.value if code is not None else ""
        except TimeoutError:
            code, reason = Code.TIMED_OUT, "no answer"
        except LonghallError as error:
            code, reason = error.code, str(error)
        if code is not None:
            _log.info("a group refused settles", extra={"group": group, "queue": name, "step": step, "reason": reason})
        return code
