"""The members of share groups (KIP-932): who is there, what each subscribes to, and what it may read.

    request epoch    the member is               then
    0                unknown, or known           it joins, or joins again: a new epoch, and its assignment
    its epoch        known                       its session goes on; it is told an assignment that has changed
    its last one     known                       the same: the reply with the newer epoch was lost
    another          known                       FENCED_MEMBER_EPOCH: it joins again
    not 0            unknown                     UNKNOWN_MEMBER: it joins again
    -1               known                       it leaves

Every member may read every partition of the topics that it subscribes to, because the cursor gives each message to one
member at a time; so an assignment changes with topics and subscriptions alone. Membership is in memory: leases and
positions are in the cursors, and after a restart the members join again within a heartbeat.

Time and topics are arguments. This module does not know cursors, connections or the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.topics.share_settings import ShareSettings
from longhall.topics.timers import Timer, Timers

JOIN: Final = 0
LEAVE: Final = -1
ASSIGNOR: Final = "simple"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
MEMBERS_MAX: Final = 1000  # Of one group.
GROUPS_MAX: Final = 10_000  # With members, or without members and not forgotten yet.
TOPICS_MAX: Final = 1000  # Of one subscription.
EMPTY_MS: Final = 600_000  # A group without members is forgotten after this time; its cursors stay.

_SESSION: Final = 0
_EXPIRY: Final = 1

Assignment = tuple[tuple[bytes, str, int], ...]  # Topic id, name and number of partitions.
Assign = Callable[[tuple[str, ...]], Assignment]


@final
class ShareMember:
    """One member."""

    def __init__(self, group: ShareGroup, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.previous_epoch = 0
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.topics: tuple[str, ...] = ()
        self.assigned: Assignment = ()
        self.timer = Timer(group, _SESSION, member_id)


@final
class ShareGroup:
    """One group. The epoch rises with every change of members, subscriptions or partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.timer = Timer(self, _EXPIRY)

    @property
    def state(self) -> str:
        return STABLE if self.members else EMPTY


@final
class ShareHeartbeat:
    """A heartbeat. `topics` and `rack_id` are None if they have not changed."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = epoch
        self.topics = topics
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host


@final
class ShareGroups:
    """All share groups of a hall."""

    def __init__(self) -> None:
        self._groups: dict[str, ShareGroup] = {}
        self._timers = Timers()

    def heartbeat(
        self, request: ShareHeartbeat, settings: ShareSettings, assign: Assign, now_ms: int
    ) -> tuple[int, Assignment | None]:
        """The epoch of the member, and its assignment if it is new. Raises LonghallError."""
        _check(request)
        if request.epoch == LEAVE:
            self._leave(request)
            return LEAVE, None
        member = self._join(request) if request.epoch == JOIN else self._known(request)
        group = self._groups[request.group_id]
        self._timers.cancel(group.timer)
        self._timers.set(member.timer, now_ms + settings.session_timeout_ms)
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.topics is not None:
            member.topics = tuple(sorted(set(request.topics)))
        assigned = assign(member.topics)
        told: Assignment | None = assigned if request.epoch == JOIN or request.topics is not None else None
        if request.epoch == JOIN or assigned != member.assigned:
            member.assigned = told = assigned
            group.epoch += 1
        if member.epoch != group.epoch:
            member.previous_epoch, member.epoch = member.epoch, group.epoch
        return member.epoch, told

    def _join(self, request: ShareHeartbeat) -> ShareMember:
        if request.topics is None:
            raise LonghallError(Code.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
        group = self.find_or_create(request.group_id)
        member = group.members.get(request.member_id)
        if member is None:
            if len(group.members) >= MEMBERS_MAX:
                raise LonghallError(Code.GROUP_FULL, f"The share group has {MEMBERS_MAX} members already.")
            member = group.members[request.member_id] = ShareMember(group, request.member_id)
        member.client_id = request.client_id
        member.client_host = request.client_host
        return member

    def _known(self, request: ShareHeartbeat) -> ShareMember:
        group = self._groups.get(request.group_id)
        member = group.members.get(request.member_id) if group is not None else None
        if member is None:
            raise LonghallError(
                Code.UNKNOWN_MEMBER, f"Member {request.member_id} is not a member of group {request.group_id}."
            )
        if request.epoch not in (member.epoch, member.previous_epoch):
            said = f"The member epoch is {member.epoch}, not {request.epoch}: the member has to join again."
            raise LonghallError(Code.FENCED_MEMBER_EPOCH, said)
        return member

    def _leave(self, request: ShareHeartbeat) -> None:
        group = self._groups.get(request.group_id)
        if group is None or request.member_id not in group.members:
            raise LonghallError(
                Code.UNKNOWN_MEMBER, f"Member {request.member_id} is not a member of group {request.group_id}."
            )
        self._remove(group, request.member_id)

    def _remove(self, group: ShareGroup, member_id: str) -> None:
        self._timers.cancel(group.members.pop(member_id).timer)
        group.epoch += 1

    def tick(self, now_ms: int) -> None:
        """Remove members whose session has ended, and groups that had no member for long."""
        while (timer := self._timers.due(now_ms)) is not None:
            group = timer.owner
            assert isinstance(group, ShareGroup)
            if timer.kind == _EXPIRY:
                self._groups.pop(group.group_id, None)
            elif timer.key in group.members:
                self._remove(group, timer.key)
                self.note_empty(group.group_id, now_ms)

    def note_empty(self, group_id: str, now_ms: int) -> None:
        """Begin the time after which a group without members is forgotten."""
        group = self._groups.get(group_id)
        if group is not None and not group.members:
            self._timers.set(group.timer, now_ms + EMPTY_MS)

    def next_deadline_ms(self) -> int | None:
        """When `tick` should be called next."""
        return self._timers.next_deadline_ms()

    def find(self, group_id: str) -> ShareGroup | None:
        """The group of this name; None if it has had no member lately."""
        return self._groups.get(group_id)

    def find_or_create(self, group_id: str) -> ShareGroup:
        """The group of this name, created without members if there is none. OVERLOADED if there are too many."""
        group = self._groups.get(group_id)
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                raise LonghallError(Code.OVERLOADED, f"There are {GROUPS_MAX} share groups already.")
            group = self._groups[group_id] = ShareGroup(group_id)
        return group

    def all(self) -> list[ShareGroup]:
        """The groups that have members, or had some lately."""
        return list(self._groups.values())

    def forget(self, group_id: str) -> None:
        """Forget a group without members."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            assert not group.members
            self._timers.cancel(group.timer)


def _check(request: ShareHeartbeat) -> None:
    said = ""
    if not request.group_id.strip():
        said = "GroupId can't be empty."
    elif not request.member_id.strip():
        said = "MemberId can't be empty."
    elif request.epoch < LEAVE:
        said = f"MemberEpoch {request.epoch} is invalid."
    elif request.rack_id is not None and not request.rack_id.strip():
        said = "RackId can't be empty."
    elif request.topics is not None and len(request.topics) > TOPICS_MAX:
        said = f"A member subscribes to at most {TOPICS_MAX} topics."
    if said:
        raise LonghallError(Code.INVALID_REQUEST, said)
