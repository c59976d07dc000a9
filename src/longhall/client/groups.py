"""Administration of consumer groups: their members, their committed offsets, and resetting those.

Membership itself is in `member`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, final

from longhall.client.records import LATEST
from longhall.client.refusals import COORDINATOR_MOVED, check
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages import commits as c
from longhall.doors.kafka.wire.messages import consumer_groups as a
from longhall.doors.kafka.wire.messages import group_admin as g
from longhall.doors.kafka.wire.messages.cluster import CoordinatorType
from longhall.doors.kafka.wire.messages.membership import ConsumerProtocolAssignment, decode_assignment
from longhall.topics.consumer_protocol import encode_assignment

if TYPE_CHECKING:
    from longhall.client.hall import Hall

_BY_NAME_VERSION_MAX: Final = 9  # Later versions of OffsetCommit and OffsetFetch know topics by id alone.

Place = tuple[str, int]  # Topic and partition.


class Committed(NamedTuple):
    """The committed position of a group in one partition: the next offset to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Membership(NamedTuple):
    """The member that commits. The default is a client outside the group, which is allowed while the group is empty."""

    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None


@final
class Groups:
    """Requests about groups, reached as `hall.groups`. Everything is retried until the hall's timeout."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def list(self, states: list[str] | None = None) -> list[g.ListGroupsResponseGroup]:
        """The groups of all brokers, by name."""
        found: dict[str, g.ListGroupsResponseGroup] = {}
        for node_id in self._hall.brokers:

            async def attempt(node_id: int = node_id) -> g.ListGroupsResponse:
                answer = await self._hall.ask(
                    node_id, g.ListGroupsRequest(states_filter=states or []), g.ListGroupsResponse
                )
                check(answer.error_code)
                return answer

            found.update({group.group_id: group for group in (await self._hall.persist(attempt)).groups})
        return [found[name] for name in sorted(found)]

    async def describe(self, group_id: str) -> g.DescribeGroupsResponseGroup:
        """Raises Refused (GROUP_ID_NOT_FOUND) if the group does not exist, also where the protocol calls it dead."""

        async def attempt() -> g.DescribeGroupsResponseGroup:
            request = g.DescribeGroupsRequest(groups=[group_id])
            answer = await self._hall.ask_coordinator(
                CoordinatorType.GROUP, group_id, request, g.DescribeGroupsResponse
            )
            group = answer.groups[0]
            is_dead = group.error_code == 0 and group.group_state == "Dead"
            if is_dead or group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return await self._describe_assigned(group_id)
            self._check(group_id, group.error_code, group.error_message)
            return group

        return await self._hall.persist(attempt)

    async def _describe_assigned(self, group_id: str) -> g.DescribeGroupsResponseGroup:
        """A group with server-side assignment, in the form of a classic one."""
        request = a.ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer = await self._hall.ask_coordinator(
            CoordinatorType.GROUP, group_id, request, a.ConsumerGroupDescribeResponse
        )
        group = answer.groups[0]
        self._check(group_id, group.error_code)
        return g.DescribeGroupsResponseGroup(
            group_id=group_id,
            group_state=group.group_state,
            protocol_type="consumer",
            protocol_data=group.assignor_name,
            members=[
                g.DescribeGroupsResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_assignment=encode_assignment(
                        0, {row.topic_name: tuple(row.partitions) for row in member.assignment.topic_partitions}
                    ),
                )
                for member in group.members
            ],
        )

    async def delete(self, group_id: str) -> None:
        async def attempt() -> None:
            request = g.DeleteGroupsRequest(groups_names=[group_id])
            answer = await self._hall.ask_coordinator(CoordinatorType.GROUP, group_id, request, g.DeleteGroupsResponse)
            self._check(group_id, answer.results[0].error_code)

        await self._hall.persist(attempt)

    async def offsets(
        self, group_id: str, places: Sequence[Place] | None = None, *, stable: bool = False
    ) -> dict[Place, Committed]:
        """The committed offsets of a group, everywhere or in some places; with `stable` without those of open
        transactions.
        """

        async def attempt() -> c.OffsetFetchResponse:
            request = _offset_fetch(group_id, places, stable)
            answer = await self._hall.ask_coordinator(
                CoordinatorType.GROUP, group_id, request, c.OffsetFetchResponse, version_max=_BY_NAME_VERSION_MAX
            )
            self._check(group_id, answer.groups[0].error_code if answer.groups else answer.error_code)
            return answer

        found: dict[Place, Committed] = {}
        answer = await self._hall.persist(attempt)
        topics: Sequence[c.OffsetFetchResponseGroupTopic | c.OffsetFetchResponseTopic]
        topics = answer.groups[0].topics if answer.groups else answer.topics
        for topic in topics:
            for part in topic.partitions:
                check(part.error_code, f"{topic.name}-{part.partition_index}")
                if part.committed_offset >= 0:
                    found[topic.name, part.partition_index] = Committed(
                        part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                    )
        return dict(sorted(found.items()))

    async def commit(
        self, group_id: str, offsets: dict[Place, Committed], membership: Membership | None = None
    ) -> None:
        """Commit offsets. Raises Refused with the first error of any partition."""
        who = membership or Membership()
        request = c.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=topics_of(offsets, c.OffsetCommitRequestTopic, c.OffsetCommitRequestPartition),
        )

        async def attempt() -> None:
            answer = await self._hall.ask_coordinator(
                CoordinatorType.GROUP, group_id, request, c.OffsetCommitResponse, version_max=_BY_NAME_VERSION_MAX
            )
            for topic in answer.topics:
                for part in topic.partitions:
                    self._check(group_id, part.error_code, f"{topic.name}-{part.partition_index}")

        await self._hall.persist(attempt)

    async def reset(
        self, group_id: str, topic: str, to: int, partitions: Sequence[int] | None = None
    ) -> dict[int, int]:
        """Reset an empty group to EARLIEST, to LATEST, or to a time in milliseconds; returns the new offsets."""
        if partitions is None:
            partitions = [part.partition_index for part in (await self._hall.topics.describe(topic)).partitions]
        ends = await self._hall.persist(lambda: self._at(topic, partitions, LATEST))
        found = ends if to == LATEST else await self._hall.persist(lambda: self._at(topic, partitions, to))
        offsets = {place: found[place] if found[place] >= 0 else ends[place] for place in partitions}
        await self.commit(group_id, {(topic, part): Committed(offset) for part, offset in offsets.items()})
        return offsets

    async def _at(self, topic: str, partitions: Sequence[int], timestamp_ms: int) -> dict[int, int]:
        found = await self._hall.records.list_offsets(topic, dict.fromkeys(partitions, timestamp_ms))
        return {partition: each.offset for partition, each in found.items()}

    async def delete_offsets(self, group_id: str, places: Sequence[Place]) -> None:
        topics: dict[str, c.OffsetDeleteRequestTopic] = {}
        for topic, partition in places:
            row = topics.setdefault(topic, c.OffsetDeleteRequestTopic(name=topic))
            row.partitions.append(c.OffsetDeleteRequestPartition(partition_index=partition))
        request = c.OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        async def attempt() -> None:
            answer = await self._hall.ask_coordinator(CoordinatorType.GROUP, group_id, request, c.OffsetDeleteResponse)
            self._check(group_id, answer.error_code)
            for topic in answer.topics:
                for part in topic.partitions:
                    self._check(group_id, part.error_code, f"{topic.name}-{part.partition_index}")

        await self._hall.persist(attempt)

    async def lag(self, group_id: str) -> dict[Place, tuple[Committed, int]]:
        """The committed offset and the end of each partition."""
        committed = await self.offsets(group_id)
        ends: dict[Place, int] = {}
        for topic in {topic for topic, _ in committed}:
            partitions = [partition for name, partition in committed if name == topic]
            found = await self._hall.persist(partial(self._at, topic, partitions, LATEST))
            ends.update({(topic, partition): offset for partition, offset in found.items()})
        return {place: (each, ends[place]) for place, each in sorted(committed.items())}

    def _check(self, group_id: str, error_code: int, message: str | None = "") -> None:
        if error_code in COORDINATOR_MOVED:
            self._hall.forget_coordinator(CoordinatorType.GROUP, group_id)
        check(error_code, message or f"group {group_id}")


class _TopicRow(Protocol):
    partitions: list[Any]


_Topic = TypeVar("_Topic", bound=_TopicRow)


def topics_of(
    offsets: dict[Place, Committed], topic_row: Callable[..., _Topic], partition_row: Callable[..., object]
) -> list[_Topic]:
    """Offsets as the rows of a request that commits them, within a transaction or outside."""
    topics: dict[str, _Topic] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, topic_row(name=topic)).partitions.append(
            partition_row(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return list(topics.values())


def assignment_of(member: g.DescribeGroupsResponseMember) -> ConsumerProtocolAssignment:
    """The assignment of a member that uses the consumer protocol. Raises WireError for any other."""
    return decode_assignment(member.member_assignment)


def _offset_fetch(group_id: str, places: Sequence[Place] | None, stable: bool) -> c.OffsetFetchRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places or ():
        by_topic.setdefault(topic, []).append(partition)
    old = None
    new = None
    if places is not None:
        old = [c.OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in by_topic.items()]
        new = [c.OffsetFetchRequestGroupTopic(name=name, partition_indexes=parts) for name, parts in by_topic.items()]
    return c.OffsetFetchRequest(
        group_id=group_id,
        topics=old,
        groups=[c.OffsetFetchRequestGroup(group_id=group_id, topics=new)],
        require_stable=stable,
    )
