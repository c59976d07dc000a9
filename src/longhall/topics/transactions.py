"""The transaction coordinator of one shard.

`decide_*` reads and returns a `Decision`: events to append and apply, and the answer that is released when they are
committed. `apply` alone mutates. When a TransactionPrepared is committed, the broker writes the markers of `markers_of`
to every partition and group and then calls `decide_markers_written`; after a restart it does so for all of
`unfinished`. The coordinator knows neither partitions nor offsets nor how a marker is written.

Exactly one outcome: a prepared transaction never gets another one. No zombies: only the current producer id and epoch
may add to or end a transaction; a producer that repeats the request that raised its epoch gets the answer again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import msgspec

from longhall.errors import Code
from longhall.topics.decisions import (
    Decision,
    EndRequest,
    InitRequest,
    Markers,
    TransactionDescription,
    described,
    markers_of,
)
from longhall.topics.epochs import abort, check, ended, expects, given, is_repeated, raised, repeated
from longhall.topics.events import (
    TransactionalIdExpired,
    TransactionalIdSet,
    TransactionCompleted,
    TransactionEvent,
    TransactionPartitionsAdded,
    TransactionPrepared,
)
from longhall.topics.settings import TransactionSettings
from longhall.topics.timers import Timers
from longhall.topics.transaction import COMPLETED, PREPARED, State, Transaction


@final
class Transactions:
    """All transactional ids of the shard."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self._settings = settings or TransactionSettings()
        self._timers = Timers()
        self._transactions: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    # Taking an id

    def decide_init(self, request: InitRequest, now_ms: int) -> Decision:
        """A producer takes the transactional id; the previous one is fenced."""
        if not request.transactional_id:
            return Decision(code=Code.INVALID_REQUEST)
        if not 0 < request.timeout_ms <= self._settings.timeout_max_ms:
            return Decision(code=Code.INVALID_TRANSACTION_TIMEOUT)
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            if len(self._transactions) >= self._settings.transactional_ids_max:
                return Decision(code=Code.OVERLOADED)
            return given(request, request.fresh_producer_id, 0, now_ms, took_fresh_id=True)
        if not expects(transaction, request):
            return Decision(code=Code.PRODUCER_FENCED)
        if transaction.state in PREPARED:
            return Decision(code=Code.CONCURRENT_TRANSACTIONS)
        if transaction.state is State.ONGOING:
            # It is aborted first; the client repeats its request and finds a raised epoch that no producer has.
            event = abort(transaction, now_ms, recoverable=request.expected_producer_id >= 0)
            return Decision(events=(event,), code=Code.CONCURRENT_TRANSACTIONS)
        return raised(transaction, request, now_ms)

    # Adding

    def decide_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        partitions: Iterable[tuple[str, int]] = (),
        groups: Iterable[str] = (),
    ) -> Decision:
        """AddPartitionsToTxn and AddOffsetsToTxn, and the implicit additions by Produce and TxnOffsetCommit of newer
        clients.
        """
        if not transactional_id:
            return Decision(code=Code.INVALID_REQUEST)
        transaction = self._transactions.get(transactional_id)
        code = check(transaction, producer_id, producer_epoch)
        if transaction is None or code is not None:
            return Decision(code=code)
        new_partitions = tuple(partition for partition in partitions if partition not in transaction.partitions)
        new_groups = tuple(group for group in groups if group not in transaction.groups)
        answer = Decision(producer_id=producer_id, producer_epoch=producer_epoch)
        if transaction.state is State.ONGOING and not new_partitions and not new_groups:
            return answer
        count = len(transaction.partitions) + len(transaction.groups) + len(new_partitions) + len(new_groups)
        if count > self._settings.partitions_max:
            return Decision(code=Code.OVERLOADED)
        event = TransactionPartitionsAdded(
            transactional_id=transactional_id, partitions=new_partitions, groups=new_groups, at_ms=now_ms
        )
        return msgspec.structs.replace(answer, events=(event,))

    def verify_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> Code | None:
        """None if a batch of this producer belongs to its open transaction (KIP-890); else the error."""
        transaction = self._transactions.get(transactional_id)
        code = check(transaction, producer_id, producer_epoch)
        if transaction is None or code is not None:
            return code
        return None if (topic, partition) in transaction.partitions else Code.TRANSACTION_ABORTABLE

    def verify_group(self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str) -> Code | None:
        """None if offsets of this group belong to the producer's open transaction; else the error."""
        transaction = self._transactions.get(transactional_id)
        code = check(transaction, producer_id, producer_epoch)
        if transaction is None or code is not None:
            return code
        return None if group_id in transaction.groups else Code.TRANSACTION_ABORTABLE

    def groups_of(self, transactional_id: str) -> list[str]:
        """The groups of the open or prepared transaction."""
        transaction = self._transactions.get(transactional_id)
        return [] if transaction is None else list(transaction.groups)

    def ends_ms(self, transactional_id: str) -> int:
        """When the open transaction times out; 0 without one."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.started_ms < 0:
            return 0
        return transaction.started_ms + transaction.timeout_ms

    # Ending

    def decide_end(self, request: EndRequest, now_ms: int) -> Decision:
        """Commit or abort. A repeated request is recognised and gets the same answer."""
        if not request.transactional_id:
            return Decision(code=Code.INVALID_REQUEST)
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            return Decision(code=Code.INVALID_PRODUCER_MAPPING)
        if is_repeated(transaction, request):
            return repeated(transaction, request)
        if transaction.producer_id != request.producer_id:
            return Decision(code=Code.INVALID_PRODUCER_MAPPING)
        if transaction.producer_epoch != request.producer_epoch:
            return Decision(code=Code.PRODUCER_FENCED)
        if transaction.state is State.ONGOING:
            return ended(transaction, request, now_ms)
        if request.raises_epoch and not request.committed and transaction.state not in PREPARED:
            return ended(transaction, request, now_ms)  # Nothing was added; the raised epoch fences late batches.
        return Decision(code=Code.INVALID_TRANSACTION_STATE)

    def decide_force_abort(self, transactional_id: str, now_ms: int) -> Decision:
        """Abort a hanging transaction for an administrator; its producer is fenced."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return Decision(code=Code.TRANSACTION_UNKNOWN)
        if transaction.state is not State.ONGOING:
            return Decision(code=Code.INVALID_TRANSACTION_STATE)
        return Decision(events=(abort(transaction, now_ms),))

    def markers_of(self, transactional_id: str) -> Markers | None:
        """The markers to write for a prepared transaction; None if there is none."""
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else markers_of(transaction)

    def decide_markers_written(self, markers: Markers, now_ms: int) -> Decision:
        """Complete a transaction whose markers are all committed. Idempotent."""
        transaction = self._transactions.get(markers.transactional_id)
        if transaction is None or transaction.state not in PREPARED:
            return Decision()
        if (transaction.producer_id, transaction.producer_epoch) != (markers.producer_id, markers.producer_epoch):
            return Decision()
        return Decision(events=(TransactionCompleted(transactional_id=markers.transactional_id, at_ms=now_ms),))

    def unfinished(self) -> list[Markers]:
        """The prepared transactions after a restart; their markers must be written, perhaps again."""
        found = map(markers_of, self._transactions.values())
        return [markers for markers in found if markers is not None]

    # Listing

    def list_transactions(
        self,
        now_ms: int,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_min_ms: int = -1,
    ) -> list[TransactionDescription]:
        """Transactions in one of the states, of one of the producers, and open for longer than the duration, where
        given.
        """
        wanted_states, wanted_ids = set(states), set(producer_ids)
        return [
            described(transaction)
            for transaction in self._transactions.values()
            if (not wanted_states or transaction.state.value in wanted_states)
            and (not wanted_ids or transaction.producer_id in wanted_ids)
            and (
                duration_min_ms < 0
                or (transaction.started_ms >= 0 and now_ms - transaction.started_ms > duration_min_ms)
            )
        ]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription | None:
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else described(transaction)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `tick` should be called next."""
        return self._timers.next_deadline_ms()

    def tick(self, now_ms: int) -> list[TransactionEvent]:
        """Events for everything that is due, to append and apply: aborts of timed-out transactions and expired ids."""
        events: list[TransactionEvent] = []
        while (timer := self._timers.due(now_ms)) is not None:
            transaction = timer.owner
            assert isinstance(transaction, Transaction)
            if self._transactions.get(transaction.transactional_id) is not transaction:
                continue
            if transaction.state is State.ONGOING:
                events.append(abort(transaction, now_ms))
            elif transaction.state not in PREPARED:
                events.append(TransactionalIdExpired(transactional_id=transaction.transactional_id))
        return events

    # Durable state

    def apply(self, event: TransactionEvent) -> None:
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None:
            transaction = self._transactions[event.transactional_id] = Transaction(event.transactional_id)
        if isinstance(event, TransactionalIdSet):
            transaction.set(event)
        elif isinstance(event, TransactionPartitionsAdded):
            transaction.add(event)
        elif isinstance(event, TransactionPrepared):
            transaction.prepare(event)
        elif isinstance(event, TransactionCompleted):
            transaction.complete(event)
        else:
            transaction.transition(State.DEAD)
            del self._transactions[event.transactional_id]
        self._expect(transaction)

    def _expect(self, transaction: Transaction) -> None:
        if transaction.state is State.ONGOING:
            self._timers.set(transaction.timer, transaction.started_ms + transaction.timeout_ms)
        elif transaction.state is State.EMPTY or transaction.state in COMPLETED:
            self._timers.set(transaction.timer, transaction.updated_ms + self._settings.idle_expiry_ms)
        else:
            self._timers.cancel(transaction.timer)

    def names(self) -> list[str]:
        """All transactional ids."""
        return list(self._transactions)

    def row_of(self, transactional_id: str) -> list[Any]:
        """One transactional id in the form of the snapshot."""
        return self._transactions[transactional_id].snapshot()

    def snapshot(self) -> dict[str, Any]:
        """The state as builtins, for `restore`."""
        return {"transactions": [transaction.snapshot() for transaction in self._transactions.values()]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `snapshot`."""
        self._timers = Timers()
        self._transactions = {}
        for stored in state["transactions"]:
            transaction = Transaction.restored(stored)
            self._transactions[transaction.transactional_id] = transaction
            self._expect(transaction)
