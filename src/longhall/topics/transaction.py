"""One transactional id: its producer, and the state of its transaction.

The data and its replay; `transactions` decides what may happen next.
"""

from __future__ import annotations

import enum
from typing import Any, Final, final

from longhall.topics.events import (
    TransactionalIdSet,
    TransactionCompleted,
    TransactionPartitionsAdded,
    TransactionPrepared,
)
from longhall.topics.timers import Timer

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1


class State(enum.Enum):
    """The states of a transactional id; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"


PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
COMPLETED: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


@final
class Transaction:
    """A transactional id and its current or last transaction.

    | from           | when                                                | to             |
    |----------------|-----------------------------------------------------|----------------|
    | Empty          | a partition or a group is added                     | Ongoing        |
    | Empty          | it is aborted before anything was added             | PrepareAbort   |
    | Empty          | the id expires unused                               | Dead           |
    | Ongoing        | the producer commits                                | PrepareCommit  |
    | Ongoing        | the producer aborts, is replaced or times out       | PrepareAbort   |
    | PrepareCommit  | all markers are written                             | CompleteCommit |
    | PrepareAbort   | all markers are written                             | CompleteAbort  |
    | CompleteCommit | a partition or a group is added                     | Ongoing        |
    | CompleteCommit | a producer takes the id                             | Empty          |
    | CompleteCommit | it is aborted before anything was added             | PrepareAbort   |
    | CompleteCommit | the id expires unused                               | Dead           |
    | CompleteAbort  | a partition or a group is added                     | Ongoing        |
    | CompleteAbort  | a producer takes the id                             | Empty          |
    | CompleteAbort  | it is aborted before anything was added             | PrepareAbort   |
    | CompleteAbort  | the id expires unused                               | Dead           |

    A prepared outcome never changes. In Empty a producer may take the id again; it stays Empty under a higher epoch.
    """

    TRANSITIONS: Final = frozenset(
        {
            (State.EMPTY, State.ONGOING),
            (State.EMPTY, State.PREPARE_ABORT),
            (State.EMPTY, State.DEAD),
            (State.ONGOING, State.PREPARE_COMMIT),
            (State.ONGOING, State.PREPARE_ABORT),
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
            (State.PREPARE_ABORT, State.COMPLETE_ABORT),
            (State.COMPLETE_COMMIT, State.ONGOING),
            (State.COMPLETE_COMMIT, State.EMPTY),
            (State.COMPLETE_COMMIT, State.PREPARE_ABORT),
            (State.COMPLETE_COMMIT, State.DEAD),
            (State.COMPLETE_ABORT, State.ONGOING),
            (State.COMPLETE_ABORT, State.EMPTY),
            (State.COMPLETE_ABORT, State.PREPARE_ABORT),
            (State.COMPLETE_ABORT, State.DEAD),
        }
    )

    __slots__ = (
        "groups",
        "last_producer_epoch",
        "last_producer_id",
        "next_producer_id",
        "partitions",
        "producer_epoch",
        "producer_id",
        "raised",
        "started_ms",
        "state",
        "timeout_ms",
        "timer",
        "transactional_id",
        "updated_ms",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.EMPTY
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_EPOCH
        self.last_producer_id = NO_PRODUCER_ID
        self.last_producer_epoch = NO_EPOCH  # A producer with this epoch may have missed the answer.
        self.next_producer_id = NO_PRODUCER_ID
        self.raised = False  # The current epoch came with the end of the last transaction.
        self.timeout_ms = 0
        self.started_ms = -1
        self.updated_ms = 0
        self.partitions: dict[tuple[str, int], None] = {}  # Ordered, unlike a set.
        self.groups: dict[str, None] = {}
        self.timer = Timer(self, 0)

    @property
    def is_epoch_exhausted(self) -> bool:
        """True if no epoch is left. One is reserved, so that a producer can always be fenced."""
        return self.producer_epoch >= EPOCH_MAX - 1

    def transition(self, state: State) -> None:
        assert (self.state, state) in self.TRANSITIONS, f"{self.state} to {state}"
        self.state = state

    # Replay

    def set(self, event: TransactionalIdSet) -> None:
        if self.state is not State.EMPTY:
            self.transition(State.EMPTY)
        self.producer_id = event.producer_id
        self.producer_epoch = event.producer_epoch
        self.last_producer_id = event.last_producer_id
        self.last_producer_epoch = event.last_producer_epoch
        self.timeout_ms = event.timeout_ms
        self.raised = False
        self.updated_ms = event.at_ms

    def add(self, event: TransactionPartitionsAdded) -> None:
        if self.state is not State.ONGOING:
            self.transition(State.ONGOING)
            self.started_ms = event.at_ms
        self.partitions.update(dict.fromkeys(event.partitions))
        self.groups.update(dict.fromkeys(event.groups))
        self.updated_ms = event.at_ms

    def prepare(self, event: TransactionPrepared) -> None:
        self.transition(State.PREPARE_COMMIT if event.committed else State.PREPARE_ABORT)
        if event.raised or event.recoverable:
            self.last_producer_epoch = self.producer_epoch
        elif event.fenced:
            self.last_producer_epoch = NO_EPOCH
        self.raised = event.raised
        self.producer_epoch = event.producer_epoch
        self.next_producer_id = event.next_producer_id
        self.updated_ms = event.at_ms

    def complete(self, event: TransactionCompleted) -> None:
        committed = self.state is State.PREPARE_COMMIT
        self.transition(State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
        if self.next_producer_id >= 0:
            self.last_producer_id = self.producer_id
            self.producer_id = self.next_producer_id
            self.producer_epoch = 0
            self.next_producer_id = NO_PRODUCER_ID
        self.partitions.clear()
        self.groups.clear()
        self.started_ms = -1
        self.updated_ms = event.at_ms

    def snapshot(self) -> list[Any]:
        return [
            self.transactional_id,
            self.state.value,
            [self.producer_id, self.producer_epoch, self.last_producer_id, self.last_producer_epoch],
            self.next_producer_id,
            self.raised,
            [self.timeout_ms, self.started_ms, self.updated_ms],
            [list(partition) for partition in self.partitions],
            list(self.groups),
        ]

    @staticmethod
    def restored(state: list[Any]) -> Transaction:
        transaction = Transaction(state[0])
        transaction.state = State(state[1])
        transaction.producer_id, transaction.producer_epoch = state[2][0], state[2][1]
        transaction.last_producer_id, transaction.last_producer_epoch = state[2][2], state[2][3]
        transaction.next_producer_id = state[3]
        transaction.raised = state[4]
        transaction.timeout_ms, transaction.started_ms, transaction.updated_ms = state[5]
        transaction.partitions = dict.fromkeys((topic, partition) for topic, partition in state[6])
        transaction.groups = dict.fromkeys(state[7])
        return transaction
