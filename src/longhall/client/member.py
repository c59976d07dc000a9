"""A member of a consumer group, by the classic protocol.

    join ----> the leader assigns by range ----> sync ----> read, heartbeat, commit ----> leave
      ^                                                            |
      +---------- the group changes, or forgot this member --------+

Joining may wait for the whole group, so it uses a line of its own. A task sends heartbeats; the next poll acts on their
results, so that assignments change only between polls.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar, final

from longhall.client.assignment import assign_by_range
from longhall.client.groups import Committed, Membership, Place
from longhall.client.reader import Consumed, Reader
from longhall.client.records import EARLIEST, READ_COMMITTED
from longhall.client.refusals import COORDINATOR_MOVED, Refused, check
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages import groups as g
from longhall.doors.kafka.wire.messages.cluster import CoordinatorType
from longhall.doors.kafka.wire.messages.membership import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopic,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_membership,
)
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.client.hall import Hall

_RANGE: Final = "range"
_JOIN_AGAIN: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS)

_R = TypeVar("_R", bound=Message)


@final
class GroupMember:
    """One member. `poll` joins if necessary. Call `leave` when done, or the others wait for the session timeout."""

    def __init__(
        self,
        hall: Hall,
        group_id: str,
        topics: list[str],
        *,
        start: int = EARLIEST,
        instance_id: str | None = None,
        isolation_level: int = READ_COMMITTED,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 60_000,
        heartbeat_ms: int = 3_000,
        max_wait_ms: int = 500,
        filter: str = "",
    ) -> None:
        self.group_id = group_id
        self._hall = hall
        self._topics = topics
        self._start = start
        self._instance_id = instance_id
        self._isolation_level = isolation_level
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_ms = heartbeat_ms
        self._max_wait_ms = max_wait_ms
        self._filter = filter
        self._line = hall.new_line()
        self._member_id = ""
        self._generation_id = -1
        self._reader: Reader | None = None
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> list[Place]:
        return sorted(self._reader.positions) if self._reader is not None else []

    @property
    def membership(self) -> Membership:
        """The identity of this member, for transactions that commit offsets of this group."""
        return Membership(self._generation_id, self._member_id, self._instance_id)

    @property
    def positions(self) -> dict[Place, Committed]:
        """The offsets to commit for everything that was polled so far."""
        return {} if self._reader is None else {p: Committed(o) for p, o in self._reader.positions.items()}

    async def poll(self) -> list[Consumed]:
        """Records of the assigned partitions; none during a rebalance or if nothing arrives."""
        if self._reader is None or self._heartbeats is None or self._heartbeats.done():
            await self._join()
        assert self._reader is not None
        return await self._reader.poll()

    async def commit(self) -> None:
        """Commit everything that was polled. Raises Refused if the group has rebalanced; then it is read again."""
        if self._reader is not None and self._reader.positions:
            await self._hall.groups.commit(self.group_id, self.positions, self.membership)

    async def leave(self) -> None:
        self._stop()
        if self._member_id and self._instance_id is None:
            who = g.LeaveGroupRequestMember(member_id=self._member_id)
            request = g.LeaveGroupRequest(group_id=self.group_id, member_id=self._member_id, members=[who])
            try:
                await self._hall.ask_coordinator(
                    CoordinatorType.GROUP, self.group_id, request, g.LeaveGroupResponse, line=self._line
                )
            except LonghallError:
                pass  # The session ends by itself.
        self._member_id = ""
        self._hall.close_line(self._line)

    def _stop(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            self._heartbeats = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def _join(self) -> None:
        self._stop()
        patience_ms = self._rebalance_timeout_ms + self._hall.patience_ms
        places = await self._hall.persist(self._join_and_sync, patience_ms=patience_ms)
        self._reader = Reader(
            self._hall,
            await self._begin(places),
            isolation_level=self._isolation_level,
            max_wait_ms=self._max_wait_ms,
            filter=self._filter,
        )
        self._heartbeats = asyncio.get_running_loop().create_task(self._beat())

    async def _join_and_sync(self) -> list[Place]:
        try:
            joined = await self._ask_to_join()
            return await self._sync(joined)
        except Refused as refusal:
            if refusal.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            if refusal.error_code in _JOIN_AGAIN:
                raise Refused(refusal.error_code, str(refusal), retriable=True) from refusal
            if refusal.error_code in COORDINATOR_MOVED:
                self._hall.forget_coordinator(CoordinatorType.GROUP, self.group_id)
            raise

    async def _ask_to_join(self) -> g.JoinGroupResponse:
        metadata = encode_membership(ConsumerProtocolSubscription(topics=sorted(self._topics)))
        for _ in range(2):
            request = g.JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=self._rebalance_timeout_ms,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocols=[g.JoinGroupRequestProtocol(name=_RANGE, metadata=metadata)],
            )
            answer = await self._rebalance(request, g.JoinGroupResponse)
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            self._member_id = answer.member_id
        check(answer.error_code, f"group {self.group_id}")
        self._member_id = answer.member_id
        self._generation_id = answer.generation_id
        return answer

    async def _sync(self, joined: g.JoinGroupResponse) -> list[Place]:
        assignments: list[g.SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        request = g.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer = await self._rebalance(request, g.SyncGroupResponse)
        check(answer.error_code, f"group {self.group_id}")
        given = decode_assignment(answer.assignment).assigned_partitions
        return [(topic.topic, partition) for topic in given for partition in topic.partitions]

    async def _rebalance(self, request: Message, expected: type[_R]) -> _R:
        """Send a request that the coordinator answers when the whole group has joined."""
        timeout_ms = self._rebalance_timeout_ms + 5_000
        return await self._hall.ask_coordinator(
            CoordinatorType.GROUP, self.group_id, request, expected, timeout_ms=timeout_ms, line=self._line
        )

    async def _assign(self, joined: g.JoinGroupResponse) -> list[g.SyncGroupRequestAssignment]:
        subscriptions = {member.member_id: decode_subscription(member.metadata).topics for member in joined.members}
        counts: dict[str, int] = {}
        for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
            try:
                counts[topic] = len((await self._hall.topics.describe(topic)).partitions)
            except Refused:
                counts[topic] = 0  # The topic does not exist yet; a later generation may read it.
        return [
            g.SyncGroupRequestAssignment(member_id=member, assignment=encode_membership(_as_message(places)))
            for member, places in assign_by_range(subscriptions, counts).items()
        ]

    async def _begin(self, places: list[Place]) -> dict[Place, int]:
        """The committed offset of the group, or the start position of this member."""
        if not places:
            return {}
        committed = await self._hall.groups.offsets(self.group_id, places, stable=True)
        positions = {place: each.offset for place, each in committed.items()}
        for topic in {topic for topic, _ in places}:
            missing = [part for name, part in places if name == topic and (name, part) not in positions]
            if missing:
                reader = await Reader.open(self._hall, topic, self._start, partitions=missing)
                positions.update(reader.positions)
        return positions

    async def _beat(self) -> None:
        """Send heartbeats until the group requires a rejoin; then the task ends, and the next poll notices."""
        request = g.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        while True:
            await asyncio.sleep(self._heartbeat_ms / 1000)
            try:
                answer = await self._hall.ask_coordinator(
                    CoordinatorType.GROUP, self.group_id, request, g.HeartbeatResponse, line=self._line
                )
            except LonghallError:
                continue  # The coordinator is away; if that lasts, the group will say so.
            if answer.error_code in COORDINATOR_MOVED:
                self._hall.forget_coordinator(CoordinatorType.GROUP, self.group_id)
            elif answer.error_code != 0:
                return


def _as_message(places: list[Place]) -> ConsumerProtocolAssignment:
    topics: dict[str, ConsumerProtocolAssignmentTopic] = {}
    for topic, partition in places:
        topics.setdefault(topic, ConsumerProtocolAssignmentTopic(topic=topic)).partitions.append(partition)
    return ConsumerProtocolAssignment(assigned_partitions=list(topics.values()))
