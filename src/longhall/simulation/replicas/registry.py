"""A coordinator for members without doors: sessions, one record with a version, and somebody who elects.

Every call takes time on the way there and back and may get lost on either; a node may be cut off altogether, and what
it reads may be a little old. The election follows the rules of the cluster: only who is recorded as in sync may lead,
each leader has an epoch of its own, and who comes back without having stopped cleanly leaves the in-sync set, unless
nobody else is in it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Final, NamedTuple, final

from longhall.simulation.world import Simulation

SESSION_S: Final = 3.0
LOOK_S: Final = 0.1
CALL_MS: Final = (0.5, 20.0)
LOST_S: Final = 2.0  # After so long a caller gives up.
STALE_MAX: Final = 3  # Versions that a read may be behind.


class State(NamedTuple):
    """What is recorded of the hall."""

    version: int
    leader: int
    epoch: int
    in_sync: frozenset[int]


@final
class Registry:
    """See the module. It belongs to no process and never dies; being cut off from it is the fault to play with."""

    def __init__(self, simulation: Simulation, nodes: list[int]) -> None:
        self.loss_chance = 0.0
        self.cut: set[int] = set()
        self.elections = 0
        self._chance: random.Random = simulation.stream("registry")
        self._trace = simulation.trace
        self._states: deque[State] = deque([State(1, 0, 0, frozenset(nodes))], maxlen=STALE_MAX)
        self._sessions: dict[int, tuple[int, float]] = {}  # Incarnation, and when it was heard of.

    @property
    def state(self) -> State:
        """The newest."""
        return self._states[-1]

    # What nodes call

    async def register(self, node: int, incarnation: int, clean: bool) -> None:
        """A node has started."""
        await self._way(node)
        self._sessions[node] = (incarnation, self._now())
        state = self.state
        if state.leader == node:
            state = self._record(state._replace(leader=0))
        if not clean and node in state.in_sync and len(state.in_sync) > 1:
            self._record(state._replace(in_sync=state.in_sync - {node}))
        await self._way(node)

    async def touch(self, node: int, incarnation: int) -> bool:
        """Keep the session; False if it has expired."""
        await self._way(node)
        known = self._sessions.get(node)
        alive = known is not None and known[0] == incarnation
        if alive:
            self._sessions[node] = (incarnation, self._now())
        await self._way(node)
        return alive

    async def read(self, node: int) -> State:
        """What is recorded, perhaps as it was a moment ago."""
        await self._way(node)
        state = self._chance.choice(self._states) if self._chance.random() < 0.2 else self.state
        await self._way(node)
        return state

    async def record_in_sync(self, node: int, epoch: int, version: int, in_sync: frozenset[int]) -> State | None:
        """The leader of this epoch says who is in sync, on condition that nothing has changed; returns what is so."""
        await self._way(node)
        state = self.state
        fits = state.epoch == epoch and state.leader == node
        if fits and state.version == version:
            state = self._record(state._replace(in_sync=in_sync))
        await self._way(node)
        return state if fits else None

    async def renounce(self, node: int, epoch: int) -> None:
        """The leader of this epoch lacks something: neither leader nor in sync, if others are."""
        await self._way(node)
        state = self.state
        if (state.epoch, state.leader) == (epoch, node) and len(state.in_sync) > 1:
            self._record(state._replace(leader=0, in_sync=state.in_sync - {node}))
        await self._way(node)

    def expire(self, node: int) -> None:
        """The session of this node is over, whether it lives or not."""
        self._sessions.pop(node, None)

    # The manager

    async def manage(self) -> None:
        """Elect whenever there is no leader, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            live = self._live()
            state = self.state
            if state.leader in live:
                continue
            eligible = sorted(state.in_sync & live)
            if eligible:
                leader = self._chance.choice(eligible)
                self.elections += 1
                self._record(State(0, leader, state.epoch + 1, state.in_sync & live))
            elif state.leader:
                self._record(state._replace(leader=0))

    def _live(self) -> set[int]:
        now = self._now()
        return {node for node, (_, heard) in self._sessions.items() if now - heard <= SESSION_S}

    def _record(self, state: State) -> State:
        state = state._replace(version=self.state.version + 1)
        self._states.append(state)
        self._trace.note("recorded", state.leader, state.epoch, sorted(state.in_sync))
        return state

    async def _way(self, node: int) -> None:
        low, high = CALL_MS
        await asyncio.sleep(self._chance.uniform(low, high) / 1000)
        if node in self.cut or self._chance.random() < self.loss_chance:
            await asyncio.sleep(LOST_S)
            raise ConnectionError("the coordinator does not answer")

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
