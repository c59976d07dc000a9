"""What the catalogue, the partitions and the shards write to the log besides messages. Their meaning never changes."""

from __future__ import annotations

import msgspec

from longhall.queues.settings import QueueSettings


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """Events are told apart by their tag, which is stored."""


class TopicCreated(_Event, frozen=True, tag="topic-created"):
    """A topic exists, with these partitions, in the order of their numbers."""

    name: str
    topic_id: bytes
    partitions: list[int]
    configuration: dict[str, str]
    at_ms: int
    shard: int = 0  # Where all its partitions live; 0: each where its number says.


class TopicDeleted(_Event, frozen=True, tag="topic-deleted"):
    """A topic is gone, with everything in it."""

    topic_id: bytes


class PartitionsAdded(_Event, frozen=True, tag="partitions-added"):
    """A topic has more partitions."""

    topic_id: bytes
    partitions: list[int]


class PartitionsMapped(_Event, frozen=True, tag="partitions-mapped"):
    """Of a topic's partitions the first `open` take messages of the hall's own doors, and clients are told of the first
    `shown`. What lies beyond is empty, and is there for the next growth.
    """

    topic_id: bytes
    open: int
    shown: int
    generation: int
    chosen: bool = False  # Whether clients choose among its partitions themselves, as far as is known.


class TopicConfigured(_Event, frozen=True, tag="topic-configured"):
    """The whole configuration of a topic from now on."""

    topic_id: bytes
    configuration: dict[str, str]


class ProducerIdsTaken(_Event, frozen=True, tag="producer-ids-taken"):
    """Producer ids below this one may be in use."""

    below: int


class QueueDeclared(_Event, frozen=True, tag="queue-declared"):
    """A cursor of this name stands on a topic. A queue that made its topic takes it along when it is deleted."""

    name: str
    queue_id: bytes
    number: int  # Never reused; its events name it so.
    topic_id: bytes
    owns_topic: bool
    settings: QueueSettings
    at_ms: int


class QueueConfigured(_Event, frozen=True, tag="queue-configured"):
    """The whole settings of a queue from now on."""

    queue_id: bytes
    settings: QueueSettings
    at_ms: int


class QueueRemoved(_Event, frozen=True, tag="queue-removed"):
    """The cursor is gone; its topic goes with an event of its own."""

    queue_id: bytes


class LaneMade(_Event, frozen=True, tag="lane-made"):
    """A queue has a hidden log: messages that are not due yet."""

    queue_id: bytes
    partition: int
    key: str


class LaneDropped(_Event, frozen=True, tag="lane-dropped"):
    """Everything in this hidden log has been moved."""

    queue_id: bytes
    partition: int


class PartsMade(_Event, frozen=True, tag="parts-made"):
    """A log for the chunks of one large message, in this shard. It belongs to no queue: messages move between them."""

    partition: int
    shard: int


class PartsDropped(_Event, frozen=True, tag="parts-dropped"):
    """The message is gone, or never became one."""

    partition: int


CatalogueEvent = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionsMapped
    | TopicConfigured
    | ProducerIdsTaken
    | QueueDeclared
    | QueueConfigured
    | QueueRemoved
    | LaneMade
    | LaneDropped
    | PartsMade
    | PartsDropped
)


class LogTrimmed(_Event, frozen=True, tag="log-trimmed"):
    """Nothing below this offset is kept of the partition, whether files still have it or not."""

    partition: int
    start_offset: int


class SegmentsDropped(_Event, frozen=True, tag="segments-dropped"):
    """Nothing in these closed segments of the partition is wanted, though something before them is."""

    partition: int
    base_offsets: list[int]


PartitionEvent = LogTrimmed | SegmentsDropped


class EpochStarted(_Event, frozen=True, tag="epoch-started"):
    """From here on the shard is led under this epoch."""

    epoch: int
    incarnation: int = 0
    nonce: int = 0  # Random, the same in all shards: a coordinator that lost its data may give an epoch twice.


class ReplicasNoted(_Event, frozen=True, tag="replicas-noted"):
    """These nodes keep the log. A leader notes them before a new one of them may become in sync, so that whoever was in
    sync before knows of all that may ever have led.
    """

    replicas: list[int]


class Truncated(_Event, frozen=True, tag="truncated"):
    """A note of this node to itself: of the entries before, those behind this index of the log do not count."""

    index: int


class CommittedTo(_Event, frozen=True, tag="committed-to"):
    """A note of this node to itself: everything up to this index of the log is committed."""

    index: int


ShardEvent = EpochStarted | ReplicasNoted | Truncated | CommittedTo

encoder = msgspec.msgpack.Encoder()
catalogue_decoder = msgspec.msgpack.Decoder(CatalogueEvent)
partition_decoder = msgspec.msgpack.Decoder(PartitionEvent)
shard_decoder = msgspec.msgpack.Decoder(ShardEvent)
