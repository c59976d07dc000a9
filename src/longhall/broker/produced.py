"""A batch of a Kafka producer on its way into a partition, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import mypyc_attr

from longhall.broker.partition import Partition
from longhall.broker.usage.usage_meter import ACCOUNT
from longhall.errors import Code
from longhall.records.batch import BatchHeader

TIMEOUT_MS: Final = 30_000  # How long Kafka producers wait for an answer, unless they say so.


@final
class Sent:
    """The result of one batch: its offset, or the error. `record_errors` names the messages that caused the error, by
    their positions in the batch and with the reason of each; None means that the error is about the batch as a whole.

    A batch that waits for room in its queue has its result `later`.
    """

    def __init__(
        self,
        code: Code | None,
        base_offset: int = -1,
        append_time_ms: int = -1,
        message: str = "",
        record_errors: list[tuple[int, str]] | None = None,
    ) -> None:
        self.code = code
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.message = message
        self.record_errors = record_errors
        self.later: SendWait | None = None


@final
class SendWait:
    """A result that comes later. One callback is called with it, once."""

    def __init__(self) -> None:
        self.sent: Sent | None = None
        self._then: Callable[[Sent], None] | None = None

    def complete(self, sent: Sent) -> None:
        """This is the result."""
        self.sent = sent
        if self._then is not None:
            self._then(sent)

    def when_done(self, then: Callable[[Sent], None]) -> None:
        """Call this with the result: now, if it is known."""
        self._then = then
        if self.sent is not None:
            then(self.sent)


@final
class ProducedBatch:
    """A checked batch of a Kafka producer, and who sent it."""

    def __init__(
        self,
        partition: Partition,
        header: BatchHeader,
        frame: bytes,
        at: int,
        transactional_id: str | None,
        joins_transaction: bool,
        connection: int,
        timeout_ms: int,
        append_time_ms: int,
        leader_only: bool,
    ) -> None:
        self.partition = partition
        self.header = header
        self.frame = frame
        self.at = at
        self.transactional_id = transactional_id
        self.joins_transaction = joins_transaction
        self.connection = connection
        self.timeout_ms = timeout_ms  # How long the producer waits for the answer.
        self.append_time_ms = append_time_ms
        self.leader_only = leader_only  # The leader's copy is enough for the producer.
        self.account = ACCOUNT.get()  # Whom it is counted for; it may wait for room or for a coordinator.
        self.guard = -1  # The coordinator confirmed its transaction; void if the producer's guard is another by now.


@mypyc_attr(allow_interpreted_subclasses=True)
class TransactionVerifier:
    """The coordinator in another process as sends see it. Where the coordinator is in this process no batch waits."""

    def hold(self, batch: ProducedBatch) -> Sent | None:
        """None if the batch need not wait for the coordinator; else its result, which comes later."""
        return None
