"""A running node of a simulated cluster, used from inside its process: messages go to its hall without a door.

At the moment of an acknowledgement the message must be on enough disks.
"""

from __future__ import annotations

import asyncio
from typing import final

from longhall.broker.hall import Hall
from longhall.broker.pending import Acknowledgeable, Guard
from longhall.broker.send import send, wait
from longhall.cluster.replication.group_replica import GroupReplica
from longhall.node.assembly import Node
from longhall.records.batch import build_batch
from longhall.records.record import Record
from longhall.shards.shard import ONE
from simulation.loop import Process
from simulation.replicas.committed_log import CommittedLog


@final
class MemberNode:
    """One incarnation of the node's process, from the moment at which its doors are open."""

    def __init__(self, number: int, process: Process, running: Node, committed_log: CommittedLog) -> None:
        self.node = number
        self.process = process
        self.running = running
        self._committed_log = committed_log

    @property
    def hall(self) -> Hall:
        """The hall of this node."""
        return self.running.hall

    @property
    def member(self) -> GroupReplica:
        """The node's replica of the log."""
        cluster_node = self.running.cluster_node
        assert cluster_node is not None
        assert cluster_node.member is not None
        return cluster_node.member

    @property
    def serves(self) -> bool:
        """True if it leads and accepts messages."""
        return (
            self.process.alive and self.running.cluster_node is not None and self.running.cluster_node.session.leads(0)
        )

    async def produce(self, topic: str, number: int, values: list[str]) -> int:
        """Send one batch and wait for the acknowledgement; returns the first offset, -1 if it was refused."""
        hall = self.hall
        partition = hall.partition(topic, number)
        if partition is None or not self.serves:
            return -1
        batch = build_batch([Record(-1, hall.time.now_ms(), b"k", value.encode()) for value in values])
        sent = send(hall, partition, batch, 0, len(batch))
        if sent.code is not None:
            return -1
        by_one = partition.options.acknowledge == ONE
        own_min = partition.options.in_sync_min
        kept = _Kept(self._committed_log, self.member, 1 if by_one else own_min or self.running.settings.in_sync_min)
        wait(hall, partition, kept if by_one else Guard(hall, kept, own_min), 0)
        return sent.base_offset if await kept.answered else -1


@final
class _Kept(Acknowledgeable):
    """A batch that waits for its commit; checks on acknowledgement that enough replicas have it."""

    def __init__(self, committed_log: CommittedLog, member: GroupReplica, in_sync_min: int) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._committed_log = committed_log
        self._member = member
        self._index = member.index
        self._in_sync_min = in_sync_min

    def committed(self, value: int) -> None:
        leading = self._member.leading
        followers = leading.followers.values() if leading is not None else ()
        kept = 1 + sum(follower.synced >= self._index for follower in followers)
        self._committed_log.demand(
            kept >= self._in_sync_min, f"entry {self._index} is acknowledged, and only {kept} replicas have it"
        )
        self._answer(True)

    def refused(self) -> None:
        self._answer(False)

    def _answer(self, told: bool) -> None:
        if not self.answered.done():
            self.answered.set_result(told)
