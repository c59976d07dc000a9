"""One consumer group with server-side assignment (KIP-848): its members, its target and who owns which partition.

The rules of the protocol are in `consumer_membership`; this module has the data. Only `apply` changes what is durable.
"""

from __future__ import annotations

import enum
from typing import Final, final

from longhall.topics.assignment import Place, places
from longhall.topics.events import ConsumerGroupChanged, SubscribedMember
from longhall.topics.group import TimerKind
from longhall.topics.offsets import OffsetTable
from longhall.topics.reconciliation import is_reconciled
from longhall.topics.target_assignment import TargetAssignment
from longhall.topics.timers import Timer

LEFT_STATIC_EPOCH: Final = -2  # Of a static member that left and will return.


class ConsumerGroupState(enum.Enum):
    """The states of a group with server-side assignment; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@final
class ConsumerGroup:
    """A group. Its state follows from its members and its target:

    | state       | when                                                                          |
    |-------------|-------------------------------------------------------------------------------|
    | Empty       | it has no members                                                             |
    | Assigning   | the group epoch is larger than the assignment epoch: targets must be computed |
    | Reconciling | a member has not reached its target, or not the epoch of the target           |
    | Stable      | all members have their targets                                                |

    | from        | when                                                             | to          |
    |-------------|------------------------------------------------------------------|-------------|
    | Empty       | a member joins and nobody owns its partitions                    | Stable      |
    | Stable      | a member joins, subscribes otherwise, or a topic changes         | Reconciling |
    | Stable      | a member leaves, expires, or does not give up partitions in time | Assigning   |
    | Assigning   | the next heartbeat of a member                                   | Reconciling |
    | Reconciling | the last member has reached its target                           | Stable      |
    | any         | the last member leaves or expires                                | Empty       |
    """

    def __init__(self, group_id: str, offsets: OffsetTable | None = None) -> None:
        self.group_id = group_id
        self.target = TargetAssignment()
        self.members: dict[str, SubscribedMember] = {}
        self.instances: dict[str, str] = {}  # Instance id to member id.
        self.owners: dict[Place, str] = {}  # The member that reads a partition, or has not given it up yet.
        self.sessions: dict[str, Timer] = {}
        self.rebalances: dict[str, Timer] = {}  # Of members that have to give up partitions, or to join again.
        self.offsets = OffsetTable() if offsets is None else offsets
        self.expiry_timer = Timer(self, TimerKind.EXPIRY)
        self.has_events = True
        self.emptied_ms: int | None = None
        self.topics_version = -1  # The version of the catalogue that `target.topics` is known to agree with.

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        target = self.target
        if target.epoch > target.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(is_reconciled(member, target.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_written(self) -> bool:
        """True: it exists only through its events."""
        return True

    def is_subscribed(self, topic: str) -> bool:
        """True if members read the topic."""
        return topic in self.target.topics or any(topic in member.topics for member in self.members.values())

    def is_owned_by_other(self, place: Place, *member_ids: str) -> bool:
        """True if a member other than these owns the partition."""
        owner = self.owners.get(place)
        return owner is not None and owner not in member_ids

    def apply(self, event: ConsumerGroupChanged) -> None:
        if event.complete:
            self.members, self.instances, self.owners = {}, {}, {}
        self.target.apply(event)
        for member_id in event.removed:
            self._release(self.members.pop(member_id, None))
        for member in event.members:
            self._release(self.members.get(member.member_id))
        for member in event.members:
            self.members[member.member_id] = member
            if member.instance_id is not None:
                self.instances[member.instance_id] = member.member_id
            for place in places(member.assigned) | places(member.revoking):
                assert place not in self.owners, "a partition has two owners"
                self.owners[place] = member.member_id
        self.emptied_ms = None if self.members else event.at_ms

    def _release(self, member: SubscribedMember | None) -> None:
        if member is None:
            return
        for place in places(member.assigned) | places(member.revoking):
            del self.owners[place]
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]

    def record(self) -> ConsumerGroupChanged:
        """All durable state beside the offsets, as one event."""
        target = self.target
        return ConsumerGroupChanged(
            group_id=self.group_id,
            epoch=target.epoch,
            assignment_epoch=target.assignment_epoch,
            topics=tuple((topic.topic_id, topic.name, topic.partitions) for topic in target.topics.values()),
            members=tuple(self.members.values()),
            targets=tuple(target.of_member.items()),
            at_ms=self.emptied_ms or 0,
            complete=True,
        )
