"""The transaction coordinator: several partitions and the offsets of groups change together, or not at all.

    init           the earlier producer of the transactional id is fenced, and its open transaction aborted
    add            partitions and groups become part of the open transaction
    settle         messages of queues are settled by the commit, in the write of the outcome: `transaction_settles`
    end            other replication groups hold the messages of their queues that a commit settles; the outcome is
                   committed (prepared); then every partition gets a marker, and every group the outcome; then the
                   transaction is complete
    time out       the coordinator aborts the transaction and fences the producer

A prepared outcome cannot change: after a crash the markers are written again. A request that meets an unfinished
outcome waits a moment for it here, instead of an error that makes the client retry. Partitions may be in other
replication groups, with leaders of their own: `transaction_markers` reaches them, and while one has no leader the
transaction stays prepared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Protocol, final

from longhall.broker.deadline_timer import DeadlineTimer
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall, HallObserver
from longhall.broker.producer_ids import take_producer_id
from longhall.broker.queues.write import together
from longhall.broker.transaction_markers import MarkerWriter, PartitionMarkers, append_marker
from longhall.broker.transaction_settles import Infos, TransactionSettles, settles
from longhall.broker.waiting import committed
from longhall.errors import Code
from longhall.shards.shard import TRANSACTIONS, Shard
from longhall.topics.decisions import Decision, EndRequest, InitRequest, Markers, TransactionDescription
from longhall.topics.effects import CommitRequest, CommitResult
from longhall.topics.events import TransactionEvent, TransactionPrepared

TRIES_MAX: Final = 3  # How often a request waits for an outcome before the client must retry,
OUTCOME_S_MAX: Final = 2.0  # and how long each time: a group that should get a marker may have no leader.
STOP_S_MAX: Final = 2.0  # How long a node that stops waits for prepared outcomes.


class OutcomeWrite(Protocol):
    """The writes that are atomic with a committed outcome, beside the settles."""

    def decide(self) -> None:
        """Check that it can be written. LonghallError if not. Nothing comes between this and `write`."""

    def write(self) -> None:
        """Append it, inside the atomic write."""


@final
class TransactionCoordinator(HallObserver):
    """All transaction operations of one hall. `_finishing` has the task of each prepared outcome."""

    def __init__(self, hall: Hall, coordinator: GroupCoordinator) -> None:
        self._hall = hall
        self._coordinator = coordinator
        self._timer = DeadlineTimer(hall.time, self._tick)
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._settles = TransactionSettles(hall)
        self._markers = MarkerWriter(hall)
        # By transactional id, while a commit is being decided: for its settles, and what else is in its write.
        self._infos: dict[str, Infos] = {}
        self._writes: dict[str, OutcomeWrite] = {}
        hall.observers.append(self)

    def transaction_changed(self) -> None:
        self.arm()

    def start(self) -> None:
        """Write the markers that a crash left out, and start the timer."""
        for transactions in self._hall.transactions:
            for markers in transactions.unfinished():
                self._finish_soon(markers.transactional_id)
        self.arm()

    async def stop(self) -> None:
        """Stop the timer and wait a moment for prepared outcomes; the next start finishes the others."""
        self._timer.cancel()
        finishing = list(self._finishing.values())
        if finishing:
            _, late = await asyncio.wait(finishing, timeout=STOP_S_MAX)
            for task in late:
                task.cancel()
            await asyncio.gather(*finishing, return_exceptions=True)

    # Requests

    async def init(
        self, transactional_id: str, timeout_ms: int, expected_producer_id: int, expected_producer_epoch: int
    ) -> Decision:
        """InitProducerId with a transactional id."""

        async def decide() -> Decision:
            request = InitRequest(
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                fresh_producer_id=await take_producer_id(self._hall),
                expected_producer_id=expected_producer_id,
                expected_producer_epoch=expected_producer_epoch,
            )
            transactions = self._hall.transactions_of(transactional_id)
            return transactions.decide_init(request, self._hall.time.now_ms())

        return await self._decide(transactional_id, decide)

    async def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[tuple[str, int]] = (),
        groups: Iterable[str] = (),
    ) -> Decision:
        """Add partitions or groups to the transaction."""
        partitions, groups = list(partitions), list(groups)

        async def decide() -> Decision:
            transactions = self._hall.transactions_of(transactional_id)
            now_ms = self._hall.time.now_ms()
            return transactions.decide_add(transactional_id, producer_id, producer_epoch, now_ms, partitions, groups)

        return await self._decide(transactional_id, decide)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], Code | None]:
        """For each partition None, or the error if it is not part of the transaction."""
        transactions = self._hall.transactions_of(transactional_id)
        return {
            (topic, number): transactions.verify_partition(transactional_id, producer_id, producer_epoch, topic, number)
            for topic, number in partitions
        }

    async def confirm_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: tuple[str, int], *, joins: bool
    ) -> Code | None:
        """None if a partition that another group stores is part of the transaction, and that is committed; with
        `joins` it is added first.
        """
        if joins:
            return (await self.add(transactional_id, producer_id, producer_epoch, [place])).code
        code = self.verify(transactional_id, producer_id, producer_epoch, [place])[place]
        await committed(self._hall, self._hall.shard_of(transactional_id))
        return code

    async def hold_offsets(
        self,
        transactional_id: str,
        request: CommitRequest,
        producer_id: int,
        producer_epoch: int,
        joins: bool,
        rejects: bool = False,
    ) -> CommitResult:
        """Store offsets that count on commit; with `joins` the group is added to the transaction first. With `rejects`
        receipts may be marked as those of messages that the commit rejects.
        """
        if joins:
            decision = await self.add(transactional_id, producer_id, producer_epoch, groups=[request.group_id])
            if decision.code is not None:
                return CommitResult(code=decision.code)
        transactions = self._hall.transactions_of(transactional_id)
        refused: dict[tuple[str, int], Code] = {}
        if settles(request.group_id):
            refused = await self._settles.extend_elsewhere(request, transactions.ends_ms(transactional_id), rejects)
        # Checked after the waits above: nothing may happen between this check and the offsets.
        code = transactions.verify_group(transactional_id, producer_id, producer_epoch, request.group_id)
        if code is not None:
            return CommitResult(code=code)
        if not settles(request.group_id):
            return await self._coordinator.hold_offsets(request, producer_id, producer_epoch)
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return CommitResult(code=Code.NOT_READY)
        ends_ms = transactions.ends_ms(transactional_id)
        refused = self._settles.hold(request, producer_id, producer_epoch, ends_ms, refused)
        await committed(self._hall, self._hall.shard_of(request.group_id))
        return CommitResult(refused=refused)

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        raises_epoch: bool,
        write: OutcomeWrite | None = None,
    ) -> Decision:
        """Commit or abort; returns when the outcome is decided, and mostly when readers can see it: with groups that
        are not reached in OUTCOME_S_MAX they see it later. A commit settles what the transaction settles, and has
        `write` in its atomic write; raises LonghallError, undecided, if that refuses.
        """
        transactions = self._hall.transactions_of(transactional_id)
        groups = [group for group in transactions.groups_of(transactional_id) if settles(group)]

        async def decide() -> Decision:
            request = EndRequest(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=commit,
                raises_epoch=raises_epoch,
                fresh_producer_id=await take_producer_id(self._hall) if raises_epoch else -1,
            )
            decision = transactions.decide_end(request, self._hall.time.now_ms())
            if not commit or not groups or not decision.events:
                return decision
            code, prepared = await self._settles.prepare(groups, producer_id, is_open)
            code = code or self._settles.check(groups, producer_id, prepared)
            if code is not None:
                return Decision(code=code)
            if write is not None:
                write.decide()
            return transactions.decide_end(request, self._hall.time.now_ms())

        def is_open() -> bool:
            return transactions.verify_group(transactional_id, producer_id, producer_epoch, groups[0]) is None

        if groups and commit:
            self._infos[transactional_id] = await self._settles.look_up(groups, producer_id)
        if write is not None:
            self._writes[transactional_id] = write
        try:
            decision = await self._decide(transactional_id, decide)
        finally:
            self._infos.pop(transactional_id, None)
            self._writes.pop(transactional_id, None)
        if decision.code is None:
            await self._until_finished(transactional_id)
        return decision

    async def abort(self, transactional_id: str) -> Decision:
        """Abort a hanging transaction for an administrator."""

        async def decide() -> Decision:
            transactions = self._hall.transactions_of(transactional_id)
            return transactions.decide_force_abort(transactional_id, self._hall.time.now_ms())

        return await self._decide(transactional_id, decide)

    async def mark_partition(
        self, topic: str, number: int, producer_id: int, producer_epoch: int, coordinator_epoch: int, commit: bool
    ) -> Code | None:
        """Write one marker for an administrator, when a transaction hangs without a coordinator."""
        partition = self._hall.partition(topic, number)
        if partition is None:
            return Code.UNKNOWN_TOPIC
        request = PartitionMarkers(producer_id, producer_epoch, coordinator_epoch, -1, commit, [])
        code = append_marker(self._hall, partition, request)
        if code is None:
            await committed(self._hall, partition.shard)
        return code

    def list_transactions(
        self, states: Iterable[str], producer_ids: Iterable[int], duration_min_ms: int
    ) -> list[TransactionDescription]:
        """The transactions of all shards that match."""
        states, producer_ids = list(states), list(producer_ids)
        now_ms = self._hall.time.now_ms()
        return [
            row
            for transactions in self._hall.transactions
            for row in transactions.list_transactions(now_ms, states, producer_ids, duration_min_ms)
        ]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription | None:
        """One transaction."""
        return self._hall.transactions_of(transactional_id).describe_transaction(transactional_id)

    # Writing and finishing

    async def _decide(self, transactional_id: str, decide: Callable[[], Awaitable[Decision]]) -> Decision:
        """Decide, write, and wait for the commit; on CONCURRENT_TRANSACTIONS wait for the outcome and retry."""
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return Decision(code=Code.NOT_READY)
        decision = await decide()
        for _ in range(TRIES_MAX):
            self._write(transactional_id, decision.events)
            if decision.code is not Code.CONCURRENT_TRANSACTIONS or not await self._until_finished(transactional_id):
                break
            decision = await decide()
        else:
            self._write(transactional_id, decision.events)
        await committed(self._hall, self._hall.shard_of(transactional_id))
        return decision

    async def _until_finished(self, transactional_id: str) -> bool:
        """Wait a while for a prepared outcome to be finished. False if there is none, or it takes longer."""
        finishing = self._finishing.get(transactional_id)
        if finishing is None:
            return False
        done, _ = await asyncio.wait((finishing,), timeout=OUTCOME_S_MAX)
        return bool(done)

    def _write(self, transactional_id: str, events: Iterable[TransactionEvent]) -> None:
        shard = self._hall.shard_of(transactional_id)
        for event in events:
            if isinstance(event, TransactionPrepared) and event.committed:
                with together(self._hall):
                    self._append(shard, event)
                    groups = self._hall.transactions_of(transactional_id).groups_of(transactional_id)
                    self._settles.write(groups, event.producer_id, self._infos.get(transactional_id, {}))
                    if transactional_id in self._writes:
                        self._writes[transactional_id].write()
            else:
                self._append(shard, event)
            if isinstance(event, TransactionPrepared):
                self._finish_soon(transactional_id)
        self.arm()

    def _append(self, shard: Shard, event: TransactionEvent) -> None:
        transactions = self._hall.transactions_of(event.transactional_id)
        self._hall.write_event(shard, TRANSACTIONS, event, transactions.apply)

    def _finish_soon(self, transactional_id: str) -> None:
        before = self._finishing.get(transactional_id)
        task = self._hall.background.start("finish transactions", partial(self._finish, transactional_id, before))
        self._finishing[transactional_id] = task

    async def _finish(self, transactional_id: str, before: asyncio.Task[None] | None) -> None:
        """Finish a prepared outcome: after its commit write the markers, and after theirs complete the transaction."""
        if before is not None:
            await before
        transactions = self._hall.transactions_of(transactional_id)
        await committed(self._hall, self._hall.shard_of(transactional_id))
        markers = transactions.markers_of(transactional_id)
        if markers is not None and await self._carry_out(markers):
            written = transactions.decide_markers_written(markers, self._hall.time.now_ms())
            self._write(transactional_id, written.events)
        if self._finishing.get(transactional_id) is asyncio.current_task():
            del self._finishing[transactional_id]

    async def _carry_out(self, markers: Markers) -> bool:
        """Write the outcome to partitions, offsets and queues, whichever group stores them. False if this process stops
        before that. Receipts stay until the groups that issued them know the outcome.
        """
        receipts = [group_id for group_id in markers.groups if settles(group_id)]
        shards = self._end_in_groups(markers, [group_id for group_id in markers.groups if not settles(group_id)])
        done = await asyncio.gather(self._markers.write(markers), self._settles.end_elsewhere(markers))
        if not all(done):
            return False
        for shard in [*shards, *self._end_in_groups(markers, receipts)]:
            await committed(self._hall, shard)
        return True

    def _end_in_groups(self, markers: Markers, groups: Iterable[str]) -> list[Shard]:
        """Write the outcome to these consumer groups; returns the shards to wait for."""
        shards: dict[int, Shard] = {}
        for group_id in groups:
            keeps = markers.committed and not settles(group_id)  # Settles were written with the outcome.
            shard = self._coordinator.end_transaction(group_id, markers.producer_id, keeps)
            shards[shard.number] = shard
        return list(shards.values())

    # Time

    def arm(self) -> None:
        """Set the timer to the next transaction timeout."""
        self._timer.arm(transactions.next_deadline_ms() for transactions in self._hall.transactions)

    def _tick(self) -> None:
        now_ms = self._hall.time.now_ms()
        for transactions in self._hall.transactions:
            for event in transactions.tick(now_ms):
                self._write(event.transactional_id, [event])
        self.arm()
