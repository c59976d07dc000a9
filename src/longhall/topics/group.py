"""One consumer group: who is in it, in which state, and what was last written about it.

The rules of the protocol that moves it are in `membership`; this is the noun. It does no timing and answers nobody.
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
    """What a group's timers are for."""

    MEMBER = 0  # A member was silent for its session, or a pending one never came back.
    JOIN = 1  # Whoever has not joined by now is left behind.
    SYNC = 2  # Whoever has not synced by now is left behind.
    EXPIRY = 3  # Offsets, or the whole group, may have become too old.


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
    | Completing | somebody joins, leaves, falls silent or does not sync | Preparing  |
    | Stable     | somebody joins, leaves, falls silent or does not sync | Preparing  |

    A static member that comes back in Stable with nothing changed leaves it Stable, under its new member id.
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

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}  # Instance id to member id.
        self.joined = 0  # How many have a join parked.
        self._support: dict[str, int] = {}  # Protocol to how many members know it.
        self.pending_joins: dict[str, Timer] = {}  # Given an id and asked to come back with it (KIP-394).
        self.pending_syncs: dict[str, None] = {}  # In order, unlike a set.
        self.member_added = False  # Since the last look at an initial rebalance, which then waits a little longer.
        self.initial_wait_left_ms = 0
        self.join_timer = Timer(self, TimerKind.JOIN)
        self.sync_timer = Timer(self, TimerKind.SYNC)
        self.expiry_timer = Timer(self, TimerKind.EXPIRY)
        self.offsets = OffsetTable()
        # The durable side, beside the offsets: what was last written about the members, and whether anything was.
        self.recorded: GroupStable | GroupEmptied | None = None
        self.has_events = False

    def transition(self, state: State) -> None:
        assert (self.state, state) in self.TRANSITIONS, f"{self.state} to {state}"
        self.previous_state = self.state
        self.state = state

    @property
    def is_written(self) -> bool:
        """Whether the journal knows of this group, so that it can only go with an event."""
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
            assert member.join_ticket is None, "a parked join is answered before its member goes"
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member came back under another id and takes the place of its former self."""
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
        """Whether the member is who it says it is."""
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                return Code.UNKNOWN_MEMBER
            if known != member_id:
                return Code.FENCED_INSTANCE
        return None if member_id in self.members else Code.UNKNOWN_MEMBER

    def take(self, member: ConsumerMember, request: JoinRequest) -> None:
        """Believe what a join says of a member that is here already."""
        self._count_protocols(member, -1)
        member.take(request)
        self._count_protocols(member, 1)

    def park_join(self, member: ConsumerMember, ticket: object) -> object | None:
        """Let the member wait for the next generation; an earlier ticket, if it has one, is given back."""
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
        """Keep the leader if it has joined, else take somebody who has; False if nobody has."""
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
        """Whether a member with these protocols has one in common with everybody."""
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
        """Whether members read the topic; when that cannot be known of consumers, they are taken to."""
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
