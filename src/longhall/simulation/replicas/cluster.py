"""Members on hosts of their own, each started again whenever it is gone, and clients that write to whoever leads."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, final

from longhall.broker.declare import create_topic, delete_topic
from longhall.cluster.member import Role
from longhall.errors import LonghallError
from longhall.log.chores import CHORES
from longhall.simulation.checkers.violation import Violation, demand
from longhall.simulation.loop import PowerCut
from longhall.simulation.replicas.contents import contents_of
from longhall.simulation.replicas.names import name_of, numbers_up_to
from longhall.simulation.replicas.node import IDENTITY, MemberNode
from longhall.simulation.replicas.registry import Registry
from longhall.simulation.replicas.truth import Truth
from longhall.simulation.world import Host, SimulatedWorld, Simulation

TOPIC: Final = "ledger"
PARTITIONS: Final = 4
PATIENCE_S: Final = 4.0
LIVENESS_S: Final = 30.0
STOP_S: Final = 20.0
UNHEARD_EVERY: Final = 20  # Looks; looking through all tasks takes its time.


@final
class Cluster:
    """See the module."""

    def __init__(self, simulation: Simulation, size: int = 3) -> None:
        self.simulation = simulation
        self.numbers = numbers_up_to(size)
        self.registry = Registry(simulation, self.numbers)
        self.truth = Truth()
        self.nodes: dict[int, MemberNode] = {}
        self.down: set[int] = set()  # Kept down on purpose.
        self.tasks: list[asyncio.Task[None]] = []
        self.sends = 0
        self.fetched = 0
        self.closing = False
        self._looks = 0
        self._chance: random.Random = simulation.stream("cluster")

    def host(self, node: int) -> Host:
        """The machine of a node."""
        return self.simulation.host(name_of(node))

    def start(self) -> None:
        """Start everything."""
        self.tasks.append(asyncio.ensure_future(self.registry.manage()))
        for node in self.numbers:
            self.tasks.append(asyncio.ensure_future(self._supervise(node)))

    def leader(self) -> MemberNode | None:
        """Who serves under the newest epoch, if anybody does."""
        serving = [node for node in self.nodes.values() if node.world.process.alive and node.serves]
        return max(serving, key=lambda node: node.member.epoch if node.member is not None else 0, default=None)

    async def wait_for_leader(self, seconds: float = LIVENESS_S) -> MemberNode:
        """Somebody serves within this time."""
        deadline = self._now() + seconds
        while True:
            leader = self.leader()
            if leader is not None:
                return leader
            demand(self._now() < deadline, f"nobody leads after {seconds} s although nothing is broken")
            await self.pass_time(0.05)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and raise what went wrong meanwhile."""
        await asyncio.sleep(seconds)
        demand(not self.truth.broken, self.truth.broken)
        for task in self.tasks:
            if task.done():
                task.result()
        self._looks += 1
        unheard = self.simulation.loop.unheard() if self._looks % UNHEARD_EVERY == 0 else []
        failures = [*self.simulation.loop.failures, *unheard]
        demand(not failures, f"nobody handled this:\n{failures[0] if failures else ''}")
        for node in self.nodes.values():
            self._look_at(node)

    def _look_at(self, node: MemberNode) -> None:
        """What a follower has applied and what a leader shows must be committed."""
        if node.life is None or node.member is None or node.hall is None or not node.world.process.alive:
            return
        replica = node.member.replica
        if node.serves:
            for number, partition in node.hall.partitions.items():
                self.truth.shows(node.life.name, number, partition.high_watermark)
        elif node.member.role_of(0) is Role.FOLLOWER:
            node.life.followed(replica.applied)

    async def make_topic(self) -> None:
        """Before anything breaks."""
        leader = await self.wait_for_leader()
        assert leader.hall is not None
        await leader.world.process.start(create_topic(leader.hall, TOPIC, PARTITIONS, {}))

    # What faults need

    def hall_id(self) -> str:
        return IDENTITY.hall_id

    def leader_number(self) -> int:
        return self.registry.state.leader

    def in_sync(self) -> list[int]:
        return sorted(self.registry.state.in_sync)

    def cut_coordinator(self, node: int) -> None:
        self.registry.cut.add(node)

    def heal_coordinator(self, node: int) -> None:
        self.registry.cut.discard(node)

    def lose_words(self, chance: float) -> None:
        self.registry.loss_chance = chance

    def expire_session(self, node: int) -> None:
        self.registry.expire(node)

    def pause(self, node: int) -> Callable[[], None] | None:
        process = self.host(node).process
        if process is None or not process.alive:
            return None
        process.pause()
        return process.resume

    async def stop(self, node: int) -> None:
        running = self.nodes[node]
        process = running.world.process
        if process.alive:
            stopping = process.start(running.stop())
            waited: list[asyncio.Future[Any]] = [stopping, process.ended]
            await asyncio.wait(waited, timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                stopping.exception()
            if process.alive:
                self.host(node).kill()

    # Clients

    async def write(self, number: int) -> None:
        """Send batches to whoever seems to lead, each value once, until closing."""
        chance = self.simulation.stream(f"writer/{number}")
        sent = 0
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / 0.05))
            node = self._someone(chance)
            if node is None:
                continue
            sent += 1
            large = 30_000 if chance.random() < 0.02 else 200
            values = [f"{number}.{sent}.{at}." + "x" * chance.randrange(large) for at in range(chance.randrange(1, 4))]
            partition = chance.randrange(PARTITIONS)
            self.sends += 1
            offset = await self._ask(node, node.produce(TOPIC, partition, values))
            if offset is not None and offset >= 0:
                for at, value in enumerate(values):
                    self.truth.acknowledge(value, TOPIC, partition, offset + at)

    async def declare(self) -> None:
        """Topics come and go, so that the catalogue's entries mix with the others."""
        chance = self.simulation.stream("declarer")
        number = 0
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / 2.0))
            node = self._someone(chance)
            if node is None or node.hall is None or not node.serves:
                continue
            names = [name for name in node.hall.routes if name != TOPIC]
            if names and chance.random() < 0.4:
                await self._ask(node, _quietly(delete_topic(node.hall, chance.choice(names))))
            else:
                number += 1
                await self._ask(node, _quietly(create_topic(node.hall, f"t{number}", chance.randrange(1, 4), {})))

    def _someone(self, chance: random.Random) -> MemberNode | None:
        """Mostly the leader; now and then anybody who believes to be one, or does not."""
        known = self.registry.state.leader
        if chance.random() < 0.2 or known not in self.nodes:
            known = chance.choice(self.numbers)
        node = self.nodes.get(known)
        return node if node is not None and node.world.process.alive else None

    async def _ask(self, node: MemberNode, question: Coroutine[Any, Any, int]) -> int | None:
        process = node.world.process
        task = process.start(question)
        waited: list[asyncio.Future[Any]] = [task, process.ended]
        await asyncio.wait(waited, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return None
        error = task.exception()
        if isinstance(error, PowerCut | OSError | LonghallError):
            return None
        return task.result()

    # The end

    async def settle(self) -> None:
        """Nothing is broken any more: within a while there is a leader, and everybody has what it has."""
        self.closing = True
        await self._until(self._is_settled)

    async def wait_until_settled(self) -> None:
        """The same while clients go on: everybody is in sync."""
        await self._until(self._is_in_sync)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = self._now() + LIVENESS_S
        while not holds():
            demand(self._now() < deadline, f"not settled {LIVENESS_S} s after healing: {self._stand()}")
            await self.pass_time(0.1)

    def check_contents(self) -> None:
        """Every member has the same messages, and among them all that were acknowledged, where they were."""
        leader = self.leader()
        assert leader is not None and leader.hall is not None  # noqa: PT018
        expected = contents_of(leader.hall)
        for node in self.nodes.values():
            assert node.hall is not None
            found = contents_of(node.hall)
            demand(sorted(found) == sorted(expected), f"{name_of(node.node)} has other partitions than the leader")
            for place, messages in expected.items():
                demand(found[place] == messages, f"{name_of(node.node)} has other messages in {place} than the leader")
        for value, (topic, partition, offset) in self.truth.acknowledged.items():
            there = expected.get((topic, partition), {}).get(offset)
            demand(
                there == value,
                f"{value[:20]} was acknowledged at {topic}-{partition}@{offset}: {str(there)[:20]} is there",
            )
        values = [value for messages in expected.values() for value in messages.values()]
        demand(len(values) == len(set(values)), "a message that was sent once is there twice")

    def _is_settled(self) -> bool:
        leader = self.leader()
        if leader is None or leader.member is None or self.registry.state.leader != leader.node:
            return False
        index = leader.member.replica.index
        for node in self.numbers:
            member = self.nodes[node].member if node in self.nodes else None
            if member is None or not self.nodes[node].world.process.alive:
                return False
            replica = member.replica
            if (replica.index, replica.applied, replica.committed) != (index, index, index):
                return False
        return self._is_in_sync()

    def _is_in_sync(self) -> bool:
        leader = self.leader()
        led = leader is not None and self.registry.state.leader == leader.node
        alive = all(node in self.nodes and self.nodes[node].world.process.alive for node in self.numbers)
        return led and alive and self.registry.state.in_sync == frozenset(self.numbers)

    def _stand(self) -> str:
        stands = [str(self.registry.state)]
        for node, running in sorted(self.nodes.items()):
            status = running.member.status() if running.member is not None else None
            stands.append(f"{node} ({running.world.process.name}, alive {running.world.process.alive}): {status}")
        return "\n".join(stands)

    async def _supervise(self, node: int) -> None:
        host = self.host(node)
        while True:
            if node in self.down:
                await asyncio.sleep(0.1)
                continue
            world = host.boot(CHORES)
            life = world.process.start(self._live(world, node, host.boots))
            await asyncio.wait([life, world.process.ended], return_when=asyncio.FIRST_COMPLETED)
            host.kill()
            if life.done() and not isinstance(life.exception(), PowerCut | OSError):
                life.result()
                raise Violation(f"{name_of(node)} ended by itself")
            if life.done():
                self.simulation.trace.note("node ended", name_of(node), _story(life.exception()))
            await asyncio.sleep(self._chance.choice((0.05, 0.3, 1.5)))

    async def _live(self, world: SimulatedWorld, node: int, incarnation: int) -> None:
        running = MemberNode(world, node, self.numbers, self.registry, self.truth, incarnation)
        self.nodes[node] = running
        await running.live()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _quietly(work: Awaitable[object]) -> int:
    """What was refused was refused."""
    try:
        await work
    except LonghallError:
        return -1
    return 0


def _story(error: BaseException | None) -> str:
    if error is None:
        return "without a word"
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return f"{error!r} in " + ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
