"""The partitions of a member, as groups with server-side assignment have them: consumer groups and share groups."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, string, uuid


class HeartbeatTopic(Message):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", "int32")


class HeartbeatAssignment(Message):
    """The assignment in a response to a heartbeat."""

    topic_partitions: list[HeartbeatTopic] = array("0+", HeartbeatTopic)


class DescribedTopic(Message):
    """Partitions of one topic, with its name."""

    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class DescribedAssignment(Message):
    """The assignment in the description of a group."""

    topic_partitions: list[DescribedTopic] = array("0+", DescribedTopic)
