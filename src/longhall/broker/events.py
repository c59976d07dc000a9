"""The log events of the catalogue, the partitions and the shards. The meaning of a released event never changes."""

from __future__ import annotations

from typing import Any

import msgspec

from longhall.directory.events import DirectoryChanged
from longhall.exchanges.events import ExchangeEvent
from longhall.queues.settings import QueueSettings


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """The base of these events; the tag is stored and identifies the event."""


class TopicCreated(_Event, frozen=True, tag="topic-created"):
    """A topic was created, with these partition ids in the order of their numbers."""

    name: str
    topic_id: bytes
    partitions: list[int]
    configuration: dict[str, str]
    at_ms: int
    shard: int = 0  # The shard of all its partitions; 0: by partition number.


class TopicDeleted(_Event, frozen=True, tag="topic-deleted"):
    """A topic and its messages are gone."""

    topic_id: bytes


class PartitionsAdded(_Event, frozen=True, tag="partitions-added"):
    """A topic has more partitions."""

    topic_id: bytes
    partitions: list[int]


class PartitionRenewed(_Event, frozen=True, tag="partition-renewed"):
    """A partition of a topic begins again with an empty log, under another id: a copy begins, or was discarded."""

    topic_id: bytes
    number: int
    partition: int


class PartitionsMapped(_Event, frozen=True, tag="partitions-mapped"):
    """The first `open` partitions of a topic accept messages of the doors, and clients see the first `shown`. The
    others are empty and are reused at the next growth.
    """

    topic_id: bytes
    open: int
    shown: int
    generation: int
    chosen: bool = False  # True if a client is known to choose the partition itself.


class TopicConfigured(_Event, frozen=True, tag="topic-configured"):
    """A new configuration of a topic, complete."""

    topic_id: bytes
    configuration: dict[str, str]


class BrokersConfigured(_Event, frozen=True, tag="brokers-configured"):
    """New configurations of brokers, complete: by broker, the empty name for all, and by name."""

    configurations: dict[str, dict[str, str]]


class ProducerIdsTaken(_Event, frozen=True, tag="producer-ids-taken"):
    """Producer ids below this one may be in use."""

    below: int


class QueueDeclared(_Event, frozen=True, tag="queue-declared"):
    """A queue of this name consumes a topic. With `owns_topic`, deleting the queue deletes the topic. `starts` has the
    first offsets by partition, if other replication groups store the topic: they open its lanes there.
    """

    name: str
    queue_id: bytes
    number: int  # Never reused; the queue's events refer to it.
    topic_id: bytes
    owns_topic: bool
    settings: QueueSettings
    at_ms: int
    starts: dict[int, int] = {}


class QueueConfigured(_Event, frozen=True, tag="queue-configured"):
    """New settings of a queue, complete."""

    queue_id: bytes
    settings: QueueSettings
    at_ms: int


class QueueRemoved(_Event, frozen=True, tag="queue-removed"):
    """The queue is gone; its topic has an event of its own. What arrives for it goes to the queue `letters`, if any."""

    queue_id: bytes
    letters: str = ""


class LaneMade(_Event, frozen=True, tag="lane-made"):
    """A queue has a hidden log, for delayed messages or for a priority level."""

    queue_id: bytes
    partition: int
    key: str


class LaneDropped(_Event, frozen=True, tag="lane-dropped"):
    """A hidden log is gone; its messages have been moved."""

    queue_id: bytes
    partition: int


class CopyLogMade(_Event, frozen=True, tag="copy-log-made"):
    """A queue that moves here has a log for the copy of the hidden log `lane` of its source."""

    queue_id: bytes
    partition: int
    lane: int


class CopyCompleted(_Event, frozen=True, tag="copy-completed"):
    """The copies of all logs of a queue are complete. `lanes` has its hidden logs by partition id, with their purpose;
    `numbers` the lane of each log, by partition id. Other copies of hidden logs are gone.
    """

    queue_id: bytes
    lanes: dict[int, str]
    numbers: dict[int, int]


class QueueRenewed(_Event, frozen=True, tag="queue-renewed"):
    """A queue begins again with empty logs under these ids: its messages moved to another group, or do not come."""

    queue_id: bytes
    partitions: list[int]


class PartsMade(_Event, frozen=True, tag="parts-made"):
    """A log for the chunks of one large message, in this shard. It belongs to no queue, because messages can move."""

    partition: int
    shard: int


class PartsDropped(_Event, frozen=True, tag="parts-dropped"):
    """The chunk log is gone: the message was freed, or the upload ended without one."""

    partition: int


QueueCatalogueEvent = (
    QueueDeclared | QueueConfigured | QueueRemoved | LaneMade | LaneDropped | CopyLogMade | CopyCompleted | QueueRenewed
)

CatalogueEvent = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionRenewed
    | PartitionsMapped
    | TopicConfigured
    | BrokersConfigured
    | ProducerIdsTaken
    | QueueCatalogueEvent
    | PartsMade
    | PartsDropped
    | ExchangeEvent
    | DirectoryChanged
)


class LogTrimmed(_Event, frozen=True, tag="log-trimmed"):
    """The partition starts at this offset, even if files still have earlier records."""

    partition: int
    start_offset: int


class SegmentsDropped(_Event, frozen=True, tag="segments-dropped"):
    """These closed segments in the middle of the partition are dropped."""

    partition: int
    base_offsets: list[int]


class SegmentClosed(_Event, frozen=True, tag="segment-closed"):
    """The active segment of the partition is closed; the next batch starts another one."""

    partition: int


class ProducersCopied(_Event, frozen=True, tag="producers-copied"):
    """The copy of a partition has the producers and the transactions that its source had at the end of its log."""

    partition: int
    state: dict[str, Any]


class OffsetsSkipped(_Event, frozen=True, tag="offsets-skipped"):
    """The copy of a partition continues at this offset: its source has removed everything before it."""

    partition: int
    next_offset: int


PartitionEvent = LogTrimmed | SegmentsDropped | SegmentClosed | ProducersCopied | OffsetsSkipped


class EpochStarted(_Event, frozen=True, tag="epoch-started"):
    """The shard has a new leader epoch."""

    epoch: int
    incarnation: int = 0
    nonce: int = 0  # Random, the same in all shards: a coordinator that lost its data can assign an epoch twice.


class ReplicasNoted(_Event, frozen=True, tag="replicas-noted"):
    """The replicas of the log. A leader writes this before a new replica may become in-sync, so that every in-sync
    replica knows all nodes that may have led.
    """

    replicas: list[int]


class Truncated(_Event, frozen=True, tag="truncated"):
    """A local note of this node: the log was truncated to this index."""

    index: int


class CommittedTo(_Event, frozen=True, tag="committed-to"):
    """A local note of this node: the log is committed up to this index."""

    index: int


class StateMarked(_Event, frozen=True, tag="state-marked"):
    """Every replica digests this slice of its state here (see `state_digest`)."""

    slice: int
    slices: int


ShardEvent = EpochStarted | ReplicasNoted | StateMarked | Truncated | CommittedTo

encoder = msgspec.msgpack.Encoder()
catalogue_decoder = msgspec.msgpack.Decoder(CatalogueEvent)
partition_decoder = msgspec.msgpack.Decoder(PartitionEvent)
shard_decoder = msgspec.msgpack.Decoder(ShardEvent)
