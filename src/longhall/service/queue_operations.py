"""The operations on queues, for every door, the HTTP API and the command line.

Times are milliseconds, queues are named, and a refusal is a `LonghallError` with a code. If an operation has several
messages, receipts or leases, the reply has an entry for each, in the same order. The caller is not part of an
operation: it is passed beside it.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code
from longhall.queues.messages import (
    Accepted,
    Attribute,
    Counts,
    Delivery,
    Depth,
    Letter,
    LetterPage,
    MoveTask,
    Outgoing,
    Page,
    QueueView,
    WriteBack,
)
from longhall.queues.outbox_events import OutboxBatch, QueueLocation
from longhall.queues.queue import PURGE_APART_MS
from longhall.queues.receipts import CURRENT
from longhall.queues.settings import QueueSettings

R_co = TypeVar("R_co", covariant=True)

Destination = str | int | dict[int, int]  # "start", a time in milliseconds, or an offset for each lane.


class QueueOperation(Operation[R_co], Generic[R_co]):
    """An operation on one queue."""

    queue: str


class MessageOperation(QueueOperation[R_co], Generic[R_co]):
    """An operation on the messages of one queue: the replication groups that store the queue carry it out."""


# Queues


class CreateQueue(QueueOperation[QueueView]):
    """Create a queue, or with `topic` one over a topic that exists. QUEUE_EXISTS if the name is taken."""

    settings: QueueSettings
    topic: str = ""
    deleted_before_ms: int = 0  # QUEUE_DELETED_RECENTLY if a queue of this name was deleted within this time.
    key_later: bool = False  # A master key that this node does not have refuses the messages, not the queue.


class DeleteQueue(QueueOperation[None]):
    """Delete a queue with its messages; messages for its dead-letter queue move there first."""


class DescribeQueue(QueueOperation[QueueView]):
    """The queue of this name, with everything that is committed. UNKNOWN_QUEUE if there is none."""


class ListQueues(Operation[list[str]]):
    """The names of the queues that begin with a prefix, in order."""

    prefix: str = ""


class ConfigureQueue(QueueOperation[None]):
    """Change the settings of a queue."""

    settings: QueueSettings
    key_later: bool = False  # As in CreateQueue.


class SwitchQueue(QueueOperation[None]):
    """Pause the delivery of a queue, or resume it."""

    paused: bool


class PurgeQueue(QueueOperation[None]):
    """Remove all messages that a queue has now. PURGE_RUNNING within `apart_ms` (a minute) of the last time."""

    apart_ms: int = PURGE_APART_MS


class MeasureQueue(MessageOperation[Depth]):
    """The number of messages of a queue, by state."""


class CountQueue(MessageOperation[Counts]):
    """The counters of a queue."""


class LocateQueue(QueueOperation[QueueLocation]):
    """The current incarnation of a queue. UNKNOWN_QUEUE if there is none."""


class CheckRoom(MessageOperation[None]):
    """QUEUE_FULL if a queue has no room for so many messages and bytes now. Nothing is reserved."""

    count: int
    size_bytes: int


class ListDeadLetterSources(QueueOperation[list[str]]):
    """The queues whose dead letters go to this one."""


class ForkQueue(QueueOperation[QueueView]):
    """Create a second queue with a cursor of its own over the same log."""

    name: str
    start: Destination = "start"
    settings: QueueSettings | None = None


class LocateFork(QueueOperation[dict[int, int]]):
    """The offsets at which a fork of this queue would begin, by partition: of the partitions that a group stores."""

    start: Destination = "start"


# Messages


class SendMessages(MessageOperation[list[Accepted]]):
    """Accept or refuse each of these messages."""

    messages: list[Outgoing]


class DeliverOutbox(MessageOperation[int]):
    """Store messages of a group's outbox in this incarnation of a queue, each once. The reply is the first offset that
    the queue had no room for, or the offset behind the batch. UNKNOWN_QUEUE if the incarnation is gone.
    """

    topic_id: bytes
    batch: OutboxBatch


class ReceiveMessages(MessageOperation[list[Delivery]]):
    """Lease up to `count_max` messages, and wait if there are none. A time of -1 means the queue's setting.

    A repeated request with the same `attempt_id` gets the same messages. With a filter (a selector, or a policy in
    JSON) only matching messages are leased. Without `in_parts` messages that are too large for one reply are not.
    """

    waits: ClassVar[bool] = True

    count_max: int
    wait_ms: int = -1
    lease_ms: int = -1
    attempt_id: str = ""
    filter: str = ""
    in_parts: bool = True


class ReceiveFromAny(Operation[list[tuple[str, Delivery]]]):
    """Lease messages of several queues, each with its queue's name, in proportion to the weights."""

    waits: ClassVar[bool] = True

    weights: dict[str, int]
    count_max: int
    wait_ms: int
    lease_ms: int
    filter: str = ""
    in_parts: bool = True


