"""The owner of a transactional id, and its next producer id and epoch.

The rules that fence zombie producers, as functions over one transaction: they return decisions and change nothing.
"""

from __future__ import annotations

from longhall.errors import Code
from longhall.topics.decisions import Decision, EndRequest, InitRequest
from longhall.topics.events import TransactionalIdSet, TransactionPrepared
from longhall.topics.transaction import COMPLETED, EPOCH_MAX, PREPARED, State, Transaction


def check(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> Code | None:
    """None if this producer holds the id and no outcome is being written; else the error."""
    if transaction is None or transaction.producer_id != producer_id:
        return Code.INVALID_PRODUCER_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return Code.PRODUCER_FENCED
    return Code.CONCURRENT_TRANSACTIONS if transaction.state in PREPARED else None


def expects(transaction: Transaction, request: InitRequest) -> bool:
    """True if a producer that states its id and epoch (KIP-360) holds the transactional id, or did just before."""
    producer_id, epoch = request.expected_producer_id, request.expected_producer_epoch
    if producer_id < 0:
        return True
    if producer_id == transaction.producer_id and epoch == transaction.producer_epoch:
        return True
    if transaction.state is State.ONGOING:
        return False  # The producer that received the answer is active; a late repeat must not abort its transaction.
    is_last_id = producer_id in (transaction.producer_id, transaction.last_producer_id)
    return is_last_id and epoch >= 0 and epoch == transaction.last_producer_epoch


def given(
    request: InitRequest,
    producer_id: int,
    producer_epoch: int,
    now_ms: int,
    *,
    last_producer_id: int = -1,
    last_producer_epoch: int = -1,
    took_fresh_id: bool = False,
) -> Decision:
    event = TransactionalIdSet(
        transactional_id=request.transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_id=last_producer_id,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=request.timeout_ms,
        at_ms=now_ms,
    )
    return Decision(
        events=(event,), producer_id=producer_id, producer_epoch=producer_epoch, took_fresh_id=took_fresh_id
    )


def raised(transaction: Transaction, request: InitRequest, now_ms: int) -> Decision:
    """The next epoch, or the next producer id when epochs are exhausted.

    A producer that repeats its request because it missed the answer gets a further epoch, never the one given before,
    so that no two producers ever share one.
    """
    rotates = transaction.is_epoch_exhausted
    return given(
        request,
        request.fresh_producer_id if rotates else transaction.producer_id,
        0 if rotates else transaction.producer_epoch + 1,
        now_ms,
        last_producer_id=transaction.producer_id if rotates else transaction.last_producer_id,
        last_producer_epoch=request.expected_producer_epoch if request.expected_producer_id >= 0 else -1,
        took_fresh_id=rotates,
    )


def abort(transaction: Transaction, now_ms: int, recoverable: bool = False) -> TransactionPrepared:
    """Abort a transaction against its producer: the raised epoch, which no producer gets, fences it."""
    assert transaction.producer_epoch < EPOCH_MAX
    return TransactionPrepared(
        transactional_id=transaction.transactional_id,
        committed=False,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch + 1,
        fenced=True,
        recoverable=recoverable,
        at_ms=now_ms,
    )


def is_repeated(transaction: Transaction, request: EndRequest) -> bool:
    """True if this request is a repeat: recognised by the old epoch if it was raised, else by the state."""
    ended = transaction.state in PREPARED or transaction.state in COMPLETED
    if not ended:
        return False
    if not transaction.raised:
        same = (transaction.producer_id, transaction.producer_epoch) == (request.producer_id, request.producer_epoch)
        return same and not (request.raises_epoch and transaction.state in COMPLETED)
    if request.producer_epoch != transaction.last_producer_epoch:
        return False
    rotated = transaction.state in COMPLETED and transaction.producer_epoch == 0
    return request.producer_id == (transaction.last_producer_id if rotated else transaction.producer_id)


def repeated(transaction: Transaction, request: EndRequest) -> Decision:
    committed = transaction.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    if request.committed != committed:
        return Decision(code=Code.INVALID_TRANSACTION_STATE)
    if transaction.state in PREPARED:
        return Decision(code=Code.CONCURRENT_TRANSACTIONS)
    return Decision(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)


def ended(transaction: Transaction, request: EndRequest, now_ms: int) -> Decision:
    raises = request.raises_epoch
    rotates = raises and transaction.is_epoch_exhausted
    epoch = transaction.producer_epoch + 1 if raises else transaction.producer_epoch
    event = TransactionPrepared(
        transactional_id=transaction.transactional_id,
        committed=request.committed,
        producer_id=transaction.producer_id,
        producer_epoch=epoch,
        raised=raises,
        next_producer_id=request.fresh_producer_id if rotates else -1,
        at_ms=now_ms,
    )
    return Decision(
        events=(event,),
        producer_id=request.fresh_producer_id if rotates else transaction.producer_id,
        producer_epoch=0 if rotates else epoch,
        took_fresh_id=rotates,
    )
