"""The coordinator of consumer groups.

The groups are pure state machines that return effects: events to write and replies to send. The coordinator appends the
events to the group's shard, sends each reply after the commit of the events before it, and runs one timer for
deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import final

from longhall.broker.deadline_timer import DeadlineTimer
from longhall.broker.feature_gates import check_consumer_groups
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall, HallObserver
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.shards.shard import GROUPS, Committable, Shard
from longhall.topics.effects import (
    CommitRequest,
    CommitResult,
    ConfigureResult,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    Effect,
    JoinRequest,
    JoinResult,
    LeaveResult,
    Persist,
    SyncRequest,
    SyncResult,
)
from longhall.topics.views import ConsumerGroupDescription, FetchedOffset, GroupDescription, GroupListing


@final
class _Delivery(Committable):
    """A reply that waits for the events before it."""

    def __init__(self, ticket: object, result: object) -> None:
        self.ticket = ticket
        self.result = result

    def committed(self, value: int) -> None:
        if isinstance(self.ticket, asyncio.Future) and not self.ticket.done():
            self.ticket.set_result(self.result)


@final
class GroupCoordinator(HallObserver):
    """All consumer-group operations of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._timer = DeadlineTimer(hall.time, self._tick)
        hall.observers.append(self)

    # Membership

    async def join(self, request: JoinRequest) -> JoinResult:
        """JoinGroup; waits until the generation is complete."""
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return JoinResult(code=Code.NOT_READY, member_id=request.member_id)
        ticket: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(request.group_id)
        self.run(request.group_id, groups.join(request, ticket, self._hall.time.now_ms()))
        return await ticket

    async def sync(self, request: SyncRequest) -> SyncResult:
        """SyncGroup; waits for the leader's assignment."""
        ticket: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(request.group_id)
        self.run(request.group_id, groups.sync(request, ticket, self._hall.time.now_ms()))
        return await ticket

    def heartbeat(self, group_id: str, member_id: str, generation: int, instance_id: str | None) -> Code | None:
        """Heartbeat; answered at once."""
        groups = self._hall.groups_of(group_id)
        return groups.heartbeat(group_id, member_id, generation, self._hall.time.now_ms(), instance_id)

    async def consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """ConsumerGroupHeartbeat; answered when what it changed is committed."""
        try:
            check_consumer_groups(self._hall)
        except LonghallError as error:
            return ConsumerHeartbeatResult(code=error.code, message=str(error))
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return ConsumerHeartbeatResult(code=Code.NOT_READY)
        ticket: asyncio.Future[ConsumerHeartbeatResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(request.group_id)
        self.run(request.group_id, groups.consumer_heartbeat(request, ticket, self._hall.time.now_ms()))
        return await ticket

    async def leave(self, group_id: str, members: tuple[tuple[str, str | None], ...]) -> LeaveResult:
        """LeaveGroup."""
        ticket: asyncio.Future[LeaveResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(group_id)
        self.run(group_id, groups.leave(group_id, members, ticket, self._hall.time.now_ms()))
        return await ticket

    # Offsets

    async def commit_offsets(self, request: CommitRequest) -> CommitResult:
        """OffsetCommit."""
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return CommitResult(code=Code.NOT_READY)
        ticket: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(request.group_id)
        self.run(request.group_id, groups.commit_offsets(request, ticket, self._hall.time.now_ms()))
        return await ticket

    async def hold_offsets(self, request: CommitRequest, producer_id: int, producer_epoch: int) -> CommitResult:
        """TxnOffsetCommit, after the transaction includes the group."""
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return CommitResult(code=Code.NOT_READY)
        ticket: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(request.group_id)
        now_ms = self._hall.time.now_ms()
        self.run(request.group_id, groups.hold_offsets(request, producer_id, producer_epoch, ticket, now_ms))
        return await ticket

    def end_transaction(self, group_id: str, producer_id: int, commit: bool) -> Shard:
        """Apply the outcome of a transaction to a group; returns the shard to wait for."""
        groups = self._hall.groups_of(group_id)
        self.run(group_id, groups.end_transaction(group_id, producer_id, commit, None, self._hall.time.now_ms()))
        return self._hall.shard_of(group_id)

    async def fetch_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None, require_stable: bool
    ) -> list[FetchedOffset]:
        """OffsetFetch: answered after the offsets are durable."""
        found = self._hall.groups_of(group_id).fetch_offsets(group_id, partitions, require_stable)
        await committed(self._hall, self._hall.shard_of(group_id))
        return found

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> Code | None:
        """Why a member of this epoch may not fetch the offsets of its group."""
        return self._hall.groups_of(group_id).check_fetch(group_id, member_id, epoch)

    async def delete_offsets(self, group_id: str, partitions: tuple[tuple[str, int], ...]) -> DeleteOffsetsResult:
        """OffsetDelete."""
        ticket: asyncio.Future[DeleteOffsetsResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(group_id)
        self.run(group_id, groups.delete_offsets(group_id, partitions, ticket, self._hall.time.now_ms()))
        return await ticket

    # Administration

    async def delete_group(self, group_id: str) -> Code | None:
        """DeleteGroups, for one group."""
        ticket: asyncio.Future[DeleteGroupsResult] = asyncio.get_running_loop().create_future()
        groups = self._hall.groups_of(group_id)
        self.run(group_id, groups.delete_groups((group_id,), ticket, self._hall.time.now_ms()))
        return (await ticket).groups[0][1]

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups of all shards."""
        states, types = list(states), list(types)
        return [line for groups in self._hall.groups for line in groups.list_groups(states, types)]

    def describe_group(self, group_id: str) -> GroupDescription | None:
        """One group."""
        return self._hall.groups_of(group_id).describe_group(group_id)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription | None:
        """One group with server-side assignment."""
        return self._hall.groups_of(group_id).describe_consumer_group(group_id)

    def group_configuration(self, group_id: str) -> dict[str, str]:
        """The settings that were given for a group, which need not exist."""
        return self._hall.groups_of(group_id).configurations.given(group_id)

    def configured_groups(self) -> list[str]:
        """The groups for which settings were given, by name."""
        return sorted(name for groups in self._hall.groups for name in groups.configurations.snapshot())

    def group_default(self, group_id: str, name: str) -> int:
        """The value of a setting of groups that was not given."""
        return self._hall.groups_of(group_id).configurations.default(name)

    async def configure_group(self, group_id: str, configuration: dict[str, str], validate_only: bool) -> None:
        """Replace the settings of a group; raises INVALID_CONFIGURATION if they are not possible."""
        check_consumer_groups(self._hall)
        groups = self._hall.groups_of(group_id)
        groups.check_configuration(group_id, configuration)
        if validate_only:
            return
        if not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            raise LonghallError(Code.NOT_READY)
        ticket: asyncio.Future[ConfigureResult] = asyncio.get_running_loop().create_future()
        self.run(group_id, groups.configure(group_id, configuration, ticket, self._hall.time.now_ms()))
        await ticket

    # Effects and time

    def run(self, group_id: str, effects: list[Effect]) -> None:
        """Write the events and send the replies, each after the events before it."""
        self._run(self._hall.shard_of(group_id), effects)
        self.arm()

    def _run(self, shard: Shard, effects: list[Effect]) -> None:
        written = False
        for effect in effects:
            if isinstance(effect, Persist):
                self._hall.append_event(shard, GROUPS, effect.event)
                written = True
            elif effect.ticket is not None:
                delivery = _Delivery(effect.ticket, effect.result)
                if written:
                    shard.wait(delivery, 0)
                else:
                    delivery.committed(0)

    def arm(self) -> None:
        """Set the timer to the next deadline."""
        self._timer.arm(groups.next_deadline_ms() for groups in self._hall.groups)

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _tick(self) -> None:
        now_ms = self._hall.time.now_ms()
        for number, groups in enumerate(self._hall.groups):
            effects = groups.tick(now_ms)
            if effects:
                self._run(self._hall.shards[number + 1], effects)
        self.arm()

    def topic_deleted(self, topic: str) -> None:
        now_ms = self._hall.time.now_ms()
        for number, groups in enumerate(self._hall.groups):
            self._run(self._hall.shards[number + 1], groups.forget_topics(frozenset({topic}), now_ms))
