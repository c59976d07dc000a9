"""A simulated cluster whose log is written from inside the processes, without doors, and its oracle: see
`committed_log`.

The nodes are complete, with the election rules and the coordinator of every other cluster. The clients need no protocol
and write to the leader, so that a run spends its time on the log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, final

import msgspec

from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.cluster.replication.group_replica import ReplicaOptions
from longhall.errors import LonghallError
from longhall.node import cluster_node
from longhall.node.memory_shares import member_options
from longhall.node.settings import Settings
from simulation.bug import replaced
from simulation.checkers.violation import demand
from simulation.loop import PowerCut
from simulation.replicas.committed_log import CommittedLog
from simulation.replicas.hall_contents import contents_of
from simulation.replicas.host_names import name_of
from simulation.replicas.member_node import MemberNode
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.world import Host, Simulation

TOPIC: Final = "ledger"
PARTITIONS: Final = 4
PATIENCE_S: Final = 4.0
LIVENESS_S: Final = 30.0
UNHEARD_EVERY: Final = 20  # Looks. Inspecting all tasks is slow.
SEGMENT_BYTES: Final = (20_000, 150_000, 1 << 30)


class Large(NamedTuple):
    """The probability of a large message, and its maximum size."""

    chance: float
    bytes_max: int


LARGE: Final = Large(chance=0.02, bytes_max=30_000)


@final
class LogCluster:
    """A `SimulatedCluster` with in-process clients; it is a `FaultTarget` too."""

    def __init__(self, simulation: Simulation, size: int = 3, large: Large = LARGE) -> None:
        self.simulation = simulation
        self.simulated_cluster = SimulatedCluster(simulation, size, factor=size)
        self.simulated_cluster.damage_allowed = False
        self.numbers = self.simulated_cluster.numbers
        self.down = self.simulated_cluster.down
        self.lost = self.simulated_cluster.lost
        self.tasks = self.simulated_cluster.tasks
        self.sends = 0
        self.closing = False
        self._large = large
        self._looks = 0
        self._known: dict[int, MemberNode] = {}

    @property
    def committed_log(self) -> CommittedLog:
        """The oracle of the log."""
        return self.simulated_cluster.watch.committed_log

    @property
    def nodes(self) -> dict[int, MemberNode]:
        """The running nodes; one object for each incarnation."""
        for number, running in self.simulated_cluster.nodes.items():
            process = self.host(number).process
            known = self._known.get(number)
            if process is not None and (known is None or known.running is not running):
                self._known[number] = MemberNode(number, process, running, self.committed_log)
        return {number: self._known[number] for number in sorted(self.simulated_cluster.nodes) if number in self._known}

    def start(self) -> None:
        """Start all nodes."""
        self.simulated_cluster.start()

    def leader(self) -> MemberNode | None:
        """The node that serves under the newest epoch, or None."""
        found = self.simulated_cluster.serving()
        return next((node for node in self.nodes.values() if found is not None and node.running is found[1]), None)

    async def wait_for_leader(self, seconds: float = LIVENESS_S) -> MemberNode:
        """Wait at most so long for a node that serves."""
        deadline = self._now() + seconds
        while True:
            leader = self.leader()
            if leader is not None:
                return leader
            demand(self._now() < deadline, f"no node leads after {seconds} s although no fault is active")
            await self.pass_time(0.05)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and raise the first failure of that time."""
        await asyncio.sleep(seconds)
        demand(not self.committed_log.broken, self.committed_log.broken)
        for task in self.tasks:
            if task.done():
                task.result()
        self._looks += 1
        unheard = self.simulation.loop.unheard() if self._looks % UNHEARD_EVERY == 0 else []
        failures = [*self.simulation.loop.failures, *unheard]
        demand(not failures, f"unhandled exception:\n{failures[0] if failures else ''}")

    async def make_topic(self) -> None:
        """Make the topic before the first fault, when every replica is in sync."""
        await self.wait_until_settled()
        leader = await self.wait_for_leader()
        segment_bytes = self.simulation.stream("segments").choice(SEGMENT_BYTES)
        configs = {"segment.bytes": str(segment_bytes), "max.message.bytes": str(64 << 20)}
        await leader.process.start(create_topic(leader.hall, TOPIC, PARTITIONS, configs))

    # Calls of faults.

    def host(self, node: int) -> Host:
        """The machine of a node."""
        return self.simulated_cluster.host(node)

    def hall_id(self) -> str:
        return self.simulated_cluster.hall_id()

    def leader_number(self) -> int:
        return self.simulated_cluster.leader_number()

    def in_sync(self) -> list[int]:
        return self.simulated_cluster.in_sync()

    def cut_coordinator(self, node: int) -> None:
        self.simulated_cluster.cut_coordinator(node)

    def heal_coordinator(self, node: int) -> None:
        self.simulated_cluster.heal_coordinator(node)

    def lose_words(self, chance: float) -> None:
        self.simulated_cluster.lose_words(chance)

    def expire_session(self, node: int) -> None:
        self.simulated_cluster.expire_session(node)

    def pause(self, node: int) -> Callable[[], None] | None:
        return self.simulated_cluster.pause(node)

    async def stop(self, node: int) -> None:
        await self.simulated_cluster.stop(node)

    async def start_copy(self, node: int, seconds: float) -> None:
        await self.simulated_cluster.start_copy(node, seconds)

    # Clients.

    async def write(self, number: int) -> None:
        """Send batches to the presumed leader, each value once, until closing."""
        chance = self.simulation.stream(f"writer/{number}")
        sent = 0
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / 0.05))
            node = self._someone(chance)
            if node is None:
                continue
            sent += 1
            large = self._large.bytes_max if chance.random() < self._large.chance else 200
            values = [f"{number}.{sent}.{at}." + "x" * chance.randrange(large) for at in range(chance.randrange(1, 4))]
            partition = chance.randrange(PARTITIONS)
            self.sends += 1
            offset = await self._ask(node, node.produce(TOPIC, partition, values))
            if offset is not None and offset >= 0:
                for at, value in enumerate(values):
                    self.committed_log.acknowledge(value, TOPIC, partition, offset + at)

    async def declare(self) -> None:
        """Create and delete topics, so that entries of the catalogue are among the others."""
        chance = self.simulation.stream("declarer")
        number = 0
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / 2.0))
            node = self._someone(chance)
            if node is None or not node.serves:
                continue
            names = [name for name in node.hall.routes if name != TOPIC]
            if names and chance.random() < 0.4:
                await self._ask(node, _quietly(delete_topic(node.hall, chance.choice(names))))
            else:
                number += 1
                await self._ask(node, _quietly(create_topic(node.hall, f"t{number}", chance.randrange(1, 4), {})))

    def _someone(self, chance: random.Random) -> MemberNode | None:
        """Mostly the leader; sometimes any node, whether it believes that it leads or not."""
        known = self.leader_number()
        if chance.random() < 0.2 or known not in self.numbers:
            known = chance.choice(self.numbers)
        node = self.nodes.get(known)
        return node if node is not None and node.process.alive else None

    async def _ask(self, node: MemberNode, question: Coroutine[Any, Any, int]) -> int | None:
        task = node.process.start(question)
        waited: list[asyncio.Future[Any]] = [task, node.process.ended]
        await asyncio.wait(waited, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return None
        error = task.exception()
        if isinstance(error, PowerCut | OSError | LonghallError):
            return None
        return task.result()

    # The end.

    async def settle(self) -> None:
        """Wait, after all faults are healed, until there is a leader and every replica has its entries."""
        self.closing = True
        await self._until(self._is_settled)

    async def wait_until_settled(self) -> None:
        """Wait until every replica is in sync, while clients go on."""
        await self._until(self._is_in_sync)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = self._now() + LIVENESS_S
        while not holds():
            demand(
                self._now() < deadline, f"not settled {LIVENESS_S} s after healing: {self.simulated_cluster.stand()}"
            )
            await self.pass_time(0.1)

    def check_contents(self) -> None:
        """Check that every replica has the same messages, with all acknowledged ones at their offsets."""
        leader = self.leader()
        assert leader is not None
        expected = contents_of(leader.hall)
        for node in self.nodes.values():
            found = contents_of(node.hall)
            demand(sorted(found) == sorted(expected), f"{name_of(node.node)} has other partitions than the leader")
            for place, messages in expected.items():
                demand(found[place] == messages, f"{name_of(node.node)} has other messages in {place} than the leader")
        for value, (topic, partition, offset) in self.committed_log.acknowledged.items():
            there = expected.get((topic, partition), {}).get(offset)
            demand(
                there == value,
                f"{value[:20]} was acknowledged at {topic}-{partition}@{offset}: {str(there)[:20]} is there",
            )
        values = [value for messages in expected.values() for value in messages.values()]
        demand(len(values) == len(set(values)), "a message that was sent once is stored twice")

    def _is_settled(self) -> bool:
        leader = self.leader()
        if leader is None or not self._is_in_sync():
            return False
        index = leader.member.replica.index
        replicas = [node.member.replica for node in self.nodes.values()]
        return all((one.index, one.applied, one.committed) == (index, index, index) for one in replicas)

    def _is_in_sync(self) -> bool:
        leader = self.leader()
        led = leader is not None and self.leader_number() == leader.node
        return led and self.simulated_cluster.is_whole() and self.in_sync() == self.numbers

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _quietly(work: Awaitable[object]) -> int:
    """Await the work and return its offset; -1 if it was refused."""
    try:
        await work
    except LonghallError:
        return -1
    return 0


@contextmanager
def little_memory(simulation: Simulation) -> Iterator[None]:
    """Give nodes little memory for pushed batches, drawn anew at each start.

    The leader then often reads from disk for followers that lag, and soon has too many unacknowledged bytes under way.
    """
    chance = simulation.stream("memory")

    def drawn(settings: Settings) -> ReplicaOptions:
        recent_bytes = chance.choice((8_000, 1 << 20))
        return msgspec.structs.replace(
            member_options(settings), recent_bytes=recent_bytes, credit_bytes=256 * 1024, digest_ms=2_000
        )

    with replaced(cluster_node, "member_options", drawn):
        yield
