"""The classic group protocol: join, sync, heartbeat, leave, session expiry.

Every request changes the group at once and adds its effects to a list: replies, also to other waiting requests, and
events to write. This module knows neither offsets nor other groups nor connections. Deadlines are set in `Timers`; the
owner of those calls `on_timer` when one is due.
"""

from __future__ import annotations

from typing import final

import msgspec

from longhall.errors import Code
from longhall.topics.effects import Effect, JoinRequest, JoinResult, Reply, SyncRequest, SyncResult
from longhall.topics.group import Group, State, TimerKind
from longhall.topics.member import ConsumerMember
from longhall.topics.rebalance import Rebalance, joined, synced
from longhall.topics.settings import GroupSettings
from longhall.topics.timers import Timer, Timers


@final
class Membership:
    """The rules of the protocol. It holds no group: each call gets one."""

    def __init__(self, settings: GroupSettings, timers: Timers) -> None:
        self._settings = settings
        self._timers = timers
        self.rebalance = Rebalance(settings, timers)

    # Joining

    def join(self, group: Group, request: JoinRequest, ticket: object, now_ms: int, effects: list[Effect]) -> None:
        if not self._has_room(group, request.member_id):
            member = group.members.get(request.member_id)
            if member is not None:
                self.rebalance.remove(group, member, effects)
            effects.append(Reply(ticket, JoinResult(code=Code.GROUP_FULL)))
        elif not group.supports(request.protocol_type, request.protocols):
            result = JoinResult(code=Code.INCONSISTENT_PROTOCOL, member_id=request.member_id)
            effects.append(Reply(ticket, result))
        elif request.member_id == "":
            self._join_unknown(group, request, ticket, now_ms, effects)
        elif request.member_id in group.pending_joins and request.instance_id is None:
            self._timers.cancel(group.pending_joins[request.member_id])
            self._add(group, request.member_id, request, ticket, now_ms, effects)
        else:
            self._join_known(group, request, ticket, now_ms, effects)

    def _has_room(self, group: Group, member_id: str) -> bool:
        if group.state is State.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is State.PREPARING:
            # Waiting members count, not those that may never return; so the last to rejoin a shrunk group are refused.
            return (member is not None and member.join_ticket is not None) or group.joined < self._settings.members_max
        return member is not None or len(group.members) < self._settings.members_max

    def _join_unknown(
        self, group: Group, request: JoinRequest, ticket: object, now_ms: int, effects: list[Effect]
    ) -> None:
        member_id = request.fresh_member_id
        if request.instance_id is not None:
            known = group.instances.get(request.instance_id)
            if known is None:
                self._add(group, member_id, request, ticket, now_ms, effects)
            else:
                self._replace(group, group.members[known], request, ticket, now_ms, effects)
        elif request.requires_known_member:
            # A client that never receives its id leaves no member behind that others would wait for.
            timer = Timer(group, TimerKind.MEMBER, member_id)
            group.pending_joins[member_id] = timer
            self._timers.set(timer, now_ms + request.session_timeout_ms)
            effects.append(Reply(ticket, JoinResult(code=Code.MEMBER_ID_REQUIRED, member_id=member_id)))
        else:
            self._add(group, member_id, request, ticket, now_ms, effects)

    def _join_known(
        self, group: Group, request: JoinRequest, ticket: object, now_ms: int, effects: list[Effect]
    ) -> None:
        code = group.check_member(request.member_id, request.instance_id)
        if code is not None:
            effects.append(Reply(ticket, JoinResult(code=code, member_id=request.member_id)))
            return
        member = group.members[request.member_id]
        unchanged = member.protocols == request.protocols
        is_leader = group.leader == member.member_id
        if unchanged and (group.state is State.COMPLETING or (group.state is State.STABLE and not is_leader)):
            # It missed the answer. A leader that rejoins a stable group wants a new assignment, though.
            members = group.members_for_leader() if is_leader else ()
            effects.append(Reply(ticket, joined(group, member.member_id, members)))
            return
        group.take(member, request)
        self._park_join(group, member, ticket, effects)
        self.rebalance.rebalance_or_complete(group, now_ms, effects)

    def _add(
        self, group: Group, member_id: str, request: JoinRequest, ticket: object, now_ms: int, effects: list[Effect]
    ) -> None:
        member = ConsumerMember(member_id, Timer(group, TimerKind.MEMBER, member_id))
        member.instance_id = request.instance_id
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.is_new = True
        member.take(request)
        if group.state is State.PREPARING and group.previous_state is State.EMPTY:
            group.member_added = True
        group.add(member, request.protocol_type)
        group.park_join(member, ticket)
        # It does not know its id yet and cannot send heartbeats; after a lost connection it joins as another member.
        self._timers.set(member.timer, now_ms + self._settings.new_member_join_timeout_ms)
        self.rebalance.rebalance_or_complete(group, now_ms, effects)

    def _replace(
        self,
        group: Group,
        old: ConsumerMember,
        request: JoinRequest,
        ticket: object,
        now_ms: int,
        effects: list[Effect],
    ) -> None:
        """Replace and fence a static member that rejoined without its member id."""
        leader_before = group.leader or ""
        join_ticket = group.unpark_join(old)
        if join_ticket is not None:
            effects.append(Reply(join_ticket, JoinResult(code=Code.FENCED_INSTANCE, member_id=old.member_id)))
        if old.sync_ticket is not None:
            effects.append(Reply(old.sync_ticket, SyncResult(code=Code.FENCED_INSTANCE)))
            old.sync_ticket = None
        self._timers.cancel(old.timer)
        member = ConsumerMember(request.fresh_member_id, Timer(group, TimerKind.MEMBER, request.fresh_member_id))
        member.instance_id = old.instance_id
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.assignment = old.assignment
        member.take(request)
        group.replace(old, member)
        self.rebalance.expect(member, now_ms)
        if group.state is State.STABLE and group.select_protocol() == group.protocol:
            self.rebalance.persist_stable(group, effects)
            is_leader = group.leader == member.member_id
            if request.supports_skipping_assignment:
                members = group.members_for_leader() if is_leader else ()
                result = joined(group, member.member_id, members, skip_assignment=is_leader)
            else:
                # An old client that becomes leader would assign again; the answer names its previous id as the leader
                # instead.
                result = msgspec.structs.replace(joined(group, member.member_id, ()), leader=leader_before)
            effects.append(Reply(ticket, result))
            return
        group.park_join(member, ticket)
        self.rebalance.rebalance_or_complete(group, now_ms, effects)

    def _park_join(self, group: Group, member: ConsumerMember, ticket: object, effects: list[Effect]) -> None:
        earlier = group.park_join(member, ticket)
        if earlier is not None:
            result = JoinResult(code=Code.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            effects.append(Reply(earlier, result))

    # Syncing

    def sync(self, group: Group, request: SyncRequest, ticket: object, now_ms: int, effects: list[Effect]) -> None:
        code = self._check_sync(group, request)
        if code is not None:
            effects.append(Reply(ticket, SyncResult(code=code)))
            return
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(group.sync_timer)
        if group.state is State.STABLE:
            effects.append(Reply(ticket, synced(group, member)))
            self.rebalance.expect(member, now_ms)
            return
        self.rebalance.answer_sync(member, SyncResult(code=Code.REBALANCE_IN_PROGRESS), now_ms, effects)
        member.sync_ticket = ticket
        if group.leader != member.member_id:
            return
        assignments = dict(request.assignments)
        for other in group.members.values():
            other.assignment = assignments.get(other.member_id, b"")
        group.transition(State.STABLE)
        self.rebalance.persist_stable(group, effects)
        for other in group.members.values():
            self.rebalance.answer_sync(other, synced(group, other), now_ms, effects)

    def _check_sync(self, group: Group, request: SyncRequest) -> Code | None:
        code = group.check_member(request.member_id, request.instance_id)
        if code is not None:
            return code
        if request.generation != group.generation:
            return Code.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return Code.INCONSISTENT_PROTOCOL
        if group.state is State.PREPARING:
            return Code.REBALANCE_IN_PROGRESS
        if request.protocol is not None and request.protocol != group.protocol:
            return Code.INCONSISTENT_PROTOCOL
        return None

    # Staying and leaving

    def heartbeat(
        self, group: Group, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> Code | None:
        code = group.check_member(member_id, instance_id)
        if code is not None:
            return code
        if generation != group.generation:
            return Code.ILLEGAL_GENERATION
        self.rebalance.expect(group.members[member_id], now_ms)
        return Code.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else None

    def refresh(self, group: Group, member_id: str, now_ms: int) -> None:
        """Refresh the session: a commit counts as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING):
            self.rebalance.expect(member, now_ms)

    def leave(
        self, group: Group, leaving: tuple[tuple[str, str | None], ...], now_ms: int, effects: list[Effect]
    ) -> list[Code | None]:
        """Remove members, by their ids or by the instance id alone. The codes are in the order of `leaving`."""
        codes: list[Code | None] = []
        count = len(group.members)
        for member_id, instance_id in leaving:
            known = member_id
            if member_id == "" and instance_id is not None:
                known = group.instances.get(instance_id, "")
            if known in group.pending_joins:
                self._timers.cancel(group.pending_joins.pop(known))
                codes.append(None)
                continue
            code = group.check_member(known, instance_id)
            codes.append(code)
            if code is None:
                self.rebalance.remove(group, group.members[known], effects)
        if len(group.members) < count and group.state in (State.STABLE, State.COMPLETING):
            self.rebalance.prepare(group, now_ms, effects)
        else:
            self.rebalance.complete_if_all_joined(group, now_ms, effects)
        return codes

    # Time

    def forget(self, group: Group) -> None:
        """Cancel all timers of a group that is removed or converted."""
        members = [member.timer for member in group.members.values()]
        own = (group.join_timer, group.sync_timer, group.expiry_timer)
        for timer in (*own, *group.pending_joins.values(), *members):
            self._timers.cancel(timer)

    def on_timer(self, group: Group, timer: Timer, now_ms: int, effects: list[Effect]) -> None:
        """Handle a deadline of the group for members, joins or syncs."""
        if timer is group.join_timer:
            self.rebalance.join_time_is_over(group, now_ms, effects)
        elif timer is group.sync_timer:
            for member_id in list(group.pending_syncs):
                self.rebalance.remove(group, group.members[member_id], effects)
            self.rebalance.prepare(group, now_ms, effects)
        elif group.pending_joins.get(timer.key) is timer:
            del group.pending_joins[timer.key]
            self.rebalance.stop_waiting(group, now_ms, effects)
        else:
            member = group.members.get(timer.key)
            if member is not None and member.timer is timer and not member.may_be_silent:
                self.rebalance.remove(group, member, effects)
                if group.state in (State.STABLE, State.COMPLETING):
                    self.rebalance.prepare(group, now_ms, effects)
                else:
                    self.rebalance.stop_waiting(group, now_ms, effects)
