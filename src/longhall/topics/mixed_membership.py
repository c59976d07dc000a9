"""Members of the classic protocol in a group with server-side assignment, and the conversion of groups with members.

While the clients of a group change from one protocol to the other, both kinds are members of one group of the new kind:
classic members join, sync and send heartbeats as ever, and the server is their leader. A classic group is converted
when the first member of the new protocol joins; the group is converted back when the last one leaves.

| classic request | in a group with server-side assignment                                                           |
|-----------------|--------------------------------------------------------------------------------------------------|
| JoinGroup       | a heartbeat with what the subscription says; its answer has the member epoch as the generation     |
| SyncGroup       | returns the assignment of that epoch; REBALANCE_IN_PROGRESS if the group has moved on              |
| Heartbeat       | REBALANCE_IN_PROGRESS while the member has to join again: to give up, or to get, partitions        |
| LeaveGroup      | removes the member                                                                               |
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.topics.assignment import Assigned, Place, Places, assigned, places
from longhall.topics.consumer_group import LEFT_STATIC_EPOCH, ConsumerGroup
from longhall.topics.consumer_membership import ConsumerMembership, FoundMember
from longhall.topics.consumer_protocol import (
    ConsumerSubscription,
    TopicPartitions,
    encode_assignment,
    parse_assignment,
    parse_subscription,
)
from longhall.topics.effects import JoinRequest, JoinResult, SyncRequest, SyncResult
from longhall.topics.events import (
    ClassicMemberFacts,
    ConsumerGroupChanged,
    GroupStable,
    MemberRecord,
    SubscribedMember,
)
from longhall.topics.group import CONSUMER_PROTOCOL_TYPE, Group, TimerKind
from longhall.topics.reconciliation import UNRELEASED, UNREVOKED
from longhall.topics.settings import GroupSettings
from longhall.topics.target_assignment import TopicCatalogue
from longhall.topics.timers import Timer, Timers

UPGRADES: Final = frozenset({"bidirectional", "upgrade"})
DOWNGRADES: Final = frozenset({"bidirectional", "downgrade"})


class JoinedMixed(NamedTuple):
    """The answer to a join, and the event that has to be committed before."""

    result: JoinResult
    event: ConsumerGroupChanged | None = None


@final
class MixedMembership:
    """The classic protocol in groups with server-side assignment. It holds no group: each call gets one."""

    def __init__(self, settings: GroupSettings, consumers: ConsumerMembership, timers: Timers) -> None:
        self._settings = settings
        self._consumers = consumers
        self._timers = timers

    # Classic requests

    def join(self, group: ConsumerGroup, request: JoinRequest, topics: TopicCatalogue, now_ms: int) -> JoinedMixed:
        """JoinGroup. It never waits: the server assigns."""
        try:
            subscription = _subscription_of(group, request)
            found = self._find(group, request)
        except LonghallError as error:
            return JoinedMixed(JoinResult(code=error.code, member_id=request.member_id))
        if found is None:
            result = JoinResult(code=Code.MEMBER_ID_REQUIRED, member_id=request.fresh_member_id)
            return JoinedMixed(result)
        member = msgspec.structs.replace(
            found.member,
            rack_id=found.member.rack_id if subscription.rack is None else subscription.rack,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=tuple(sorted(set(subscription.topics))),
            pattern="",
            assignor=None,
            classic=ClassicMemberFacts(session_timeout_ms=request.session_timeout_ms, protocols=request.protocols),
        )
        owned = _places_of(subscription.owned, topics)
        member, event = self._consumers.advance(group, found, member, owned, topics, now_ms)
        result = JoinResult(
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=request.protocols[0][0],
        )
        return JoinedMixed(result, event)

    def joined(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """After the event of a join: the session begins, and the member has to sync in time."""
        self._consumers.expect(group, member_id, now_ms)
        self._expect_request(group, member_id, now_ms, again=True)

    def sync(self, group: ConsumerGroup, request: SyncRequest, now_ms: int) -> SyncResult:
        """SyncGroup: what the member was assigned when it joined."""
        member = self._known(group, request.member_id, request.instance_id)
        if isinstance(member, Code):
            return SyncResult(code=member)
        assert member.classic is not None
        if request.generation != member.epoch:
            return SyncResult(code=Code.ILLEGAL_GENERATION)
        protocol = member.classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol not in (None, protocol):
            return SyncResult(code=Code.INCONSISTENT_PROTOCOL)
        if member.epoch < group.target.epoch and member.state != UNREVOKED:
            self._expect_request(group, member.member_id, now_ms, again=False)
            return SyncResult(code=Code.REBALANCE_IN_PROGRESS)
        self._request_came(group, member.member_id)
        self._consumers.expect(group, member.member_id, now_ms)
        return SyncResult(
            protocol_type=CONSUMER_PROTOCOL_TYPE, protocol=protocol, assignment=_assignment_of(group, member)
        )

    def heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> Code | None:
        """Heartbeat."""
        member = self._known(group, member_id, instance_id)
        if isinstance(member, Code):
            return member
        if generation != member.epoch:
            return Code.ILLEGAL_GENERATION
        self._consumers.expect(group, member.member_id, now_ms)
        if (
            member.epoch < group.target.epoch
            or member.state == UNREVOKED
            or (member.state == UNRELEASED and not self._waits_for_others(group, member))
        ):
            self._expect_request(group, member.member_id, now_ms, again=False)
            return Code.REBALANCE_IN_PROGRESS
        return None

    def leave(
        self, group: ConsumerGroup, leaving: tuple[tuple[str, str | None], ...]
    ) -> tuple[list[Code | None], tuple[str, ...]]:
        """LeaveGroup: the codes in the order of `leaving`, and the members to remove. An administrator may remove
        static members of either protocol by their instance id alone.
        """
        codes: list[Code | None] = []
        gone: dict[str, None] = {}
        for member_id, instance_id in leaving:
            by_instance = member_id == "" and instance_id is not None
            known = group.instances.get(instance_id or "", "") if by_instance else member_id
            member = self._known(group, known, instance_id, any_protocol=by_instance)
            codes.append(member if isinstance(member, Code) else None)
            if not isinstance(member, Code):
                gone[member.member_id] = None
        return codes, tuple(gone)

    def _find(self, group: ConsumerGroup, request: JoinRequest) -> FoundMember | None:
        """The member that joins; None if it has to come back with the id that it is given."""
        if request.instance_id is None:
            if not request.member_id and request.requires_known_member:
                return None
            member_id = request.member_id or request.fresh_member_id
            known = group.members.get(member_id)
            if known is None:
                self._check_room(group)
                return FoundMember(SubscribedMember(member_id=member_id), is_new=True)
            return FoundMember(known)
        known_id = group.instances.get(request.instance_id)
        if request.member_id:
            known_member = self._known(group, request.member_id, request.instance_id, any_protocol=True)
            if isinstance(known_member, Code):
                raise LonghallError(known_member)
            return FoundMember(known_member)
        if known_id is None:
            self._check_room(group)
            new = SubscribedMember(member_id=request.fresh_member_id, instance_id=request.instance_id)
            return FoundMember(new, is_new=True)
        returned = msgspec.structs.replace(
            group.members[known_id], member_id=request.fresh_member_id, epoch=0, previous_epoch=0, revoking=()
        )
        return FoundMember(returned, is_new=True, replaces=known_id)

    def _check_room(self, group: ConsumerGroup) -> None:
        if len(group.members) >= self._settings.consumer_members_max:
            raise LonghallError(Code.GROUP_FULL)

    def _known(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, any_protocol: bool = False
    ) -> SubscribedMember | Code:
        """The member with these ids, if it uses the classic protocol; else why it is refused."""
        if instance_id is not None:
            known_id = group.instances.get(instance_id)
            if known_id is None:
                return Code.UNKNOWN_MEMBER
            if known_id != member_id:
                return Code.FENCED_INSTANCE
        member = group.members.get(member_id)
        if member is None or (member.classic is None and not any_protocol):
            return Code.UNKNOWN_MEMBER
        return member

    def _waits_for_others(self, group: ConsumerGroup, member: SubscribedMember) -> bool:
        """True as long as no further partition of its target is free."""
        missing = places(group.target.of_member.get(member.member_id, ())) - places(member.assigned)
        return all(group.is_owned_by_other(place, member.member_id) for place in missing)

    def _expect_request(self, group: ConsumerGroup, member_id: str, now_ms: int, again: bool) -> None:
        """The member has to join or to sync within its rebalance time-out."""
        if member_id in group.rebalances and not again:
            return
        timer = group.rebalances.setdefault(member_id, Timer(group, TimerKind.REBALANCE, member_id))
        self._timers.set(timer, now_ms + group.members[member_id].rebalance_timeout_ms)

    def _request_came(self, group: ConsumerGroup, member_id: str) -> None:
        timer = group.rebalances.pop(member_id, None)
        if timer is not None:
            self._timers.cancel(timer)

    # Converting

    def may_upgrade(self, group: Group) -> bool:
        """True if the settings let a classic group with members become one with server-side assignment."""
        return (
            self._settings.consumer_migration in UPGRADES
            and group.protocol_type == CONSUMER_PROTOCOL_TYPE
            and len(group.members) <= self._settings.consumer_members_max
        )

    def may_downgrade(self, group: ConsumerGroup) -> bool:
        """True if the group has members, all of them classic, and the settings let it become a classic group."""
        return (
            self._settings.consumer_migration in DOWNGRADES
            and bool(group.members)
            and len(group.members) <= self._settings.members_max
            and all(member.classic is not None for member in group.members.values())
        )

    def upgraded(self, group: Group, topics: TopicCatalogue, now_ms: int) -> ConsumerGroupChanged:
        """The group with server-side assignment that continues a classic group with members: everybody keeps what it
        has. Raises ValueError if the members' protocol is not that of consumers.
        """
        members = []
        owned: set[Place] = set()
        for member in group.members.values():
            subscription = parse_subscription(member.protocols[0][1])
            has = _places_of(parse_assignment(member.assignment), topics) - owned
            owned |= has
            members.append(
                SubscribedMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=subscription.rack,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    topics=tuple(sorted(set(subscription.topics))),
                    epoch=group.generation,
                    previous_epoch=group.generation,
                    assigned=assigned(has),
                    classic=ClassicMemberFacts(
                        session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
                    ),
                )
            )
        return ConsumerGroupChanged(
            group_id=group.group_id,
            epoch=group.generation,
            assignment_epoch=group.generation,
            topics=(),
            members=tuple(members),
            targets=tuple((member.member_id, member.assigned) for member in members),
            at_ms=now_ms,
            complete=True,
        )

    def downgraded(self, group: ConsumerGroup) -> GroupStable:
        """The classic group that continues a group with classic members alone."""
        supported = [
            {name for name, _ in member.classic.protocols}
            for member in group.members.values()
            if member.classic is not None
        ]
        shared = set.intersection(*supported)
        first = next(iter(group.members.values()))
        assert first.classic is not None
        return GroupStable(
            group_id=group.group_id,
            generation=group.target.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=next(name for name, _ in first.classic.protocols if name in shared),
            leader=first.member_id,
            members=tuple(_classic_record(group, member) for member in group.members.values()),
        )


def _subscription_of(group: ConsumerGroup, request: JoinRequest) -> ConsumerSubscription:
    """What the member subscribes to, if its protocols fit those of the other classic members."""
    names = {name for name, _ in request.protocols}
    for member in group.members.values():
        if member.classic is not None and member.member_id != request.member_id:
            names &= {name for name, _ in member.classic.protocols}
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
        raise LonghallError(Code.INCONSISTENT_PROTOCOL)
    try:
        return parse_subscription(request.protocols[0][1])
    except ValueError as error:
        raise LonghallError(Code.INCONSISTENT_PROTOCOL, str(error)) from None


def _places_of(partitions: TopicPartitions, topics: TopicCatalogue) -> Places:
    found = {name: topics.find(name) for name in partitions}
    return frozenset(
        (topic.topic_id, number)
        for name, topic in found.items()
        if topic is not None
        for number in partitions[name]
        if 0 <= number < topic.partitions
    )


def _assignment_of(group: ConsumerGroup, member: SubscribedMember) -> bytes:
    assert member.classic is not None
    version = int.from_bytes(member.classic.protocols[0][1][:2], "big", signed=True)
    return encode_assignment(version, _by_name(group, member.assigned))


def _by_name(group: ConsumerGroup, rows: Assigned) -> TopicPartitions:
    names = {topic.topic_id: topic.name for topic in group.target.topics.values()}
    return {names[topic_id]: partitions for topic_id, partitions in rows if topic_id in names}


def _classic_record(group: ConsumerGroup, member: SubscribedMember) -> MemberRecord:
    assert member.classic is not None
    return MemberRecord(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.classic.protocols,
        assignment=b"" if member.epoch == LEFT_STATIC_EPOCH else _assignment_of(group, member),
    )
