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

from longhall.errors import Code, LonghallError
from longhall.names import SETTLE_GROUP
from longhall.topics.commits import (
    accepted_rows,
    check_commit,
    check_delete_offsets,
    check_fetch,
    check_member_commit,
    expired_offsets,
)
from longhall.topics.consumer_group import ConsumerGroup
from longhall.topics.consumer_membership import JOIN_EPOCH
from longhall.topics.effects import (
    CommitRequest,
    CommitResult,
    ConfigureResult,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
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
    ConsumerGroupChanged,
    GroupConfigured,
    GroupDeleted,
    GroupEvent,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsPending,
    TransactionOffsetsEnded,
)
from longhall.topics.group import Group, State, TimerKind
from longhall.topics.group_table import GroupTable
from longhall.topics.settings import GroupSettings
from longhall.topics.target_assignment import NoTopics, TopicCatalogue
from longhall.topics.views import (
    ConsumerGroupDescription,
    FetchedOffset,
    GroupDescription,
    GroupListing,
    describe,
    describe_consumers,
    fetched,
    listing,
)


@final
class Groups:
    """The groups. The effects of a request have been applied already; `apply` is for replay."""

    def __init__(self, settings: GroupSettings | None = None, topics: TopicCatalogue | None = None) -> None:
        self._settings = settings or GroupSettings()
        self._topics = topics or NoTopics()
        self._table = GroupTable(self._settings)
        self.configurations = self._table.configurations

    def __len__(self) -> int:
        return len(self._table.groups)

    # Membership

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        code = self._check_join(request)
        if code is not None:
            return [Reply(ticket, JoinResult(code=code, member_id=request.member_id))]
        if request.rebalance_timeout_ms <= 0:
            request = msgspec.structs.replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        group = self._table.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                self._join_mixed(group, request, ticket, now_ms, effects)
                return effects
            group = self._table.make_classic(group)
        elif group is None:
            group = self._table.groups[request.group_id] = Group(request.group_id)
        self._table.membership.join(group, request, ticket, now_ms, effects)
        self._drop_if_unused(group)
        return effects

    def _check_join(self, request: JoinRequest) -> Code | None:
        settings = self._settings
        if not request.group_id:
            return Code.INVALID_GROUP_ID
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            return Code.INVALID_SESSION_TIMEOUT
        if request.group_id not in self._table.groups:
            if request.member_id:
                return Code.UNKNOWN_MEMBER
            if len(self._table.groups) >= settings.groups_max:
                return Code.OVERLOADED
        return None

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> list[Effect]:
        group = self._table.groups.get(request.group_id)
        if group is None:
            code = Code.UNKNOWN_MEMBER if request.group_id else Code.INVALID_GROUP_ID
            return [Reply(ticket, SyncResult(code=code))]
        if isinstance(group, ConsumerGroup):
            return [Reply(ticket, self._table.mixed.sync(group, request, now_ms))]
        effects: list[Effect] = []
        self._table.membership.sync(group, request, ticket, now_ms, effects)
        return effects

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, now_ms: int, instance_id: str | None = None
    ) -> Code | None:
        """Refresh the member's session. It changes nothing durable, so the answer is immediate."""
        group = self._table.groups.get(group_id)
        if group is None:
            return Code.UNKNOWN_MEMBER if group_id else Code.INVALID_GROUP_ID
        if isinstance(group, ConsumerGroup):
            return self._table.mixed.heartbeat(group, member_id, instance_id, generation, now_ms)
        return self._table.membership.heartbeat(group, member_id, instance_id, generation, now_ms)

    def leave(
        self, group_id: str, members: tuple[tuple[str, str | None], ...], ticket: object, now_ms: int
    ) -> list[Effect]:
        """Remove members, each as (member id or "", instance id or None)."""
        if not group_id:
            return [Reply(ticket, LeaveResult(code=Code.INVALID_GROUP_ID))]
        effects: list[Effect] = []
        group = self._table.groups.get(group_id)
        codes: list[Code | None] = [Code.UNKNOWN_MEMBER] * len(members)
        if isinstance(group, ConsumerGroup):
            codes, leaving = self._table.mixed.leave(group, members)
            self._remove_members(group, leaving, now_ms, effects)
        elif group is not None:
            codes = self._table.membership.leave(group, members, now_ms, effects)
            self._drop_if_unused(group)
        gone = tuple((*member, code) for member, code in zip(members, codes, strict=True))
        effects.append(Reply(ticket, LeaveResult(members=gone)))
        return effects

    # Server-side assignment

    def consumer_heartbeat(self, request: ConsumerHeartbeat, ticket: object, now_ms: int) -> list[Effect]:
        """ConsumerGroupHeartbeat: a member joins, stays or leaves."""
        effects: list[Effect] = []
        try:
            result = self._consumer_heartbeat(request, now_ms, effects)
        except LonghallError as error:
            result = ConsumerHeartbeatResult(code=error.code, message=str(error))
        effects.append(Reply(ticket, result))
        return effects

    def _consumer_heartbeat(
        self, request: ConsumerHeartbeat, now_ms: int, effects: list[Effect]
    ) -> ConsumerHeartbeatResult:
        self._table.consumers.check(request)
        group = self._consumer_group(request, now_ms, effects)
        if request.epoch < JOIN_EPOCH:
            event = self._table.consumers.leave(group, request, now_ms)
            self._write_members(group, event, now_ms, effects)
            return ConsumerHeartbeatResult(member_id=request.member_id, epoch=request.epoch)
        member_id = request.member_id or request.fresh_member_id
        before = group.members.get(member_id)
        member, changed = self._table.consumers.heartbeat(group, request, self._topics, now_ms)
        if changed is not None:
            group = self._write_members(group, changed, now_ms, effects)
        self._table.consumers.expect(group, member_id, now_ms)
        return self._table.consumers.answer(request, before, member)

    def _consumer_group(self, request: ConsumerHeartbeat, now_ms: int, effects: list[Effect]) -> ConsumerGroup:
        """The group of a heartbeat. A new one is in the table only after its first event."""
        group = self._table.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.epoch != JOIN_EPOCH:
            word = "not found" if group is None else "not a consumer group"
            raise LonghallError(Code.GROUP_UNKNOWN, f"Group {request.group_id} is {word}.")
        if group is None:
            if len(self._table.groups) >= self._settings.groups_max:
                raise LonghallError(Code.OVERLOADED, "There are too many groups.")
            return ConsumerGroup(request.group_id)
        if not group.is_empty:
            return self._upgrade(group, now_ms, effects)
        fresh = ConsumerGroup(request.group_id)
        fresh.target.epoch = fresh.target.assignment_epoch = group.generation  # Epochs continue generations.
        return fresh

    def _upgrade(self, group: Group, now_ms: int, effects: list[Effect]) -> ConsumerGroup:
        """A classic group with members becomes one with server-side assignment."""
        reason = f"Group {group.group_id} has members of the classic protocol and cannot be converted now."
        if not self._table.mixed.may_upgrade(group):
            raise LonghallError(Code.GROUP_UNKNOWN, reason)
        try:
            event = self._table.mixed.upgraded(group, self._topics, now_ms)
        except ValueError:
            raise LonghallError(Code.GROUP_UNKNOWN, reason) from None
        self._table.membership.rebalance.interrupt(group, effects)
        self._write(event, now_ms, effects)
        upgraded = self._table.groups[group.group_id]
        assert isinstance(upgraded, ConsumerGroup)
        return upgraded

    def _join_mixed(
        self, group: ConsumerGroup, request: JoinRequest, ticket: object, now_ms: int, effects: list[Effect]
    ) -> None:
        result, event = self._table.mixed.join(group, request, self._topics, now_ms)
        if event is not None:
            self._write(event, now_ms, effects)
        if result.code is None:
            self._table.mixed.joined(group, result.member_id, now_ms)
        effects.append(Reply(ticket, result))
        self._downgrade_if_classic(group, now_ms, effects)

    def _write_members(
        self, group: ConsumerGroup, event: ConsumerGroupChanged, now_ms: int, effects: list[Effect]
    ) -> ConsumerGroup:
        """Write an event of members. After its first event a group is another object than the one it was decided on."""
        self._write(event, now_ms, effects)
        written = self._table.groups[event.group_id]
        assert isinstance(written, ConsumerGroup)
        written.topics_version = group.topics_version
        self._downgrade_if_classic(written, now_ms, effects)
        return written

    def _remove_members(
        self, group: ConsumerGroup, member_ids: tuple[str, ...], now_ms: int, effects: list[Effect]
    ) -> None:
        if member_ids:
            self._write_members(group, self._table.consumers.remove(group, member_ids, now_ms), now_ms, effects)

    def _downgrade_if_classic(self, group: ConsumerGroup, now_ms: int, effects: list[Effect]) -> None:
        """A group whose last member of the consumer protocol is gone continues as a classic group."""
        if not self._table.mixed.may_downgrade(group):
            return
        self._write(self._table.mixed.downgraded(group), now_ms, effects)
        classic = self._table.groups[group.group_id]
        assert isinstance(classic, Group)
        self._table.membership.rebalance.prepare(classic, now_ms, effects)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription | None:
        """A group with server-side assignment; None if there is none of this id."""
        group = self._table.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        return describe_consumers(group, self._table.consumers.assignor_of(group.members))

    def check_configuration(self, group_id: str, configuration: dict[str, str]) -> None:
        """Raises INVALID_CONFIGURATION for settings that are not possible, OVERLOADED if too many groups have some."""
        self.configurations.check(configuration)
        is_more = bool(configuration) and not self.configurations.given(group_id)
        if is_more and len(self.configurations) >= self._settings.groups_max:
            raise LonghallError(Code.OVERLOADED, "Too many groups have settings of their own.")

    def configure(self, group_id: str, configuration: dict[str, str], ticket: object, now_ms: int) -> list[Effect]:
        """Replace the settings of a group, which `check_configuration` has accepted."""
        effects: list[Effect] = []
        if configuration != self.configurations.given(group_id):
            self._write(GroupConfigured(group_id=group_id, configuration=configuration), now_ms, effects)
        effects.append(Reply(ticket, ConfigureResult()))
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
        group = self._table.groups.get(request.group_id)
        if isinstance(group, Group):
            self._table.membership.refresh(group, request.member_id, now_ms)
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

    def has_pending(self, group_id: str) -> bool:
        """True if open transactions have pending offsets in this group."""
        group = self._table.groups.get(group_id)
        return group is not None and group.offsets.has_pending

    def pending_metadata(self, group_id: str, producer_id: int) -> dict[tuple[str, int], str]:
        """The metadata of the offsets that an open transaction of this producer holds, by partition."""
        group = self._table.groups.get(group_id)
        return {} if group is None else group.offsets.pending_metadata(producer_id)

    def _check_commit(self, request: CommitRequest, transactional: bool) -> Code | None:
        group = self._table.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return check_member_commit(group, request, transactional)
        if group is not None:
            return check_commit(group, request, transactional)
        if request.generation >= 0:
            return Code.ILLEGAL_GENERATION
        return Code.OVERLOADED if len(self._table.groups) >= self._settings.groups_max else None

    def end_transaction(
        self, group_id: str, producer_id: int, committed: bool, ticket: object, now_ms: int
    ) -> list[Effect]:
        """Apply the outcome of a transaction to one group that took part. Idempotent."""
        effects: list[Effect] = []
        group = self._table.groups.get(group_id)
        if group is not None and group.offsets.holds(producer_id):
            event = TransactionOffsetsEnded(group_id=group_id, producer_id=producer_id, committed=committed)
            self._write(event, now_ms, effects)
        effects.append(Reply(ticket, EndResult()))
        return effects

    def fetch_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None, require_stable: bool
    ) -> list[FetchedOffset]:
        """OffsetFetch, of these partitions or of all. A missing offset is -1, also where the group is missing."""
        group = self._table.groups.get(group_id)
        if group is None:
            return [FetchedOffset(topic, partition) for topic, partition in partitions or ()]
        return fetched(group, partitions, require_stable)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> Code | None:
        """Why a member of this epoch may not fetch offsets. Members of classic groups always may."""
        group = self._table.groups.get(group_id)
        return check_fetch(group, member_id, epoch) if isinstance(group, ConsumerGroup) else None

    def delete_offsets(
        self, group_id: str, partitions: tuple[tuple[str, int], ...], ticket: object, now_ms: int
    ) -> list[Effect]:
        group = self._table.groups.get(group_id)
        code = Code.GROUP_UNKNOWN if group is None else None
        if isinstance(group, Group):
            code = check_delete_offsets(group)
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
        """Delete the offsets of deleted topics: a new topic of that name must not inherit them.

        What a settle group has are receipts, and the topic is only what they were named with.
        """
        effects: list[Effect] = []
        for group in list(self._table.groups.values()):
            if group.group_id.startswith(SETTLE_GROUP):
                continue
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
            group = self._table.groups.get(group_id)
            code = None
            if group is None:
                code = Code.GROUP_UNKNOWN
            elif not group.is_empty:
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
        listings = map(listing, self._table.groups.values())
        return [
            line
            for line in listings
            if (not wanted_states or line.state.lower() in wanted_states)
            and (not wanted_types or line.kind in wanted_types)
        ]

    def count_members(self, group_id: str) -> int:
        """The number of members of a group of any kind."""
        group = self._table.groups.get(group_id)
        return 0 if group is None else len(group.members)

    def describe_group(self, group_id: str) -> GroupDescription | None:
        """A classic group; None if there is none of this id."""
        group = self._table.groups.get(group_id)
        return describe(group) if isinstance(group, Group) else None

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `tick` should be called next."""
        return self._table.timers.next_deadline_ms()

    def tick(self, now_ms: int) -> list[Effect]:
        """Handle everything that is due."""
        effects: list[Effect] = []
        while (timer := self._table.timers.due(now_ms)) is not None:
            group = timer.owner
            assert isinstance(group, Group | ConsumerGroup)
            if self._table.groups.get(group.group_id) is not group:
                continue
            if timer.kind == TimerKind.EXPIRY:
                self._expire(group, now_ms, effects)
            elif isinstance(group, ConsumerGroup):
                # A session that expired, or partitions that were not given up in time.
                self._remove_members(group, (timer.key,), now_ms, effects)
            else:
                self._table.membership.on_timer(group, timer, now_ms, effects)
                self._drop_if_unused(group)
        return effects

    def _expire(self, group: Group | ConsumerGroup, now_ms: int, effects: list[Effect]) -> None:
        retention_ms = self._settings.offsets_retention_ms
        expired = expired_offsets(group, now_ms, retention_ms)
        if expired:
            self._write(OffsetsDeleted(group_id=group.group_id, partitions=tuple(expired)), now_ms, effects)
        is_joined = isinstance(group, Group) and bool(group.pending_joins)
        if group.is_empty and group.offsets.is_empty and not is_joined:
            self._write(GroupDeleted(group_id=group.group_id), now_ms, effects)
            return
        # Offsets that have not expired are checked again within an eighth of their retention.
        self._table.timers.set(group.expiry_timer, now_ms + max(1, retention_ms // 8))

    def _drop_if_unused(self, group: Group) -> None:
        """Remove a group without durable state; that needs no event."""
        if group.state is State.EMPTY and not group.is_written and not group.pending_joins:
            self._table.remove(group)

    # Durable state

    def _write(self, event: GroupEvent, now_ms: int, effects: list[Effect]) -> None:
        self._table.apply(event, now_ms)
        effects.append(Persist(event))

    def apply(self, event: GroupEvent, now_ms: int) -> None:
        """Replay one event. Sessions of members begin at `now_ms`; no request is answered."""
        self._table.apply(event, now_ms)

    def written(self) -> list[str]:
        """The ids of groups with durable state."""
        return self._table.written()

    def offsets_of(self, group_id: str) -> list[Any]:
        """The offsets of a group in the form of its snapshot."""
        return self._table.offsets_of(group_id)

    def snapshot(self) -> dict[str, Any]:
        """The state as builtins; groups without durable state are left out."""
        return self._table.snapshot()

    def restore(self, state: dict[str, Any], now_ms: int) -> None:
        """Restore the result of `snapshot`."""
        self._table.restore(state, now_ms)
