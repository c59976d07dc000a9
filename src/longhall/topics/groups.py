"""All consumer groups of one shard.

A request comes with a ticket and returns effects; a request that has to wait is answered by a later call, at the latest
by `tick`. Replaying the persisted events through `apply` gives the same durable state: generation, members with their
assignments and new sessions, committed and pending offsets. Groups are found by name and all deadlines are in one heap,
so that ten thousand idle groups cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import msgspec

from longhall.errors import Code
from longhall.topics.commits import accepted_rows, check_commit, check_delete_offsets, expired_offsets
from longhall.topics.effects import (
    CommitRequest,
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    Effect,
    EndResult,
    JoinRequest,
    JoinResult,
    LeaveResult,
    Persist,
    Reply,
    SyncRequest,
    SyncResult,
)
from longhall.topics.events import (
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupStable,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsPending,
    TransactionOffsetsEnded,
)
from longhall.topics.group import Group, State, TimerKind
from longhall.topics.membership import Membership
from longhall.topics.settings import GroupSettings
from longhall.topics.timers import Timers
from longhall.topics.views import FetchedOffset, GroupDescription, GroupListing, describe, fetched, listing


@final
class Groups:
    """The groups. The effects of a request have been applied already; `apply` is for replay."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self._settings = settings or GroupSettings()
        self._timers = Timers()
        self._membership = Membership(self._settings, self._timers)
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    # Membership

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        code = self._check_join(request)
        if code is not None:
            return [Reply(ticket, JoinResult(code=code, member_id=request.member_id))]
        if request.rebalance_timeout_ms <= 0:
            request = msgspec.structs.replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            group = self._groups[request.group_id] = Group(request.group_id)
        self._membership.join(group, request, ticket, now_ms, effects)
        self._drop_if_unused(group)
        return effects

    def _check_join(self, request: JoinRequest) -> Code | None:
        settings = self._settings
        if not request.group_id:
            return Code.INVALID_GROUP_ID
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            return Code.INVALID_SESSION_TIMEOUT
        if request.group_id not in self._groups:
            if request.member_id:
                return Code.UNKNOWN_MEMBER
            if len(self._groups) >= settings.groups_max:
                return Code.OVERLOADED
        return None

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> list[Effect]:
        group = self._groups.get(request.group_id)
        if group is None:
            code = Code.UNKNOWN_MEMBER if request.group_id else Code.INVALID_GROUP_ID
            return [Reply(ticket, SyncResult(code=code))]
        effects: list[Effect] = []
        self._membership.sync(group, request, ticket, now_ms, effects)
        return effects

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, now_ms: int, instance_id: str | None = None
    ) -> Code | None:
        """Refresh the member's session. It changes nothing durable, so the answer is immediate."""
        group = self._groups.get(group_id)
        if group is None:
            return Code.UNKNOWN_MEMBER if group_id else Code.INVALID_GROUP_ID
        return self._membership.heartbeat(group, member_id, instance_id, generation, now_ms)

    def leave(
        self, group_id: str, members: tuple[tuple[str, str | None], ...], ticket: object, now_ms: int
    ) -> list[Effect]:
        """Remove members, each as (member id or "", instance id or None)."""
        if not group_id:
            return [Reply(ticket, LeaveResult(code=Code.INVALID_GROUP_ID))]
        effects: list[Effect] = []
        group = self._groups.get(group_id)
        codes: list[Code | None] = [Code.UNKNOWN_MEMBER] * len(members)
        if group is not None:
            codes = self._membership.leave(group, members, now_ms, effects)
            self._drop_if_unused(group)
        gone = tuple((*member, code) for member, code in zip(members, codes, strict=True))
        effects.append(Reply(ticket, LeaveResult(members=gone)))
        return effects

    # Offsets

    def commit_offsets(self, request: CommitRequest, ticket: object, now_ms: int) -> list[Effect]:
        """OffsetCommit. A missing group is created for consumers without membership."""
        code = self._check_commit(request, transactional=False)
        if code is not None:
            return [Reply(ticket, CommitResult(code=code))]
        rows, refused = accepted_rows(request, self._settings.offset_metadata_bytes_max)
        effects: list[Effect] = []
        if rows:
            self._write(OffsetsCommitted(group_id=request.group_id, offsets=rows, at_ms=now_ms), now_ms, effects)
        group = self._groups.get(request.group_id)
        if group is not None:
            self._membership.refresh(group, request.member_id, now_ms)
        effects.append(Reply(ticket, CommitResult(refused=refused)))
        return effects

    def hold_offsets(
        self, request: CommitRequest, producer_id: int, producer_epoch: int, ticket: object, now_ms: int
    ) -> list[Effect]:
        """TxnOffsetCommit. The caller has verified that the group is part of the producer's open transaction."""
        code = self._check_commit(request, transactional=True)
        if code is not None:
            return [Reply(ticket, CommitResult(code=code))]
        rows, refused = accepted_rows(request, self._settings.offset_metadata_bytes_max)
        effects: list[Effect] = []
        if rows:
            event = OffsetsPending(
                group_id=request.group_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                offsets=rows,
                at_ms=now_ms,
            )
            self._write(event, now_ms, effects)
        effects.append(Reply(ticket, CommitResult(refused=refused)))
        return effects

    def _check_commit(self, request: CommitRequest, transactional: bool) -> Code | None:
        group = self._groups.get(request.group_id)
        if group is not None:
            return check_commit(group, request, transactional)
        if request.generation >= 0:
            return Code.ILLEGAL_GENERATION
        return Code.OVERLOADED if len(self._groups) >= self._settings.groups_max else None

    def end_transaction(
        self, group_id: str, producer_id: int, committed: bool, ticket: object, now_ms: int
    ) -> list[Effect]:
        """Apply the outcome of a transaction to one group that took part. Idempotent."""
        effects: list[Effect] = []
        group = self._groups.get(group_id)
        if group is not None and group.offsets.holds(producer_id):
            event = TransactionOffsetsEnded(group_id=group_id, producer_id=producer_id, committed=committed)
            self._write(event, now_ms, effects)
        effects.append(Reply(ticket, EndResult()))
        return effects

    def fetch_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None, require_stable: bool
    ) -> list[FetchedOffset]:
        """OffsetFetch, of these partitions or of all. A missing offset is -1, also where the group is missing."""
        group = self._groups.get(group_id)
        if group is None:
            return [FetchedOffset(topic, partition) for topic, partition in partitions or ()]
        return fetched(group, partitions, require_stable)

    def delete_offsets(
        self, group_id: str, partitions: tuple[tuple[str, int], ...], ticket: object, now_ms: int
    ) -> list[Effect]:
        group = self._groups.get(group_id)
        code = Code.GROUP_UNKNOWN if group is None else check_delete_offsets(group)
        if group is None or code is not None:
            return [Reply(ticket, DeleteOffsetsResult(code=code))]
        refused: dict[tuple[str, int], Code] = {}
        reading = {topic: group.is_subscribed(topic) for topic, _ in partitions}
        found = []
        for topic, partition in partitions:
            if reading[topic]:
                refused[topic, partition] = Code.GROUP_SUBSCRIBED
            elif group.offsets.get(topic, partition) is not None:
                found.append((topic, partition))
        effects: list[Effect] = []
        if found:
            self._write(OffsetsDeleted(group_id=group_id, partitions=tuple(found)), now_ms, effects)
        effects.append(Reply(ticket, DeleteOffsetsResult(refused=refused)))
        return effects

    def forget_topics(self, topics: frozenset[str], now_ms: int) -> list[Effect]:
        """Delete the offsets of deleted topics: a new topic of that name must not inherit them."""
        effects: list[Effect] = []
        for group in list(self._groups.values()):
            gone = {(topic, partition) for topic, partition, _ in group.offsets.all() if topic in topics}
            gone.update(partition for partition in group.offsets.unstable() if partition[0] in topics)
            if gone:
                event = OffsetsDeleted(group_id=group.group_id, partitions=tuple(sorted(gone)), pending_too=True)
                self._write(event, now_ms, effects)
        return effects

    # Whole groups

    def delete_groups(self, group_ids: tuple[str, ...], ticket: object, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        outcomes: list[tuple[str, Code | None]] = []
        for group_id in group_ids:
            group = self._groups.get(group_id)
            code = None
            if group is None:
                code = Code.GROUP_UNKNOWN
            elif group.state is not State.EMPTY:
                code = Code.GROUP_NOT_EMPTY
            else:
                self._write(GroupDeleted(group_id=group_id), now_ms, effects)
            outcomes.append((group_id, code))
        effects.append(Reply(ticket, DeleteGroupsResult(groups=tuple(outcomes))))
        return effects

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Groups with one of these states and types, case-insensitively; an empty filter accepts all."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listings = map(listing, self._groups.values())
        return [
            line
            for line in listings
            if (not wanted_states or line.state.lower() in wanted_states)
            and (not wanted_types or line.kind in wanted_types)
        ]

    def describe_group(self, group_id: str) -> GroupDescription | None:
        group = self._groups.get(group_id)
        return None if group is None else describe(group)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `tick` should be called next."""
        return self._timers.next_deadline_ms()

    def tick(self, now_ms: int) -> list[Effect]:
        """Handle everything that is due."""
        effects: list[Effect] = []
        while (timer := self._timers.due(now_ms)) is not None:
            group = timer.owner
            assert isinstance(group, Group)
            if self._groups.get(group.group_id) is not group:
                continue
            if timer.kind == TimerKind.EXPIRY:
                self._expire(group, now_ms, effects)
            else:
                self._membership.on_timer(group, timer, now_ms, effects)
                self._drop_if_unused(group)
        return effects

    def _expire(self, group: Group, now_ms: int, effects: list[Effect]) -> None:
        retention_ms = self._settings.offsets_retention_ms
        expired = expired_offsets(group, now_ms, retention_ms)
        if expired:
            self._write(OffsetsDeleted(group_id=group.group_id, partitions=tuple(expired)), now_ms, effects)
        if group.state is State.EMPTY and group.offsets.is_empty and not group.pending_joins:
            self._write(GroupDeleted(group_id=group.group_id), now_ms, effects)
            return
        # Offsets that have not expired are checked again within an eighth of their retention.
        self._timers.set(group.expiry_timer, now_ms + max(1, retention_ms // 8))

    def _drop_if_unused(self, group: Group) -> None:
        """Remove a group without durable state; that needs no event."""
        if group.state is State.EMPTY and not group.is_written and not group.pending_joins:
            self._remove_group(group)

    def _remove_group(self, group: Group) -> None:
        group.transition(State.DEAD)
        for timer in (group.join_timer, group.sync_timer, group.expiry_timer, *group.pending_joins.values()):
            self._timers.cancel(timer)
        del self._groups[group.group_id]

    # Durable state

    def _write(self, event: GroupEvent, now_ms: int, effects: list[Effect]) -> None:
        self.apply(event, now_ms)
        effects.append(Persist(event))

    def apply(self, event: GroupEvent, now_ms: int) -> None:
        """Replay one event. Sessions of members begin at `now_ms`; no request is answered."""
        group = self._groups.get(event.group_id)
        if isinstance(event, GroupDeleted):
            if group is not None:
                group.state = State.EMPTY
                self._remove_group(group)
            return
        if group is None:
            group = self._groups[event.group_id] = Group(event.group_id)
        if isinstance(event, GroupStable):
            self._membership.rebalance.replay_stable(group, event, now_ms)
        elif isinstance(event, GroupEmptied):
            self._membership.rebalance.replay_empty(group, event)
        else:
            group.offsets.apply(event)
            group.has_events = True
        if group.expiry_timer.due_ms < 0 or isinstance(event, GroupEmptied):
            self._membership.rebalance.expect_expiry(group, now_ms)

    def written(self) -> list[str]:
        """The ids of groups with durable state."""
        return [group.group_id for group in self._groups.values() if group.is_written]

    def offsets_of(self, group_id: str) -> list[Any]:
        """The offsets of a group in the form of its snapshot."""
        return self._groups[group_id].offsets.snapshot()

    def snapshot(self) -> dict[str, Any]:
        """The state as builtins; groups without durable state are left out."""
        return {
            "groups": [
                [
                    group.group_id,
                    msgspec.to_builtins(group.recorded, builtin_types=(bytes,)),
                    group.offsets.snapshot(),
                ]
                for group in self._groups.values()
                if group.is_written
            ]
        }

    def restore(self, state: dict[str, Any], now_ms: int) -> None:
        """Restore the result of `snapshot`."""
        self._timers = Timers()
        self._membership = Membership(self._settings, self._timers)
        self._groups = {}
        for group_id, recorded, offsets in state["groups"]:
            group = self._groups[group_id] = Group(group_id)
            group.offsets.restore(offsets)
            group.has_events = True
            if recorded is not None:
                self.apply(msgspec.convert(recorded, GroupStable | GroupEmptied), now_ms)
            self._membership.rebalance.expect_expiry(group, now_ms)