class SettleMessages(MessageOperation[list[Code | None]]):
    """The consumer is done with the messages of these receipts; `accepts` says which receipts of a message count."""

    receipts: list[str]
    accepts: str = CURRENT


class SettleWithSends(MessageOperation[list[list[Accepted]]]):
    """Settle messages and send others to any queues and topics of the same replication group, in one atomic step."""

    receipts: list[str]
    sends: list[WriteBack]


class ChangeLeases(MessageOperation[list[Code | None]]):
    """Set the remaining time of each lease; 0 returns the message to the queue.

    `accepts` says which receipts of a message count. A lease that would last over `lease_ms_max` in total is refused
    with INVALID_REQUEST; 0 is no bound.
    """

    changes: list[tuple[str, int]]
    accepts: str = CURRENT
    lease_ms_max: int = 0


class ReturnUndelivered(MessageOperation[list[Code | None]]):
    """Return messages that no consumer has received, without counting an attempt."""

    receipts: list[str]


class AnswerMessage(MessageOperation[Accepted]):
    """Send an answer to the reply queue that the message of this receipt names, and settle it, in one step."""

    receipt: str
    message: Outgoing


class BeginUpload(MessageOperation[str]):
    """Open an upload for a message that comes in parts; the reply is its id. It expires an hour after its last part."""


class AddUploadPart(MessageOperation[None]):
    """Store a part. Numbers begin at 0; a part that comes again replaces the first."""

    upload_id: str
    number: int
    part: bytes


class FinishUpload(MessageOperation[Accepted]):
    """All parts are stored: they become a message, with everything but the body as `message` says."""

    upload_id: str
    parts: int
    message: Outgoing


class AbortUpload(MessageOperation[None]):
    """Discard an upload."""

    upload_id: str


class ReadPart(MessageOperation[bytes]):
    """A part of a message that was delivered in parts, for the holder of its receipt."""

    receipt: str
    number: int


class RewindQueue(MessageOperation[None]):
    """Deliver again from the start, from a time, or from an offset for each lane."""

    to: Destination


class PeekMessages(MessageOperation[Page]):
    """Messages with their state, without leasing them; `settled` includes those that are settled."""

    count_max: int
    from_offset: int | str = ""
    settled: bool = False


class ListLeases(MessageOperation[Page]):
    """The messages that consumers hold now."""

    count_max: int
    from_offset: int | str = ""


class SearchMessages(MessageOperation[Page]):
    """The messages that match: by attributes, by text in their bodies, by when they were sent."""

    filter: str = ""
    text: str = ""
    from_ms: int = 0
    until_ms: int = 0
    count_max: int = 100
    from_offset: int | str = ""
    settled: bool = False


# Dead letters


class ListLetters(MessageOperation[LetterPage]):
    """The messages of a queue, each with its history."""

    count_max: int = 100
    from_position: str = ""


class ReadLetter(MessageOperation[Letter]):
    """One message of a queue with its history; UNKNOWN_MESSAGE if it is not there."""

    message_id: str


class EditLetter(MessageOperation[Letter]):
    """Replace the body of a message, all its attributes, or both; MESSAGE_LEASED while a consumer holds it."""

    message_id: str
    body: bytes | None = None
    attributes: dict[str, Attribute] | None = None
    seal: bytes = b""  # Of the body, in a sealed message.


class StartMove(MessageOperation[MoveTask]):
    """Move messages to another queue, or each back to where it came from; only those of `ids` or `filter` if given."""

    target: str
    rate_max: int
    ids: list[str] | None = None
    filter: str = ""


class CancelMove(Operation[MoveTask]):
    """Stop a move. MOVE_UNKNOWN if there is none of this id, or if it is not of the queue that is named."""

    task_id: str
    queue: str = ""


class ListMoves(MessageOperation[list[MoveTask]]):
    """The moves of a queue, the newest first."""


def undelivered(queue: str, deliveries: list[Delivery]) -> ReturnUndelivered | None:
    """The operation that returns messages for which the receiver has gone away; None if there are none."""
    receipts = [delivery.receipt for delivery in deliveries if delivery.receipt]
    return ReturnUndelivered(queue, receipts) if receipts else None
