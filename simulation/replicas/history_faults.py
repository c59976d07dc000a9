"""Sequences of faults that have lost messages in well-known systems.

forget_the_watermark      a follower restarts, knows a lower commit index than its log has, and leads at once
fail_over_twice           two leaders in a row have unconfirmed entries, and return together
lose_all_but_one          all replicas leave but one, which loses power; the first to return is incomplete
wake_a_deposed_leader     a leader is paused through the end of its session, with requests under way
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.host_names import name_of

LOOK_S: Final = 0.02
LOOKS_MAX: Final = 1_000
PAST_THE_SESSION_S: Final = (4.5, 6.0, 9.0)


@final
class HistoryFaults:
    """The fault sequences that a menu can name."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._fabric = cluster.simulation.fabric
        self._nodes = cluster.numbers
        self._chance = chance

    def heal(self) -> None:
        """Nothing to heal: these faults end with those of hosts and links."""

    async def forget_the_watermark(self) -> None:
        """KIP-101: a replica that truncates its log to its own commit index loses what the leader has acknowledged."""
        leader, follower, others = self._cast()
        for node in others:
            self._send_away(node)
        self._cluster.host(follower).kill()
        await self._until_in_sync(follower)
        await asyncio.sleep(self._chance.choice((0.0, 0.05, 0.3, 1.0)))
        self._cluster.host(follower).kill()
        await asyncio.sleep(self._chance.choice((0.0, 0.0, 0.01, 0.1)))
        self._send_away(leader, power=self._chance.random() < 0.5)
        await asyncio.sleep(self._chance.choice((2.0, 6.0)))
        await self._bring_back()

    async def fail_over_twice(self) -> None:
        """KIP-279: offsets alone do not show where two logs diverge when the leader changed twice in between."""
        gone: list[int] = []
        for _ in range(2):
            leader = self._leader()
            cut = [(leader, other) for other in self._nodes if other != leader]
            for one, other in cut:
                self._fabric.cut(name_of(one), name_of(other))
            # No replica confirms what the leader accepts now.
            await asyncio.sleep(self._chance.choice((0.05, 0.3, 1.0)))
            self._send_away(leader)
            gone.append(leader)
            for one, other in cut:
                self._fabric.heal(name_of(one), name_of(other))
            await self._until_led_by_another(leader)
            await asyncio.sleep(self._chance.choice((0.0, 0.1, 0.5)))
        self._chance.shuffle(gone)
        for node in gone:
            self._cluster.down.discard(node)
            await asyncio.sleep(self._chance.choice((0.0, 0.2, 1.0)))
        self._cluster.host(self._leader()).kill()

    async def lose_all_but_one(self) -> None:
        """KIP-966, the last replica standing: only a complete replica may lead, and an unclean stop proves nothing."""
        order = self._chance.sample(self._nodes, len(self._nodes))
        for node in order[:-1]:
            self._send_away(node, power=self._chance.random() < 0.5)
            await asyncio.sleep(self._chance.choice((0.1, 2.0, 5.0)))
        self._send_away(order[-1], power=True)
        await self._bring_back()

    async def wake_a_deposed_leader(self) -> None:
        """A session may have expired before a paused client notices; what it does then must have no effect."""
        leader = self._leader()
        resume = self._cluster.pause(leader)
        if resume is None:
            return
        await asyncio.sleep(self._chance.choice(PAST_THE_SESSION_S))
        resume()

    def _cast(self) -> tuple[int, int, list[int]]:
        leader = self._leader()
        others = [node for node in self._nodes if node != leader]
        self._chance.shuffle(others)
        return leader, others[0], others[1:]

    def _leader(self) -> int:
        return self._cluster.leader_number() or self._chance.choice(self._nodes)

    def _send_away(self, node: int, *, power: bool = False) -> None:
        self._cluster.down.add(node)
        host = self._cluster.host(node)
        if power:
            host.cut_power()
        else:
            host.kill()

    async def _bring_back(self) -> None:
        """Start the stopped nodes in any order, with any pause between."""
        for node in self._chance.sample(self._nodes, len(self._nodes)):
            await asyncio.sleep(self._chance.choice((0.0, 0.5, 3.0)))
            self._cluster.down.discard(node)

    async def _until_in_sync(self, node: int) -> None:
        for _ in range(LOOKS_MAX):
            if node not in self._cluster.in_sync():
                break
            await asyncio.sleep(LOOK_S)
        for _ in range(LOOKS_MAX):
            if node in self._cluster.in_sync():
                return
            await asyncio.sleep(LOOK_S)

    async def _until_led_by_another(self, node: int) -> None:
        for _ in range(LOOKS_MAX):
            if self._cluster.leader_number() not in (0, node):
                return
            await asyncio.sleep(LOOK_S)
