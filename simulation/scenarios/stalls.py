"""Scenarios where the leader alone acknowledges and the commit index stops advancing at times.

stalls         followers are cut off for too short a time to leave the in-sync set: uncommitted bytes stay bounded
lone-leaders   no node reaches the coordinator for a while, one follower stops, and the leader is the last to reach
               the coordinator again: it stays leader, and no message that it alone acknowledged is lost
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from longhall.node.assembly import Node
from longhall.shards.backlog import Backlog
from simulation.checkers.uncommitted_bytes import UncommittedBytesOracle
from simulation.checkers.violation import demand
from simulation.replicas.host_names import name_of
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

BOUND_BYTES: Final = 128 * 1024
LARGE_CHANCE: Final = 0.6
CALM_S: Final = 2.0
STALL_S: Final = (0.6, 1.2)  # A replica that lags longer leaves the in-sync set.
AWAY_S: Final = (2.0, 6.0)  # Shorter and longer than a session.
LAST_S: Final = (0.1, 1.0, 4.0, 12.0)  # From the reconnection of the other nodes to the leader's.


async def stalls(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, ())
    oracle = UncommittedBytesOracle(BOUND_BYTES)
    run.cluster.watch.lookers.append(oracle.watch)
    run.cluster.on_node = _bound
    run.context.large_chance = LARGE_CHANCE
    places = await run.begin(3, {"longhall.acknowledge": "one"})
    run.write(places, plain=2, idempotent=1, transactional=0, pause_s=0.1)
    striking = asyncio.ensure_future(_strike(run, oracle, simulation.stream("stalls")))
    return await run.end_after(striking)


async def lone_leaders(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, ())
    places = await run.begin(3, {"longhall.acknowledge": "one"})
    run.write(places, plain=2, idempotent=1, transactional=0, pause_s=0.1)
    return await run.end_after(asyncio.ensure_future(_leave_alone(run, simulation.stream("lone-leaders"))))


def _bound(node: Node) -> None:
    """Set a bound that is reached within a moment, before the node leads."""
    node.hall.backlog = Backlog(BOUND_BYTES)


async def _strike(run: ClusterRun, oracle: UncommittedBytesOracle, chance: random.Random) -> None:
    """Cut one link at a time, in both directions; every replica stays in sync."""
    loop = asyncio.get_running_loop()
    fabric = run.simulation.fabric
    ends_at = loop.time() + FAULTS_S * run.simulation.share
    while loop.time() < ends_at:
        await run.cluster.wait_until_settled()
        await asyncio.sleep(chance.expovariate(1 / CALM_S))
        leader = run.cluster.leader_number()
        link = name_of(leader), name_of(chance.choice([node for node in run.cluster.numbers if node != leader]))
        fabric.cut(*link)
        fabric.cut(*reversed(link))
        await asyncio.sleep(chance.uniform(*STALL_S))
        oracle.check()
        run.faults.happened += 1
        fabric.heal(*link)
        fabric.heal(*reversed(link))
    demand(oracle.most >= BOUND_BYTES, "the uncommitted bytes never reached the bound")


async def _leave_alone(run: ClusterRun, chance: random.Random) -> None:
    """Cut all nodes off from the coordinator and reconnect the leader last. No node dies."""
    loop = asyncio.get_running_loop()
    cluster = run.cluster
    ends_at = loop.time() + FAULTS_S * run.simulation.share
    while loop.time() < ends_at:
        await cluster.wait_until_settled()
        await asyncio.sleep(chance.expovariate(1 / CALM_S))
        leader = cluster.leader_number()
        others = [node for node in cluster.numbers if node != leader]
        for node in cluster.numbers:
            cluster.cut_coordinator(node)
        resume = cluster.pause(chance.choice(others))
        run.faults.happened += 1
        await asyncio.sleep(chance.uniform(*AWAY_S))
        if resume is not None:
            resume()
        for node in others:
            cluster.heal_coordinator(node)
        await asyncio.sleep(chance.choice(LAST_S))
        cluster.heal_coordinator(leader)
