"""Members of a group with server-side assignment that join, give up partitions in their own time, and leave or die.

Each member speaks the protocol itself: heartbeats at its own pace, some answers lost. It reports to the oracle what it
reads: it takes partitions when it hears of them, and stops reading revoked ones some time later.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.client.hall import Hall
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.cluster import CoordinatorType
from longhall.doors.kafka.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from longhall.doors.kafka.wire.messages.group_assignments import HeartbeatTopic
from longhall.errors import LonghallError
from longhall.topics.assignment import Places, assigned, places
from simulation.checkers.topic_state import OwnershipOracle
from simulation.scenarios.group_members import connect_member
from simulation.scenarios.run_context import RunContext
from simulation.world import SimulatedWorld

REBALANCE_MS: Final = 30_000
GIVE_UP_S_MAX: Final = 6.0
LOOK_S: Final = 0.5
_JOIN_AGAIN: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_MEMBER_EPOCH}
)


async def come_and_go_assigned(context: RunContext, name: str, oracle: OwnershipOracle, topics: list[str]) -> None:
    """Run one member after another, each in a process of its own, so that it can die without leaving."""
    chance = context.stream(name)
    host = context.simulation.host(name)
    lives = 0
    while not context.closing:
        world = host.boot()
        lives += 1
        member = _Member(f"{name}-{lives}", oracle, topics, chance)
        life = world.process.start(member.live(context, world))
        for _ in range(chance.randint(20, 120)):
            await asyncio.wait([life], timeout=LOOK_S)
            if life.done() or context.closing:
                break
        host.kill()
        oracle.stopped(member.member_id)
        if life.done():
            life.result()
        await asyncio.sleep(chance.uniform(0.1, 5))


@final
class _Member:
    """One member: its epoch, what it should read, and what it reads."""

    def __init__(self, member_id: str, oracle: OwnershipOracle, topics: list[str], chance: random.Random) -> None:
        self.member_id = member_id
        self._oracle = oracle
        self._topics = topics
        self._chance = chance
        self._epoch = 0
        self._wanted: Places = frozenset()
        self._owned: Places = frozenset()
        self._gives_up_at = 0.0

    async def live(self, context: RunContext, world: SimulatedWorld) -> None:
        hall = await connect_member(context.addresses, world, self.member_id)
        loop = asyncio.get_running_loop()
        for _ in range(self._chance.randint(10, 200)):
            sent_at = loop.time()
            try:
                answer = await hall.ask_coordinator(
                    CoordinatorType.GROUP, self._oracle.group, self._request(), ConsumerGroupHeartbeatResponse
                )
            except LonghallError:
                await asyncio.sleep(self._chance.uniform(0.05, 0.5))
                continue
            if self._chance.random() > 0.05:  # Else the member never sees this answer.
                self._listen(answer, sent_at)
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            if self._owned != self._wanted and loop.time() >= self._gives_up_at:
                self._oracle.gave_up(self.member_id, self._owned - self._wanted)
                self._owned &= self._wanted
        await self._leave(hall)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._oracle.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=self._topics,
            topic_partitions=[
                HeartbeatTopic(topic_id=topic_id, partitions=list(numbers))
                for topic_id, numbers in assigned(self._owned)
            ],
        )

    def _listen(self, answer: ConsumerGroupHeartbeatResponse, sent_at: float) -> None:
        if answer.error_code in _JOIN_AGAIN:
            self._oracle.stopped(self.member_id)
            self._epoch, self._owned, self._wanted = 0, frozenset(), frozenset()
            return
        if answer.error_code:
            return
        self._oracle.heard(self.member_id, answer.member_epoch, sent_at)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            before = self._wanted
            self._wanted = places((row.topic_id, row.partitions) for row in answer.assignment.topic_partitions)
            if self._wanted != before:
                self._gives_up_at = asyncio.get_running_loop().time() + self._chance.uniform(0, GIVE_UP_S_MAX)
            self._oracle.took(self.member_id, self._wanted - self._owned, asyncio.get_running_loop().time())
            self._owned |= self._wanted

    async def _leave(self, hall: Hall) -> None:
        self._oracle.stopped(self.member_id)
        request = ConsumerGroupHeartbeatRequest(group_id=self._oracle.group, member_id=self.member_id, member_epoch=-1)
        try:
            await hall.ask_coordinator(
                CoordinatorType.GROUP, self._oracle.group, request, ConsumerGroupHeartbeatResponse
            )
        except LonghallError:
            pass  # Its session expires.
        hall.close()
