"""Where topics and queues are that this hall knows of and does not keep: the port behind which its wings stand.

A wing is a hall of its own beside this one, on some of the hosts: its own log, its own leader, its own copies. This
hall keeps the catalogue of everything, so every topic and queue has its entry here; one that is placed in wings has its
messages there, and its logs here stay empty.

    lane          one wing of those that a topic is placed in; partition p is in lane p modulo their number
    broker id     of a wing's process: the number of the wing times `WING_STEP`, and the number of its host
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from longhall.broker.leadership import Host

WING_STEP: Final = 1_000_000


class PartitionLocation(NamedTuple):
    """Who keeps a partition, by broker ids; the leader is 0 while nobody leads."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]


class GroupPlacement(Protocol):
    """What doors and verbs ask. The first three are answered from memory and may be a moment old."""

    def is_placed(self, topic: str) -> bool:
        """Whether this topic is known here and kept in wings."""

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        """Where this partition of a placed topic is."""

    def brokers(self) -> list[Host]:
        """The processes of wings that live, by broker ids."""

    async def choose(self, placement: str, name: str) -> list[int]:
        """The wings for a topic of this name that is to be made, one for each lane; made and led, if they were not.

        INVALID_CONFIGURATION for a wing that does not exist, NOT_READY when they do not come up in time.
        """

    async def furnish(self, name: str) -> None:
        """Let a placed topic, and its queue, be in its wings what it is here: made, configured, with as many
        partitions. It may be asked for again and again.
        """

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        """What was placed in these wings and is gone here goes there too; at once if that can be, or else later."""


def is_elsewhere(wings: list[int], partition: int, wing: int) -> bool:
    """Whether a partition of a topic that is placed in these wings is not kept by this one; 0 is the main hall."""
    return bool(wings) and wings[partition % len(wings)] != wing


def is_placed(wings: GroupPlacement | None, topic: str) -> bool:
    """Whether its messages are elsewhere."""
    return wings is not None and wings.is_placed(topic)
