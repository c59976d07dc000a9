"""The consumer protocol: subscriptions and assignments inside JoinGroup and SyncGroup.

The server never needs these bytes; `group describe` and our own consumer do. A version (int16) stands before each.
"""

from __future__ import annotations

from typing import Final

from longhall.doors.kafka.wire.malformed import WireError
from longhall.doors.kafka.wire.reader import Reader
from longhall.doors.kafka.wire.schema import Message, array, data, decode, encode_into, int32, string


class ConsumerProtocolSubscriptionTopic(Message):
    topic: str = string("1+")
    partitions: list[int] = array("1+", "int32")


class ConsumerProtocolSubscription(Message):
    """The topics of a member, and the partitions that it still owns."""

    topics: list[str] = array("0+", "string")
    user_data: bytes | None = data("0+", null="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopic] = array("1+", ConsumerProtocolSubscriptionTopic)
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", null="3+", default=None)


class ConsumerProtocolAssignmentTopic(Message):
    topic: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class ConsumerProtocolAssignment(Message):
    """The partitions that the leader assigned to a member."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopic] = array("0+", ConsumerProtocolAssignmentTopic)
    user_data: bytes | None = data("0+", null="0+", default=None)


VERSION_MAX: Final = 3


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode what a member sent with JoinGroup. Newer versions are read as the newest one known here."""
    return decode(ConsumerProtocolSubscription, _version(metadata), metadata, 2)[0]


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode what a member got with SyncGroup; empty bytes are an empty assignment."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return decode(ConsumerProtocolAssignment, _version(assignment), assignment, 2)[0]


def encode_membership(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = 1) -> bytes:
    """Encode a subscription or an assignment, behind its version."""
    return bytes(encode_into(bytearray(version.to_bytes(2, "big")), message, version))


def _version(buffer: bytes) -> int:
    version = Reader(buffer, 0, len(buffer)).int16()
    if version < 0:
        raise WireError(f"There is no version {version} of the consumer protocol.")
    return min(version, VERSION_MAX)
