"""Operations of the hall's leader on another replication group, which then stores exactly what is placed there."""

from __future__ import annotations

import zlib

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.queues.settings import QueueSettings


class TopicSpec(msgspec.Struct, kw_only=True):
    """A topic, with its queue if it has one, as a replication group should store it."""

    name: str
    topic_id: bytes
    partitions: int
    configuration: dict[str, str]
    queue: QueueSettings | None = None


def fingerprint(spec: TopicSpec) -> int:
    """A checksum with which both sides compare their versions of a topic."""
    return zlib.crc32(msgspec.json.encode(spec, order="deterministic"))


class ApplyTopic(Operation[None]):
    """Create the topic or change it to this. TOPIC_EXISTS if another topic has the name: remove that one first."""

    spec: TopicSpec


class RemoveTopic(Operation[None]):
    """Delete the topic with this name and id, if it exists."""

    name: str
    topic_id: bytes


class ListTopics(Operation[list[tuple[str, bytes, int]]]):
    """Names, ids and fingerprints of the topics that were placed in this group."""


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
