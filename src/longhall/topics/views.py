"""Read-only views of groups: a row of a listing, a description, a fetched offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from longhall.errors import Code
from longhall.topics.assignment import Assigned
from longhall.topics.consumer_group import ConsumerGroup
from longhall.topics.events import SubscribedMember
from longhall.topics.group import CONSUMER_PROTOCOL_TYPE, Group, State

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class FetchedOffset(msgspec.Struct, frozen=True):
    """A row of OffsetFetch; -1 where nothing was committed."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = -1
    code: Code | None = None


class GroupListing(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: str = CLASSIC


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A member as DescribeGroups returns it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group as DescribeGroups returns it."""

    group_id: str
    state: str
    generation: int
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


class ConsumerMemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A member as ConsumerGroupDescribe returns it."""

    member: SubscribedMember
    target: Assigned


class ConsumerGroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A group as ConsumerGroupDescribe returns it."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


def listing(group: Group | ConsumerGroup) -> GroupListing:
    if isinstance(group, ConsumerGroup):
        return GroupListing(
            group_id=group.group_id, protocol_type=CONSUMER_PROTOCOL_TYPE, state=group.state.value, kind=CONSUMER
        )
    return GroupListing(
        group_id=group.group_id, protocol_type=group.protocol_type or "", state=group.state.value, kind=CLASSIC
    )


def describe(group: Group) -> GroupDescription:
    """The description of a group. Metadata and assignments are included only for a stable group."""
    stable = group.state is State.STABLE and group.protocol is not None
    protocol = group.protocol if stable and group.protocol is not None else ""
    return GroupDescription(
        group_id=group.group_id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=protocol,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(protocol) if stable else b"",
                assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ),
    )


def describe_consumers(group: ConsumerGroup, assignor: str) -> ConsumerGroupDescription:
    """The description of a group with server-side assignment."""
    target = group.target
    return ConsumerGroupDescription(
        group_id=group.group_id,
        state=group.state.value,
        epoch=target.epoch,
        assignment_epoch=target.assignment_epoch,
        assignor=assignor,
        members=tuple(
            ConsumerMemberDescription(member=member, target=target.of_member.get(member.member_id, ()))
            for member in group.members.values()
        ),
    )


def fetched(
    group: Group | ConsumerGroup, partitions: Iterable[tuple[str, int]] | None, require_stable: bool
) -> list[FetchedOffset]:
    """The committed offsets of these partitions, or of all; with `require_stable`, pending ones are refused."""
    offsets = group.offsets
    unstable = offsets.unstable() if require_stable and offsets.has_pending else set()
    if partitions is None:
        known = [(topic, partition) for topic, partition, _ in offsets.all()]
        partitions = [*known, *sorted(unstable.difference(known))]
    found = []
    for topic, partition in partitions:
        row = offsets.get(topic, partition)
        if (topic, partition) in unstable:
            found.append(FetchedOffset(topic, partition, code=Code.UNSTABLE_OFFSETS))
        elif row is None:
            found.append(FetchedOffset(topic, partition))
        else:
            found.append(FetchedOffset(topic, partition, row[0], row[1], row[2], row[3]))
    return found
