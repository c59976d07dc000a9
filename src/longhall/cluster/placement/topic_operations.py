"""What the hall's leader asks of the leader of another replication group: to store exactly what is placed there."""

from __future__ import annotations

import zlib

import msgspec

from longhall.cluster.rpc.operation import Operation
from longhall.queues.settings import QueueSettings


class TopicSpec(msgspec.Struct, kw_only=True):
    """A topic, and its queue if it is one, as a replication group is to store it."""

    name: str
    topic_id: bytes
    partitions: int
    configuration: dict[str, str]
    queue: QueueSettings | None = None


def fingerprint(spec: TopicSpec) -> int:
    """A checksum by which both sides see that they have the same."""
    return zlib.crc32(msgspec.json.encode(spec, order="deterministic"))


class ApplyTopic(Operation[None]):
    """Create the topic or change it to this. TOPIC_EXISTS where another topic has the name: it is removed first."""

    spec: TopicSpec


class RemoveTopic(Operation[None]):
    """Delete the topic that has this name and this id, if there is one."""

    name: str
    topic_id: bytes


class ListTopics(Operation[list[tuple[str, bytes, int]]]):
    """Names, ids and fingerprints of the topics that were placed in this group."""
