"""Whole nodes as one hall: the clients and oracles of a single node, against three of them and their ZooKeeper.

cluster     everybody writes, reads, commits and belongs to groups, through whichever node, while hosts and links fail
failovers   transactions and idempotent writers while leaders die, stop and are cut off
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from longhall.simulation.checkers.sends import Place
from longhall.simulation.checkers.tables import MembershipOracle, OffsetOracle
from longhall.simulation.replicas.faults import Faults
from longhall.simulation.replicas.fleet import Fleet
from longhall.simulation.scenarios.committers import commit_offsets
from longhall.simulation.scenarios.machine import Machine, Starter
from longhall.simulation.scenarios.members import come_and_go
from longhall.simulation.scenarios.nemesis import Nemesis
from longhall.simulation.scenarios.played import Played, Scenario
from longhall.simulation.scenarios.readers import follow
from longhall.simulation.scenarios.stage import Stage
from longhall.simulation.scenarios.transactions import TransactionalWriter
from longhall.simulation.scenarios.verdict import Verdict
from longhall.simulation.scenarios.writers import write_idempotently, write_plainly
from longhall.simulation.world import Simulation

RAGE_S: Final = 180.0
READY_S: Final = 20.0
HOST_MENU: Final = (
    "kill_the_leader",
    "kill_one",
    "kill_all",
    "power_cut",
    "power_cut_in_the_middle",
    "power_cut_of_all",
    "power_cut_of_all_on_slow_disks",
    "pause_the_leader",
    "pause_one",
    "cut_the_leader_from_followers",
    "cut_one_way",
    "cut_off",
    "cut_from_the_coordinator",
    "lose_words_of_the_coordinator",
    "reset",
    "slow_disk",
    "stuck_disk",
    "failed_sync",
    "stop_cleanly",
    "clock_jump",
    "kill_in_quick_succession",
)
LEADER_MENU: Final = (
    "kill_the_leader",
    "pause_the_leader",
    "cut_the_leader_from_followers",
    "cut_from_the_coordinator",
    "kill_in_quick_succession",
    "stop_cleanly",
)


class Play:
    """What both begin and end with."""

    def __init__(self, simulation: Simulation, menu: tuple[str, ...]) -> None:
        self.simulation = simulation
        self.fleet = Fleet(simulation)
        self.stage = Stage(simulation, cast(Machine, self.fleet))
        self.stage.addresses = self.fleet.addresses
        self.faults = Faults(self.fleet, menu)
        self.verdict = Verdict(self.stage, cast(Nemesis, self.faults))
        self.verdict.damage_allowed = True  # Damage is told of in another way: a directory is fetched anew.

    async def begin(self, partitions: int) -> list[Place]:
        """Start the nodes and make the topic, before anything breaks."""
        self.fleet.start()
        await self.fleet.up(READY_S)
        await self.stage.on_clients(self._make(partitions))
        self.verdict.logs = [Place("events", number) for number in range(partitions)]
        return self.verdict.logs

    async def _make(self, partitions: int) -> None:
        hall = await self.stage.connect("maker")
        segments = {"segment.bytes": str(self.simulation.stream("play").choice((4_096, 20_000, 2_000_000)))}
        await hall.topics.create("events", partitions=partitions, configs=segments)
        self.stage.topics.created("events")
        hall.close()

    def write(self, places: list[Place], *, plain: int, idempotent: int, transactional: int, pause_s: float) -> None:
        for number in range(plain):
            self.stage.act(write_plainly(self.stage, f"plain-{number}", places, pause_s))
        for number in range(idempotent):
            self.stage.act(write_idempotently(self.stage, f"idempotent-{number}", places, pause_s))
        for number in range(transactional):
            writer = TransactionalWriter(self.stage, f"transactional-{number}", places, rising=number % 2 == 1)
            self.verdict.transactional.append(writer)
            self.stage.act(writer.run(pause_s * 2))
        self.stage.act(follow(self.stage, "follower", places, stable=False))
        self.stage.act(follow(self.stage, "committed-follower", places, stable=True))

    def commit(self, groups: int, pause_s: float) -> None:
        for number in range(groups):
            oracle = OffsetOracle(f"group-{number}", Place("events", 0))
            self.verdict.offsets.append(oracle)
            self.stage.act(commit_offsets(self.stage, f"committer-{number}", oracle, pause_s))

    def belong(self, members: int) -> None:
        oracle = MembershipOracle("members")
        for number in range(members):
            self.stage.act(come_and_go(self.stage, f"member-{number}", oracle, ["events"]))

    async def end(self, calm_s: float) -> Played:
        with self.verdict.reports:
            raging = asyncio.ensure_future(self.faults.rage(RAGE_S, calm_s))
            while not raging.done():
                await self.stage.watch(1.0)
            await raging
            await self.verdict.speak()
        log = self.stage.log
        seconds = asyncio.get_running_loop().time()
        digest = self.simulation.trace.digest()
        return Played(seconds, log.sends, log.acknowledged, self.fleet.host.boots, self.faults.happened, digest)


async def cluster(simulation: Simulation, starter: Starter) -> Played:
    play = Play(simulation, HOST_MENU)
    places = await play.begin(3)
    play.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.4)
    play.commit(2, 1.0)
    play.belong(2)
    return await play.end(6.0)


async def failovers(simulation: Simulation, starter: Starter) -> Played:
    play = Play(simulation, LEADER_MENU)
    places = await play.begin(4)
    play.write(places, plain=0, idempotent=2, transactional=3, pause_s=0.3)
    play.commit(1, 0.5)
    return await play.end(8.0)


CLUSTER_SCENARIOS: Final[dict[str, Scenario]] = {"cluster": cluster, "failovers": failovers}
