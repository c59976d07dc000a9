"""The steps of a rebalance: request joins, complete the join phase, distribute assignments, become empty.

These steps change a group's state; `membership` decides which request causes which. Each changes the group at once and
adds its effects to the list. Every waiting request is eventually answered by one of them.
"""

from __future__ import annotations

from typing import final

from longhall.errors import Code
from longhall.topics.consumer_group import ConsumerGroup
from longhall.topics.effects import Effect, JoinResult, Persist, Reply, SyncResult
from longhall.topics.events import GroupEmptied, GroupStable
from longhall.topics.group import Group, State, TimerKind
from longhall.topics.member import ConsumerMember
from longhall.topics.settings import GroupSettings
from longhall.topics.timers import Timer, Timers


@final
class Rebalance:
    """The steps. It holds no group: each call gets one."""

    def __init__(self, settings: GroupSettings, timers: Timers) -> None:
        self._settings = settings
        self._timers = timers

    def rebalance_or_complete(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        if group.state is State.PREPARING:
            self.complete_if_all_joined(group, now_ms, effects)
        else:
            self.prepare(group, now_ms, effects)

    def complete_if_all_joined(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        """Complete the join phase once all have joined. An initial rebalance waits its time, since others may join
        soon.
        """
        if group.state is State.PREPARING and group.previous_state is not State.EMPTY and group.all_joined:
            self.complete_join(group, now_ms, effects)

    def prepare(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        if group.state is State.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                self.answer_sync(member, SyncResult(code=Code.REBALANCE_IN_PROGRESS), now_ms, effects)
        group.pending_syncs.clear()
        self._timers.cancel(group.sync_timer)
        is_initial = group.state is State.EMPTY
        group.transition(State.PREPARING)
        if is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.member_added = False
            group.initial_wait_left_ms = max(0, group.rebalance_timeout_ms - delay_ms)
            if delay_ms == 0:
                self.complete_join(group, now_ms, effects)
            else:
                self._timers.set(group.join_timer, now_ms + delay_ms)
        elif group.all_joined:
            self.complete_join(group, now_ms, effects)
        else:
            self._timers.set(group.join_timer, now_ms + group.rebalance_timeout_ms)

    def join_time_is_over(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        if group.previous_state is State.EMPTY and group.member_added and group.initial_wait_left_ms > 0:
            group.member_added = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.initial_wait_left_ms)
            group.initial_wait_left_ms -= delay_ms
            self._timers.set(group.join_timer, now_ms + delay_ms)
        else:
            self.complete_join(group, now_ms, effects)

    def complete_join(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        self._timers.cancel(group.join_timer)
        late = [member for member in group.members.values() if member.join_ticket is None]
        for member in late:
            if member.instance_id is None:  # Static members stay until their session expires.
                self.remove(group, member, effects)
        if not group.elect_joined_leader() and group.members:
            self._timers.set(group.join_timer, now_ms + group.rebalance_timeout_ms)
            return
        group.generation += 1
        if not group.members:
            self._become_empty(group, now_ms, effects)
            return
        group.protocol = group.select_protocol()
        group.transition(State.COMPLETING)
        for member in group.members.values():
            members = group.members_for_leader() if group.leader == member.member_id else ()
            ticket = group.unpark_join(member)
            if ticket is not None:
                effects.append(Reply(ticket, joined(group, member.member_id, members)))
            member.is_new = False
            self.expect(member, now_ms)
            group.pending_syncs[member.member_id] = None
        self._timers.set(group.sync_timer, now_ms + group.rebalance_timeout_ms)

    def _become_empty(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        group.protocol = None
        group.leader = None
        group.transition(State.EMPTY)
        event = GroupEmptied(
            group_id=group.group_id, generation=group.generation, protocol_type=group.protocol_type, at_ms=now_ms
        )
        group.recorded = event
        effects.append(Persist(event))
        self.expect_expiry(group, now_ms)

    def persist_stable(self, group: Group, effects: list[Effect]) -> None:
        assert group.protocol_type is not None
        assert group.protocol is not None
        assert group.leader is not None
        event = GroupStable(
            group_id=group.group_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader,
            members=tuple(member.record() for member in group.members.values()),
        )
        group.recorded = event
        effects.append(Persist(event))

    def answer_sync(self, member: ConsumerMember, result: SyncResult, now_ms: int, effects: list[Effect]) -> None:
        if member.sync_ticket is not None:
            effects.append(Reply(member.sync_ticket, result))
            member.sync_ticket = None
            self.expect(member, now_ms)

    def remove(self, group: Group, member: ConsumerMember, effects: list[Effect]) -> None:
        """Remove a member and answer its waiting requests, so that it rejoins if it is still there."""
        ticket = group.unpark_join(member)
        if ticket is not None:
            effects.append(Reply(ticket, JoinResult(code=Code.UNKNOWN_MEMBER)))
        if member.sync_ticket is not None:
            effects.append(Reply(member.sync_ticket, SyncResult(code=Code.UNKNOWN_MEMBER)))
            member.sync_ticket = None
        self._timers.cancel(member.timer)
        group.remove(member.member_id)

    def interrupt(self, group: Group, effects: list[Effect]) -> None:
        """Answer all waiting requests of a group that is converted: the members join again."""
        for member in group.members.values():
            ticket = group.unpark_join(member)
            if ticket is not None:
                result = JoinResult(code=Code.REBALANCE_IN_PROGRESS, member_id=member.member_id)
                effects.append(Reply(ticket, result))
            if member.sync_ticket is not None:
                effects.append(Reply(member.sync_ticket, SyncResult(code=Code.REBALANCE_IN_PROGRESS)))
                member.sync_ticket = None

    def stop_waiting(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        """Continue after a member was removed: all others may have joined."""
        if group.state is State.PREPARING and group.all_joined:
            self.complete_join(group, now_ms, effects)

    def expect(self, member: ConsumerMember, now_ms: int) -> None:
        self._timers.set(member.timer, now_ms + member.session_timeout_ms)

    def expect_expiry(self, group: Group | ConsumerGroup, now_ms: int) -> None:
        """Set the expiry timer of the group: when its offsets may expire, or soon if it has none."""
        retention_ms = self._settings.offsets_retention_ms
        due_ms = now_ms + max(1, retention_ms // 8)
        if group.offsets.is_empty:
            due_ms = now_ms + min(retention_ms, self._settings.empty_group_linger_ms)
        elif group.emptied_ms is not None:
            due_ms = max(now_ms, group.emptied_ms + retention_ms)
        self._timers.set(group.expiry_timer, due_ms)

    def replay_stable(self, group: Group, event: GroupStable, now_ms: int) -> None:
        """Replay a stable generation: its members continue, each with a new session."""
        self._clear(group)
        for record in event.members:
            member = ConsumerMember.from_record(record, Timer(group, TimerKind.MEMBER, record.member_id))
            group.add(member, event.protocol_type)
            self.expect(member, now_ms)
        group.state = group.previous_state = State.STABLE
        group.generation = event.generation
        group.protocol_type = event.protocol_type
        group.protocol = event.protocol
        group.leader = event.leader
        group.recorded = event

    def replay_empty(self, group: Group, event: GroupEmptied) -> None:
        """Replay that the group became empty."""
        self._clear(group)
        group.state = group.previous_state = State.EMPTY
        group.generation = event.generation
        group.protocol_type = event.protocol_type
        group.protocol = None
        group.recorded = event

    def _clear(self, group: Group) -> None:
        for member in list(group.members.values()):
            self.remove(group, member, [])


def joined(
    group: Group, member_id: str, members: tuple[tuple[str, str | None, bytes], ...], skip_assignment: bool = False
) -> JoinResult:
    return JoinResult(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=members,
        skip_assignment=skip_assignment,
    )


def synced(group: Group, member: ConsumerMember) -> SyncResult:
    return SyncResult(protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment)
