"""Placement: the port through which a hall sees topics and queues that its wings store.

A wing is a replication group of its own on some of the hosts, with its own log, leader and replicas. The main hall has
the catalogue of all topics and queues; those placed in wings have their messages there, and their logs in the main hall
stay empty.

    lane          one of the wings of a topic; partition p is in lane p modulo their number
    broker id     of a wing's process: the number of the wing times `WING_STEP`, plus the number of its host
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from longhall.broker.leadership import Host
from longhall.errors import Code
from longhall.topics.partition_moves import MoveRecord

if TYPE_CHECKING:
    from longhall.broker.transaction_appends import Appended, TransactionBatch
    from longhall.broker.transaction_markers import PartitionMarkers
    from longhall.broker.transaction_participant import SettleRequest

WING_STEP: Final = 1_000_000


class PartitionLocation(NamedTuple):
    """Leader, replicas and in-sync set of a partition, by broker ids; the leader is 0 while there is none."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]


class GroupLocation(NamedTuple):
    """A replication group and its replicas, by broker ids; the preferred leader is the first."""

    number: int
    name: str
    replicas: list[int]


class GroupPlacement(Protocol):
    """The interface for doors and operations. The synchronous methods answer from memory and can be slightly stale."""

    def is_placed(self, topic: str) -> bool:
        """True if the topic is known and stored in wings."""

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        """The location of a partition of a placed topic."""

    def brokers(self) -> list[Host]:
        """The live processes of wings, by broker ids."""

    def groups(self) -> list[GroupLocation]:
        """The wings that have processes."""

    def spread(self, copies_min: int = 0) -> list[int]:
        """The wings of hosts that can take a new topic without a placement now, the least loaded first; each has at
        least so many replicas. Empty if nothing is spread.
        """

    async def choose(self, placement: str, name: str) -> list[int]:
        """Choose the wings for a new topic, one for each lane, and create them if needed.

        Raises INVALID_CONFIGURATION for an unknown wing, NOT_READY if the wings are not led in time.
        """

    async def furnish(self, name: str) -> None:
        """Create or configure a placed topic and its queue in its wings, as they are in the main hall. Idempotent."""

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        """Delete a topic from these wings; retried later if a wing does not answer."""

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        """Have the leader of a group write markers; None or the error for each partition. LonghallError if it is not
        certain that it has: the request may be repeated.
        """

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        """Have the leader of a group do its part of the settles of a transaction; None or the error. LonghallError if
        it is not certain that it has. A request reaches at most one process.
        """

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        """Have the leader of a group append a batch of a transaction. LonghallError if it is not certain that it has:
        then the transaction has to be aborted.
        """


def group_of(wings: list[int], partition: int) -> int:
    """The group that stores this partition of a topic with these wings; 0 for the main hall."""
    return wings[partition % len(wings)] if wings else 0


def is_elsewhere(wings: list[int], moves: MoveRecord, partition: int, wing: int) -> bool:
    """True if the wing `wing` (0: the main hall) does not serve this partition of a topic with these wings: another
    group stores it, or it is fenced because it moves.
    """
    return (bool(wings) and wings[partition % len(wings)] != wing) or moves.is_fenced(partition)


def groups_of(wings: list[int], moves: MoveRecord) -> list[int]:
    """The groups, without the main hall, that have a topic: they store a part of it, or did once, or take a copy."""
    return [number for number in dict.fromkeys([*wings, *moves.groups]) if number != 0]


def is_placed(wings: GroupPlacement | None, topic: str) -> bool:
    """True if wings store the messages of the topic."""
    return wings is not None and wings.is_placed(topic)
