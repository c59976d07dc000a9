"""Requests to the transaction coordinator, and its decisions."""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.topics.events import TransactionEvent
from longhall.topics.transaction import PREPARED, State, Transaction


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The events to write, and the answer once they are committed: a code, or the producer's id and epoch."""

    events: tuple[TransactionEvent, ...] = ()
    code: Code | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    took_fresh_id: bool = False


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """InitProducerId. `fresh_producer_id` is consumed only if the decision says so."""

    transactional_id: str
    timeout_ms: int
    fresh_producer_id: int
    expected_producer_id: int = -1  # KIP-360: the producer's own view of its id.
    expected_producer_epoch: int = -1


class EndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """EndTxn. From version 5 on it raises the epoch, and needs the fresh id when epochs are exhausted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    raises_epoch: bool = False
    fresh_producer_id: int = -1


class Markers(msgspec.Struct, frozen=True, kw_only=True):
    """The markers of a prepared transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]


class TransactionDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id as ListTransactions and DescribeTransactions return it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: tuple[tuple[str, int], ...]


def described(transaction: Transaction) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        state=transaction.state.value,
        timeout_ms=transaction.timeout_ms,
        started_ms=transaction.started_ms,
        partitions=tuple(transaction.partitions),
    )


def markers_of(transaction: Transaction) -> Markers | None:
    """The markers to write for a prepared transaction; None if it is not prepared."""
    if transaction.state not in PREPARED:
        return None
    return Markers(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=transaction.state is State.PREPARE_COMMIT,
        partitions=tuple(transaction.partitions),
        groups=tuple(transaction.groups),
    )
