"""One consumer group: its members, its state, and the last event written about it.

The rules of the protocol are in `membership`; this module has the data. It sets no timers and sends no replies.
"""

from __future__ import annotations

import enum
from typing import Final, final

from longhall.errors import Code
from longhall.topics.effects import JoinRequest
from longhall.topics.events import GroupEmptied, GroupStable
from longhall.topics.member import ConsumerMember
from longhall.topics.offsets import OffsetTable
from longhall.topics.timers import Timer

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class TimerKind(enum.IntEnum):
    """The purpose of a group's timer."""

    MEMBER = 0  # A member's session expired, or a pending member did not return.
    JOIN = 1  # Members that have not joined by now are removed.
    SYNC = 2  # Members that have not synced by now are removed.
    EXPIRY = 3  # Offsets, or the whole group, may have expired.
    REBALANCE = 4  # A member of a group with server-side assignment has not given up its partitions by now.


class State(enum.Enum):
    """The states of a group; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@final
class Group:
    """A consumer group of the classic protocol.

    | from       | when                                                  | to         |
    |------------|-------------------------------------------------------|------------|
    | Empty      | a member joins                                        | Preparing  |
    | Empty      | it is deleted, or expires                             | Dead       |
    | Preparing  | all have joined, or the time is over                  | Completing |
    | Preparing  | all have left                                         | Empty      |
    | Completing | the leader sends the assignments                      | Stable     |
    | Completing | a member joins, leaves, expires or does not sync      | Preparing  |
    | Stable     | a member joins, leaves, expires or does not sync      | Preparing  |

    A static member that rejoins in Stable with nothing changed leaves it Stable, under its new member id.
    """

    TRANSITIONS: Final = frozenset(
        {
            (State.EMPTY, State.PREPARING),
            (State.EMPTY, State.DEAD),
            (State.PREPARING, State.COMPLETING),
            (State.PREPARING, State.EMPTY),
            (State.COMPLETING, State.STABLE),
            (State.COMPLETING, State.PREPARING),
            (State.STABLE, State.PREPARING),
        }
    )

    def __init__(self, group_id: str, offsets: OffsetTable | None = None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}  # Instance id to member id.
        self.joined = 0  # The number of members with a waiting join.
        self._support: dict[str, int] = {}  # Protocol to the number of members that support it.
        self.pending_joins: dict[str, Timer] = {}  # Members that got an id and must return with it (KIP-394).
        self.pending_syncs: dict[str, None] = {}  # Ordered, unlike a set.
        self.member_added = False  # Since the last check of an initial rebalance, which then waits a little longer.
        self.initial_wait_left_ms = 0
        self.join_timer = Timer(self, TimerKind.JOIN)
        self.sync_timer = Timer(self, TimerKind.SYNC)
        self.expiry_timer = Timer(self, TimerKind.EXPIRY)
        self.offsets = OffsetTable() if offsets is None else offsets
        # The durable state beside the offsets: the last event about the members, and whether there is any.
        self.recorded: GroupStable | GroupEmptied | None = None
        self.has_events = False

    def transition(self, state: State) -> None:
        assert (self.state, state) in self.TRANSITIONS, f"{self.state} to {state}"
        self.previous_state = self.state
        self.state = state

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def emptied_ms(self) -> int | None:
        """When the last member left; None if the group has members or never had any."""
        recorded = self.recorded
        return recorded.at_ms if self.state is State.EMPTY and isinstance(recorded, GroupEmptied) else None

    @property
    def is_written(self) -> bool:
        """True if the log has events of this group, so that only an event can remove it."""
        return self.has_events or self.recorded is not None

    # Members

    def add(self, member: ConsumerMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.instances
            self.instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> ConsumerMember | None:
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.join_ticket is None, "a waiting join is answered before its member is removed"
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Replace a static member that rejoined under another id."""
        assert old.instance_id is not None
        self.members = {
            new.member_id if known == old.member_id else known: new if known == old.member_id else member
            for known, member in self.members.items()
        }
        self._count_protocols(old, -1)
        self._count_protocols(new, 1)
        self.instances[old.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[new.member_id] = None

    def check_member(self, member_id: str, instance_id: str | None) -> Code | None:
        """Why this member id and instance id are refused; None if they are valid."""
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                return Code.UNKNOWN_MEMBER
            if known != member_id:
                return Code.FENCED_INSTANCE
        return None if member_id in self.members else Code.UNKNOWN_MEMBER

    def take(self, member: ConsumerMember, request: JoinRequest) -> None:
        """Update a present member from its join request."""
        self._count_protocols(member, -1)
        member.take(request)
        self._count_protocols(member, 1)

    def park_join(self, member: ConsumerMember, ticket: object) -> object | None:
        """Let the member wait for the next generation; returns the ticket of an earlier waiting join."""
        earlier = member.join_ticket
        if earlier is None:
            self.joined += 1
        member.join_ticket = ticket
        return earlier

    def unpark_join(self, member: ConsumerMember) -> object | None:
        ticket = member.join_ticket
        if ticket is not None:
            self.joined -= 1
            member.join_ticket = None
        return ticket

    @property
    def all_joined(self) -> bool:
        return not self.pending_joins and self.joined == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect a member that has; False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader = member.member_id
                return True
        return False

    def members_for_leader(self) -> tuple[tuple[str, str | None, bytes], ...]:
        assert self.protocol is not None
        return tuple(
            (member.member_id, member.instance_id, member.metadata(self.protocol)) for member in self.members.values()
        )

    # Protocols

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """True if a member with these protocols shares one with every member."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._support.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members know; the first one at a tie."""
        candidates = frozenset(name for name, count in self._support.items() if count == len(self.members))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count_protocols(self, member: ConsumerMember, change: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self._support.get(name, 0) + change
            if count:
                self._support[name] = count
            else:
                del self._support[name]

    def is_subscribed(self, topic: str) -> bool:
        """True if members read the topic, or if that cannot be determined."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if not self.members:
            return False
        if self.protocol is None:
            return True
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol))
            if topics is None or topic in topics:
                return True
        return False


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's metadata, whose beginning is the same in all versions; None if it is something else.

    | version i16 | count i32 | count times: length i16, name | ...
    """
    if len(metadata) < 6:
        return None
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    at = 6
    topics: list[str] = []
    for _ in range(count):
        length = int.from_bytes(metadata[at : at + 2], "big", signed=True)
        at += 2
        if length < 0 or at + length > len(metadata):
            return None
        topics.append(metadata[at : at + length].decode(errors="replace"))
        at += length
    return topics
