"""The consumer group protocol with server-side assignment (KIP-848): one heartbeat joins, reports, and gets its answer.

A heartbeat updates the member, computes new targets if members, subscriptions or topics have changed, and takes the
member one step towards its target (`reconciliation`). Each call decides one event, or none; the caller applies and
writes it. This module knows neither offsets nor other groups. A refusal is a `LonghallError`.

    epoch of the request   meaning
    0                      join, or join again: the member owns nothing
    the member's own       a heartbeat
    the previous one       a heartbeat of a member that missed the last answer, if it owns nothing but what it has
    -1                     leave
    -2                     leave as a static member: it keeps its partitions until its session expires
    another                FENCED_MEMBER_EPOCH: the member gives up everything and joins again
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.topics.assignment import Assigned, Places, places
from longhall.topics.assignors import ASSIGNORS, SubscribedTopic
from longhall.topics.consumer_group import LEFT_STATIC_EPOCH, ConsumerGroup
from longhall.topics.effects import ConsumerHeartbeat, ConsumerHeartbeatResult
from longhall.topics.events import ConsumerGroupChanged, SubscribedMember
from longhall.topics.group import TimerKind
from longhall.topics.group_configuration import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, GroupConfigurations
from longhall.topics.reconciliation import UNREVOKED, is_reconciled, reconcile
from longhall.topics.settings import GroupSettings
from longhall.topics.target_assignment import Subscriptions, TopicCatalogue, decide_targets
from longhall.topics.timers import Timer, Timers

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class Advance(NamedTuple):
    """A member after its request, and the event that made it so; None if nothing has changed."""

    member: SubscribedMember
    event: ConsumerGroupChanged | None


class FoundMember(NamedTuple):
    """The member of a request; `replaces` is the member id of a static member that it takes over."""

    member: SubscribedMember
    is_new: bool = False
    replaces: str = ""


class _Plan(NamedTuple):
    """What a request makes of its group: the epoch, the subscribed topics, and new targets, if there are any."""

    epoch: int
    topics: dict[str, SubscribedTopic]
    targets: dict[str, Assigned]


@final
class ConsumerMembership:
    """The rules of the protocol. It holds no group: each call gets one."""

    def __init__(self, settings: GroupSettings, configurations: GroupConfigurations, timers: Timers) -> None:
        self._settings = settings
        self._configurations = configurations
        self._timers = timers
        self._subscriptions = Subscriptions()

    # Checking

    def check(self, request: ConsumerHeartbeat) -> None:
        """Refuse a request that cannot be right in any state."""
        for name, value in (
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        ):
            if value == "":
                raise LonghallError(Code.INVALID_REQUEST, f"{name} can't be empty.")
        joins = request.epoch == JOIN_EPOCH
        if not request.member_id and not (joins and request.fresh_member_id):
            raise LonghallError(Code.INVALID_REQUEST, "MemberId can't be empty.")
        if request.epoch < LEFT_STATIC_EPOCH:
            raise LonghallError(Code.INVALID_REQUEST, "MemberEpoch is invalid.")
        if request.epoch == LEFT_STATIC_EPOCH and request.instance_id is None:
            raise LonghallError(Code.INVALID_REQUEST, "InstanceId can't be null.")
        if joins:
            _check_join(request)
        if request.assignor is not None and request.assignor not in self._settings.consumer_assignors:
            supported = ", ".join(self._settings.consumer_assignors)
            reason = f"ServerAssignor {request.assignor} is not supported. Supported assignors: {supported}."
            raise LonghallError(Code.UNSUPPORTED_ASSIGNOR, reason)
        if request.pattern:
            try:
                self._subscriptions.compile(request.pattern)
            except ValueError as error:
                reason = f"SubscribedTopicRegex `{request.pattern[:200]}` is not a valid regular expression: {error}."
                raise LonghallError(Code.INVALID_REGULAR_EXPRESSION, reason) from None

    # Heartbeats

    def heartbeat(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, topics: TopicCatalogue, now_ms: int
    ) -> Advance:
        """A member joins or sends its heartbeat."""
        found = self._find(group, request)
        member = msgspec.structs.replace(
            found.member,
            rack_id=found.member.rack_id if request.rack_id is None else request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=(
                found.member.rebalance_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
            ),
            topics=found.member.topics if request.topics is None else tuple(sorted(set(request.topics))),
            pattern=found.member.pattern if request.pattern is None else request.pattern,
            assignor=found.member.assignor if request.assignor is None else request.assignor,
            classic=None,
        )
        owned = None if request.owned is None else places(request.owned)
        return self.advance(group, found, member, owned, topics, now_ms)

    def answer(
        self, request: ConsumerHeartbeat, before: SubscribedMember | None, after: SubscribedMember
    ) -> ConsumerHeartbeatResult:
        """The answer to a heartbeat that took the member from `before` to `after`."""
        is_full = request.epoch == JOIN_EPOCH or (
            request.rebalance_timeout_ms >= 0
            and (request.topics is not None or request.pattern is not None)
            and request.owned is not None
        )
        changed = before is None or before.assigned != after.assigned
        return ConsumerHeartbeatResult(
            member_id=after.member_id,
            epoch=after.epoch,
            heartbeat_interval_ms=self._configurations.value(request.group_id, HEARTBEAT_INTERVAL),
            assigned=after.assigned if is_full or changed else None,
        )

    def _find(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> FoundMember:
        joins = request.epoch == JOIN_EPOCH
        member_id = request.member_id or request.fresh_member_id
        if request.instance_id is not None:
            found = self._find_static(group, request, request.instance_id, member_id)
        elif member_id in group.members:
            found = FoundMember(group.members[member_id])
        elif joins:
            found = FoundMember(SubscribedMember(member_id=member_id), is_new=True)
        else:
            raise LonghallError(Code.UNKNOWN_MEMBER, f"Member {member_id} is not a member of group {group.group_id}.")
        if found.is_new and not found.replaces and len(group.members) >= self._settings.consumer_members_max:
            reason = f"The consumer group has reached its maximum capacity of {len(group.members)} members."
            raise LonghallError(Code.GROUP_FULL, reason)
        if not joins:
            _check_epoch(found.member, request)
        return found

    def _find_static(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, instance_id: str, member_id: str
    ) -> FoundMember:
        joins = request.epoch == JOIN_EPOCH
        known_id = group.instances.get(instance_id)
        if known_id is None:
            if not joins:
                raise LonghallError(Code.UNKNOWN_MEMBER, f"Instance id {instance_id} is unknown.")
            return FoundMember(SubscribedMember(member_id=member_id, instance_id=instance_id), is_new=True)
        known = group.members[known_id]
        if joins and known.epoch != LEFT_STATIC_EPOCH and known.classic is None and known_id != member_id:
            reason = f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            reason += f"instance id is owned by {known_id} member."
            raise LonghallError(Code.UNRELEASED_INSTANCE, reason)
        if joins and (known_id != member_id or known.epoch == LEFT_STATIC_EPOCH):
            returned = msgspec.structs.replace(known, member_id=member_id, epoch=0, previous_epoch=0)
            return FoundMember(returned, is_new=True, replaces=known_id)
        if known_id != member_id:
            reason = f"Static member {member_id} with instance id {instance_id} was fenced by member {known_id}."
            raise LonghallError(Code.FENCED_INSTANCE, reason)
        return FoundMember(known)

    def advance(
        self,
        group: ConsumerGroup,
        found: FoundMember,
        member: SubscribedMember,
        owned: Places | None,
        topics: TopicCatalogue,
        now_ms: int,
    ) -> Advance:
        """Take the member, as its request has changed it, one step towards its target."""
        target = group.target
        plan = self._plan(group, found, member, topics)
        wanted = plan.targets.get(member.member_id)
        if wanted is None:
            wanted = target.of_member.get(found.replaces or member.member_id, ())
            if found.replaces:
                plan.targets[member.member_id] = wanted
        assignment_epoch = max(plan.epoch, target.assignment_epoch)
        if not is_reconciled(member, assignment_epoch):
            own = (member.member_id, found.replaces)
            member = reconcile(
                member, places(wanted), assignment_epoch, owned, lambda place: group.is_owned_by_other(place, *own)
            )
        event = ConsumerGroupChanged(
            group_id=group.group_id,
            epoch=plan.epoch,
            assignment_epoch=assignment_epoch,
            topics=None if plan.topics == target.topics else _stored(plan.topics),
            members=() if member == group.members.get(member.member_id) else (member,),
            targets=tuple(row for row in plan.targets.items() if target.of_member.get(row[0]) != row[1]),
            removed=(found.replaces,) if found.replaces else (),
            at_ms=now_ms,
        )
        is_new_epoch = (plan.epoch, assignment_epoch) != (target.epoch, target.assignment_epoch)
        changes = is_new_epoch or event.members or event.targets or event.removed
        return Advance(member, event if changes else None)

    def _plan(
        self, group: ConsumerGroup, found: FoundMember, member: SubscribedMember, topics: TopicCatalogue
    ) -> _Plan:
        """The group epoch, the subscribed topics and the new targets with this member. Without a change of members,
        subscriptions and topics everything is as it was, which costs nothing.
        """
        target = group.target
        replaced = found.replaces or member.member_id
        before = group.members.get(replaced)
        changed = before is None or _subscription(before) != _subscription(member)
        if not changed and group.topics_version == topics.version and target.epoch == target.assignment_epoch:
            return _Plan(target.epoch, target.topics, {})
        members = {name: one for name, one in group.members.items() if name != replaced}
        members[member.member_id] = member
        subscribed = {name: self._subscriptions.topics_of(one, topics) for name, one in members.items()}
        topic_rows = _joined(subscribed)
        epoch = target.epoch + (changed or topic_rows != target.topics)
        group.topics_version = topics.version
        if epoch == target.assignment_epoch:
            return _Plan(epoch, topic_rows, {})
        previous = {**target.of_member, member.member_id: target.of_member.get(replaced, ())}
        assignor = ASSIGNORS[self.assignor_of(members)]
        return _Plan(epoch, topic_rows, decide_targets(members, subscribed, previous, assignor))

    def assignor_of(self, members: dict[str, SubscribedMember]) -> str:
        """The assignor that most members want; the first of the settings without a choice."""
        votes: dict[str, int] = {}
        for member in members.values():
            if member.assignor in self._settings.consumer_assignors:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else self._settings.consumer_assignors[0]

    # Leaving

    def leave(self, group: ConsumerGroup, request: ConsumerHeartbeat, now_ms: int) -> ConsumerGroupChanged:
        """A member leaves, for good or as a static member that will return."""
        member_id = request.member_id
        if request.instance_id is not None:
            known_id = group.instances.get(request.instance_id)
            if known_id is None:
                raise LonghallError(Code.UNKNOWN_MEMBER, f"Instance id {request.instance_id} is unknown.")
            if known_id != member_id:
                raise LonghallError(Code.FENCED_INSTANCE, f"The instance id is owned by member {known_id}.")
        member = group.members.get(member_id)
        if member is None:
            raise LonghallError(Code.UNKNOWN_MEMBER, f"Member {member_id} is not a member of group {group.group_id}.")
        if request.epoch != LEFT_STATIC_EPOCH:
            return self.remove(group, (member_id,), now_ms)
        left = msgspec.structs.replace(member, epoch=LEFT_STATIC_EPOCH, revoking=())
        target = group.target
        return ConsumerGroupChanged(
            group_id=group.group_id,
            epoch=target.epoch,
            assignment_epoch=target.assignment_epoch,
            members=(left,),
            at_ms=now_ms,
        )

    def remove(self, group: ConsumerGroup, member_ids: tuple[str, ...], now_ms: int) -> ConsumerGroupChanged:
        """Members are removed; the next heartbeat of another computes the targets without them."""
        return ConsumerGroupChanged(
            group_id=group.group_id,
            epoch=group.target.epoch + 1,
            assignment_epoch=group.target.assignment_epoch,
            removed=member_ids,
            topics=() if len(group.members) == len(member_ids) else None,
            at_ms=now_ms,
        )

    # Time

    def expect(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        """The session of the member begins again."""
        member = group.members[member_id]
        timeout_ms = (
            self._configurations.value(group.group_id, SESSION_TIMEOUT)
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self._timers.set(group.sessions[member_id], now_ms + timeout_ms)

    def applied(self, group: ConsumerGroup, event: ConsumerGroupChanged, now_ms: int) -> None:
        """Set and cancel timers after an event, also in a replay: new members have a new session."""
        for timers in (group.sessions, group.rebalances):
            for member_id in [name for name in timers if name not in group.members]:
                self._timers.cancel(timers.pop(member_id))
        for member in event.members:
            if member.member_id not in group.sessions:
                group.sessions[member.member_id] = Timer(group, TimerKind.MEMBER, member.member_id)
                self.expect(group, member.member_id, now_ms)
            if member.classic is not None:
                continue  # Its join and sync have timers of their own.
            if member.state == UNREVOKED and member.epoch != LEFT_STATIC_EPOCH:
                timer = group.rebalances.setdefault(
                    member.member_id, Timer(group, TimerKind.REBALANCE, member.member_id)
                )
                self._timers.set(timer, now_ms + member.rebalance_timeout_ms)
            elif member.member_id in group.rebalances:
                self._timers.cancel(group.rebalances.pop(member.member_id))

    def forget(self, group: ConsumerGroup) -> None:
        """Cancel all timers of a group that is removed or converted."""
        for timer in (*group.sessions.values(), *group.rebalances.values(), group.expiry_timer):
            self._timers.cancel(timer)


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms < 0:
        raise LonghallError(Code.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise LonghallError(Code.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.pattern is None:
        reason = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise LonghallError(Code.INVALID_REQUEST, reason)


def _check_epoch(member: SubscribedMember, request: ConsumerHeartbeat) -> None:
    if request.epoch == member.epoch:
        return
    missed_the_answer = (
        request.epoch < member.epoch
        and request.epoch == member.previous_epoch
        and request.owned is not None
        and places(request.owned) <= places(member.assigned)
    )
    if not missed_the_answer:
        word = "greater" if request.epoch > member.epoch else "smaller"
        reason = f"The consumer group member has a {word} member epoch ({request.epoch}) than the one known by the "
        reason += f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        raise LonghallError(Code.FENCED_MEMBER_EPOCH, reason)


def _subscription(member: SubscribedMember) -> tuple[tuple[str, ...], str, str | None]:
    return (member.topics, member.pattern, member.assignor)


def _joined(subscribed: dict[str, dict[str, SubscribedTopic]]) -> dict[str, SubscribedTopic]:
    return {name: topic for topics in subscribed.values() for name, topic in topics.items()}


def _stored(topics: dict[str, SubscribedTopic]) -> tuple[tuple[bytes, str, int], ...]:
    return tuple((topic.topic_id, topic.name, topic.partitions) for topic in topics.values())
