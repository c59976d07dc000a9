"""Atomic steps of clients that end messages of several replication groups: settles with sends, and AMQP transactions.

A step is a transaction of the hall under a transactional id of its own. Its settles are those of a Kafka transaction
(`transaction_settles`); what the step writes in the hall, messages for the outbox included, is in the atomic write of
the outcome. What it writes to topics of other groups are batches of the transaction, appended there before the outcome.
A step whose coordinator dies is aborted by its timeout, and its messages are available again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

from longhall.broker.transaction_coordinator import OutcomeWrite, TransactionCoordinator
from longhall.errors import Code, LonghallError
from longhall.names import SETTLE_GROUP
from longhall.topics.decisions import Decision
from longhall.topics.effects import CommitRequest

STEP_ID: Final = "longhall.step."  # Followed by a number: the transactional ids of steps.
STEPS_MAX: Final = 256  # At the same time.
TIMEOUT_MS: Final = 20_000
ROW_RECEIPTS_MAX: Final = 500  # Receipts under one offset of a settle group.


class StepBatches(Protocol):
    """Batches of a step for topics of other groups; fulfilled by `TopicSend`."""

    async def append(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Append them as part of this transaction. LonghallError aborts the step."""


@final
class GroupSteps:
    """The steps of one hall, at its leader."""

    def __init__(self, transactor: TransactionCoordinator) -> None:
        self._transactor = transactor
        self._free: deque[str] = deque()
        self._made = 0

    async def commit(
        self, ends: Mapping[str, list[str]], write: OutcomeWrite, batches: Sequence[StepBatches] = ()
    ) -> bool:
        """End these messages, receipts by queue, together with `write` and the batches. False if all were ended before,
        and nothing is written. LonghallError if the step is refused, or if it is not known whether it was carried out.
        """
        name, taken = await self._begin()
        try:
            return await self._carry_out(name, taken, ends, write, batches)
        except BaseException:
            await self._end(name, taken, None)  # Refused if the outcome is decided.
            raise
        finally:
            self._free.append(name)

    async def _begin(self) -> tuple[str, Decision]:
        """Take a transactional id whose last outcome all groups have acknowledged."""
        for _ in range(len(self._free)):
            name = self._free.popleft()
            taken = await self._transactor.init(name, TIMEOUT_MS, -1, -1)
            if taken.code is None:
                return name, taken
            self._free.append(name)
            if taken.code is not Code.CONCURRENT_TRANSACTIONS:
                raise LonghallError(taken.code)
        if self._made >= STEPS_MAX:
            raise LonghallError(Code.OVERLOADED, f"{STEPS_MAX} steps over several replication groups are under way")
        self._made += 1
        name = f"{STEP_ID}{self._made}"
        taken = await self._transactor.init(name, TIMEOUT_MS, -1, -1)
        if taken.code is not None:
            self._free.append(name)
            raise LonghallError(Code.NOT_READY, "the step before this is not finished; try again")
        return name, taken

    async def _carry_out(
        self,
        name: str,
        taken: Decision,
        ends: Mapping[str, list[str]],
        write: OutcomeWrite,
        batches: Sequence[StepBatches],
    ) -> bool:
        codes: list[Code | None] = []
        for queue, receipts in ends.items():
            rows = tuple(
                (queue, at // ROW_RECEIPTS_MAX, 0, -1, " ".join(receipts[at : at + ROW_RECEIPTS_MAX]))
                for at in range(0, len(receipts), ROW_RECEIPTS_MAX)
            )
            request = CommitRequest(group_id=SETTLE_GROUP + queue, generation=-1, member_id="", offsets=rows)
            held = await self._transactor.hold_offsets(
                name, request, taken.producer_id, taken.producer_epoch, joins=True, rejects=True
            )
            codes += [held.code] if held.code is not None else [held.refused.get(row[:2]) for row in rows]
        if all(code is Code.NOT_IN_FLIGHT for code in codes):
            await self._end(name, taken, None)
            return False
        for code in codes:
            if code is not None:
                raise _refusal(code)
        for batch in batches:
            await batch.append(name, taken.producer_id, taken.producer_epoch)
        decision = await self._end(name, taken, write)
        if decision.code is not None:
            raise _refusal(decision.code)
        return True

    async def _end(self, name: str, taken: Decision, write: OutcomeWrite | None) -> Decision:
        """Commit together with `write`, or abort without one."""
        return await self._transactor.end(
            name, taken.producer_id, taken.producer_epoch, write is not None, False, write
        )


def _refusal(code: Code) -> LonghallError:
    if code in (Code.NOT_IN_FLIGHT, Code.RECEIPT_SUPERSEDED, Code.TRANSACTION_ABORTABLE):
        return LonghallError(Code.RECEIPT_SUPERSEDED, "Another consumer has one of the messages now.")
    if code in (Code.INVALID_RECEIPT, Code.RECEIPT_OF_OTHER_VERSION):
        return LonghallError(code, "A receipt is not one of this queue.")
    if code is Code.UNKNOWN_QUEUE:
        return LonghallError(code, "A queue of the step is gone.")
    return LonghallError(Code.NOT_READY, "a replication group of the messages does not answer; try again")
