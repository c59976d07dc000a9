"""What the catalogue, the partitions and the shards write to the log besides messages. Their meaning never changes."""

from __future__ import annotations

import msgspec


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """Events are told apart by their tag, which is stored."""


class TopicCreated(_Event, frozen=True, tag="topic-created"):
    """A topic exists, with these partitions, in the order of their numbers."""

    name: str
    topic_id: bytes
    partitions: list[int]
    configuration: dict[str, str]
    at_ms: int


class TopicDeleted(_Event, frozen=True, tag="topic-deleted"):
    """A topic is gone, with everything in it."""

    topic_id: bytes


class PartitionsAdded(_Event, frozen=True, tag="partitions-added"):
    """A topic has more partitions."""

    topic_id: bytes
    partitions: list[int]


class TopicConfigured(_Event, frozen=True, tag="topic-configured"):
    """The whole configuration of a topic from now on."""

    topic_id: bytes
    configuration: dict[str, str]


class ProducerIdsTaken(_Event, frozen=True, tag="producer-ids-taken"):
    """Producer ids below this one may be in use."""

    below: int


CatalogueEvent = TopicCreated | TopicDeleted | PartitionsAdded | TopicConfigured | ProducerIdsTaken


class LogTrimmed(_Event, frozen=True, tag="log-trimmed"):
    """Nothing below this offset is kept of the partition, whether files still have it or not."""

    partition: int
    start_offset: int


class EpochStarted(_Event, frozen=True, tag="epoch-started"):
    """From here on the shard is led under this epoch."""

    epoch: int
    incarnation: int = 0


encoder = msgspec.msgpack.Encoder()
catalogue_decoder = msgspec.msgpack.Decoder(CatalogueEvent)
trimmed_decoder = msgspec.msgpack.Decoder(LogTrimmed)
epoch_decoder = msgspec.msgpack.Decoder(EpochStarted)
