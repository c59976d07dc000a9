"""Events of groups and transactions in the log. The meaning of released events never changes.

The stored tag identifies the event. Fields are only added, with defaults; unknown ones are ignored, so that versions
can mix. All times are shard time.
"""

from __future__ import annotations

import msgspec

from longhall.topics.assignment import Assigned

# topic, partition, offset, leader epoch, metadata
OffsetRow = tuple[str, int, int, int, str]


class MemberRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A member of a stable group, with everything needed after a restart."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class GroupStable(msgspec.Struct, kw_only=True, frozen=True, tag="group-stable"):
    """A generation has its assignment. Written again when a static member rejoins under another id."""

    group_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[MemberRecord, ...]


class GroupEmptied(msgspec.Struct, kw_only=True, frozen=True, tag="group-emptied"):
    """The last member has left; the offsets stay until they expire."""

    group_id: str
    generation: int
    protocol_type: str | None
    at_ms: int


class GroupDeleted(msgspec.Struct, kw_only=True, frozen=True, tag="group-deleted"):
    """The group and all its offsets are deleted."""

    group_id: str


class OffsetsCommitted(msgspec.Struct, kw_only=True, frozen=True, tag="offsets-committed"):
    """A consumer has read up to here."""

    group_id: str
    offsets: tuple[OffsetRow, ...]
    at_ms: int


class OffsetsPending(msgspec.Struct, kw_only=True, frozen=True, tag="offsets-pending"):
    """Offsets that count only if the producer's transaction is committed."""

    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetRow, ...]
    at_ms: int


class TransactionOffsetsEnded(msgspec.Struct, kw_only=True, frozen=True, tag="transaction-offsets-ended"):
    """The outcome of a transaction for the pending offsets of one group."""

    group_id: str
    producer_id: int
    committed: bool


class OffsetsDeleted(msgspec.Struct, kw_only=True, frozen=True, tag="offsets-deleted"):
    """These offsets were deleted by a request, expired, or belonged to a deleted topic."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    # True with the deletion of the topic: pending offsets of open transactions are deleted as well.
    pending_too: bool = False


class ClassicMemberFacts(msgspec.Struct, kw_only=True, frozen=True):
    """What a consumer group keeps of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class SubscribedMember(msgspec.Struct, kw_only=True, frozen=True):
    """A member of a group with server-side assignment. The stored form is also the form in memory.

    `assigned` may be read by the member. `revoking` must be given up by it before others get it.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()  # Subscribed names, sorted,
    pattern: str = ""  # and a regular expression; empty if there is none.
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: str = "stable"
    assigned: Assigned = ()
    revoking: Assigned = ()
    classic: ClassicMemberFacts | None = None


class ConsumerGroupChanged(msgspec.Struct, kw_only=True, frozen=True, tag="consumer-group-changed"):
    """A group with server-side assignment has changed: what is new, or all of it if `complete`."""

    group_id: str
    epoch: int
    assignment_epoch: int
    topics: tuple[tuple[bytes, str, int], ...] | None = None  # Id, name, partitions; None if unchanged.
    members: tuple[SubscribedMember, ...] = ()  # New or changed ones.
    targets: tuple[tuple[str, Assigned], ...] = ()  # New or changed ones.
    removed: tuple[str, ...] = ()  # Before `members` are added.
    at_ms: int
    complete: bool = False  # Everything that the group was before is replaced, except its offsets.


class GroupConfigured(msgspec.Struct, kw_only=True, frozen=True, tag="group-configured"):
    """The settings of a group, which need not exist; without settings it has the defaults."""

    group_id: str
    configuration: dict[str, str]


GroupEvent = (
    GroupStable
    | GroupEmptied
    | GroupDeleted
    | OffsetsCommitted
    | OffsetsPending
    | TransactionOffsetsEnded
    | OffsetsDeleted
    | ConsumerGroupChanged
    | GroupConfigured
)


class TransactionalIdSet(msgspec.Struct, kw_only=True, frozen=True, tag="transactional-id-set"):
    """A producer took the transactional id, under this producer id and epoch. No transaction is open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_producer_id: int = -1  # The previous id and epoch, to recognise a retried request.
    last_producer_epoch: int = -1
    timeout_ms: int
    at_ms: int


class TransactionPartitionsAdded(msgspec.Struct, kw_only=True, frozen=True, tag="transaction-partitions-added"):
    """These were added to the ongoing transaction, which begins with the first of them."""

    transactional_id: str
    partitions: tuple[tuple[str, int], ...] = ()
    groups: tuple[str, ...] = ()
    at_ms: int


class TransactionPrepared(msgspec.Struct, kw_only=True, frozen=True, tag="transaction-prepared"):
    """The outcome is decided and final; the markers have this id and epoch."""

    transactional_id: str
    committed: bool
    producer_id: int
    producer_epoch: int
    raised: bool = False  # The epoch was raised for the producer, which continues with it (KIP-890, second part).
    fenced: bool = False  # The epoch was raised against the producer: it timed out or was replaced.
    recoverable: bool = False  # The producer itself requested the abort and may take the id again under its old epoch.
    # Epochs are exhausted: after the markers the producer continues with this id at epoch 0.
    next_producer_id: int = -1
    at_ms: int


class TransactionCompleted(msgspec.Struct, kw_only=True, frozen=True, tag="transaction-completed"):
    """All markers are written."""

    transactional_id: str
    at_ms: int


class TransactionalIdExpired(msgspec.Struct, kw_only=True, frozen=True, tag="transactional-id-expired"):
    """The id expired because it was not used."""

    transactional_id: str


TransactionEvent = (
    TransactionalIdSet
    | TransactionPartitionsAdded
    | TransactionPrepared
    | TransactionCompleted
    | TransactionalIdExpired
)
