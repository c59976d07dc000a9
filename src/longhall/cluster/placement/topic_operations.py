"""Operations of the hall's leader on another replication group, which then stores exactly what is placed there."""

from __future__ import annotations

import zlib

import msgspec

from longhall.broker.consumer_lag import ConsumerLag, Position
from longhall.cluster.rpc.operation import Operation
from longhall.queues.settings import QueueSettings


class QueueSpec(msgspec.Struct, kw_only=True):
    """A queue over a topic that it does not own. `starts` has the first offsets by partition, when it is created."""

    name: str
    queue_id: bytes
    settings: QueueSettings
    starts: dict[int, int] = {}


class TopicSpec(msgspec.Struct, kw_only=True):
    """A topic, with the queue that owns it if there is one, and the queues over it, as a replication group should store
    it. Groups below feature level 8 do not know `queues`; without any it is not encoded, as they encode it.
    """

    name: str
    topic_id: bytes
    partitions: int
    configuration: dict[str, str]
    queue: QueueSettings | None = None
    queues: list[QueueSpec] | msgspec.UnsetType = msgspec.UNSET

    @property
    def over(self) -> list[QueueSpec]:
        """The queues over the topic."""
        return [] if self.queues is msgspec.UNSET else self.queues


def fingerprint(spec: TopicSpec) -> int:
    """A checksum with which both sides compare their versions of a topic. A group does not store where queues began."""
    if spec.over:
        over = [msgspec.structs.replace(queue, starts={}) for queue in spec.over]
        spec = msgspec.structs.replace(spec, queues=over)
    return zlib.crc32(msgspec.json.encode(spec, order="deterministic"))


class ApplyTopic(Operation[None]):
    """Create the topic or change it to this, with its queues; queues that it does not name stay. TOPIC_EXISTS or
    QUEUE_EXISTS if another topic or queue has the name: remove that one first.
    """

    spec: TopicSpec


class RemoveTopic(Operation[None]):
    """Delete the topic with this name and id, if it exists."""

    name: str
    topic_id: bytes


class RemovePlacedQueue(Operation[None]):
    """Delete the queue over a topic with this name and id, if it exists. The topic stays."""

    name: str
    queue_id: bytes


class NoteDeletedQueue(Operation[None]):
    """The hall has deleted a queue to which queues of this group send their dead letters."""

    name: str


class ListPlacedQueues(Operation[list[tuple[str, bytes]]]):
    """Names and ids of the queues over topics in this group that the main hall placed here."""


class ListTopics(Operation[list[tuple[str, bytes, int]]]):
    """Names, ids and fingerprints of the topics that were placed in this group."""


class NoteArchived(Operation[None]):
    """The progress of the archive of a topic in this group: partition, offset and metadata."""

    name: str
    topic_id: bytes
    rows: list[tuple[int, int, str]]


class PartitionSize(msgspec.Struct, array_like=True):
    """A partition in this group: its bytes on the disk, and the number of offsets that its log spans."""

    number: int
    size_bytes: int
    messages: int


class MeasureTopics(Operation[dict[str, list[PartitionSize]]]):
    """The sizes of the partitions of these topics that this group stores."""

    names: list[str]


class GroupTraffic(msgspec.Struct, array_like=True):
    """What a group has accepted since its leader's process started."""

    size_bytes: int
    messages: int


class MeasureTraffic(Operation[GroupTraffic]):
    """The traffic of this group."""


class MeasureLags(Operation[list[ConsumerLag | None]]):
    """The lag of consumer groups at these positions, in their order; None for a partition that is not stored here."""

    positions: list[Position]
