"""Scenarios of one hall on three to five whole nodes and a ZooKeeper, with the clients and oracles of a single node.

cluster           all Kafka clients at once, at any node, under all faults
failovers         transactions and idempotent writers while leaders die, stop and are cut off
movers            hosts are added, drained and moved, leaders are transferred, and hosts die meanwhile
cluster-damage    bits flip on one node after another: it does a full sync, and no reader gets them
cluster-queues    every kind of queue, at any node, while hosts, links and disks fail
cluster-lines     FIFO queues with deduplication while leaders change
cluster-resizes   FIFO queues that grow and shrink all the time while leaders change
cluster-letters   leases, dead letters and redrives while leaders change and the power fails
cluster-doors     Kafka producers and transactions send to a queue, SQS clients drain it, Kafka readers read its topic
cluster-deposed   queues are made while the leader is cut off from all but its clients, and does not notice
cluster-rot       bits flip in old segments of queues, whose messages are redelivered and promoted from there
cluster-once      tasks are settled together with their results, exactly once, while leaders die and are cut off
cluster-shares    members of Kafka share groups and SQS consumers take turns while leaders die and are cut off
cluster-clocks    the hosts' clocks differ, drift and are set, while leaders change

Scenarios after failures of other systems are in `histories`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from simulation.checkers.sends import Place
from simulation.checkers.violation import demand
from simulation.replicas.cluster_operator import ClusterOperator
from simulation.replicas.fault_menus import (
    CLOCKS,
    COUNTERS,
    EVERYTHING,
    FLEET_DAMAGE,
    LEADERS,
    LINES,
    MOVERS,
    POWER,
    QUEUE_DAMAGE,
)
from simulation.scenarios import consumers, producers
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.cluster_run import FAULTS_S, ClusterQueueRun, ClusterRun, size_of
from simulation.scenarios.consumers import BAD, Habits
from simulation.scenarios.features import compare_results, work_once
from simulation.scenarios.machine import Starter
from simulation.scenarios.queue_resizes import DILIGENT, Sizes, send_by_keys
from simulation.scenarios.queue_topic_readers import look_on
from simulation.scenarios.queues import share
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

DRIFT_MAX: Final = 0.001  # Seconds in each second; more than any working clock has.
MOVER_HOSTS: Final = 4  # Three of them have replicas.
SKEW_MS: Final = (-3_600_000, -2_000, 0, 2_000, 3_600_000)


async def cluster(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, EVERYTHING, size_of(simulation))
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.4)
    run.commit(2, 1.0)
    run.belong(2)
    return await run.end(6.0)


async def cluster_memberships(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, LEADERS)
    places = await run.begin(6)
    run.write(places, plain=0, idempotent=1, transactional=0, pause_s=0.5)
    run.belong_assigned(4)
    return await run.end(12.0)


async def failovers(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, LEADERS)
    places = await run.begin(4)
    run.write(places, plain=0, idempotent=2, transactional=3, pause_s=0.3)
    run.commit(1, 0.5)
    return await run.end(8.0)


async def movers(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, MOVERS, MOVER_HOSTS)
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=2, transactional=1, pause_s=0.3)
    run.commit(1, 0.5)
    mover = ClusterOperator(run.cluster)
    run.cluster.tasks.append(asyncio.ensure_future(mover.run(FAULTS_S * simulation.share)))
    played = await run.end(20.0)
    demand(mover.moved > 0, "no replica was moved")
    return played


async def cluster_damage(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, FLEET_DAMAGE, size_of(simulation))
    run.cluster.watch.damage_allowed = True
    places = await run.begin(2)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.4)
    return await run.end(5.0, at_once=False)


async def cluster_queues(simulation: Simulation, starter: Starter) -> RunResult:
    kinds = [
        laws.PLAIN,
        laws.ORDERED,
        laws.POISON,
        laws.DEAD,
        laws.REVIVED,
        laws.SHORT,
        laws.EXPIRED,
        laws.STRICT,
        laws.ONCE,
        laws.PURGED,
    ]
    run = ClusterQueueRun(simulation, COUNTERS, kinds, size_of(simulation))
    clients = run.clients
    await clients.begin()
    clients.send(laws.PLAIN, 0.8, 0.2)
    clients.consume(laws.PLAIN, 2, 0.5)
    clients.send_in_lines(laws.ORDERED, 2, 0.8)
    clients.consume(laws.ORDERED, 2, 0.5)
    clients.poison(1.5)
    clients.send(laws.SHORT, 1.5, 0.1)
    clients.consume(laws.SHORT, 1, 4.0, BAD)
    clients.send(laws.STRICT, 3.0)
    clients.consume(laws.STRICT, 2, 0.5)
    clients.pause(laws.STRICT, 20.0)
    clients.send(laws.ONCE, 1.5)
    clients.consume(laws.ONCE, 1, 1.0)
    clients.send(laws.PURGED, 1.5, 0.4)
    clients.consume(laws.PURGED, 1, 4.0)
    clients.purge(laws.PURGED, 25.0)
    run.context.act(consumers.make_queues(run.context, "made", 6.0))
    return await run.end(6.0)


async def cluster_lines(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, LINES, [laws.ORDERED, laws.LINES, laws.LINES_DEAD], size_of(simulation))
    clients = run.clients
    await clients.begin()
    clients.send_in_lines(laws.ORDERED, 3, 0.3)
    clients.consume(laws.ORDERED, 4, 0.2)
    clients.send_in_lines(laws.LINES, 2, 0.6)
    clients.consume(laws.LINES, 3, 0.3, Habits(settle=0.5, give_back=0.3))
    clients.consume(laws.LINES_DEAD, 1, 3.0)
    return await run.end(7.0)


async def cluster_resizes(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, (*LEADERS, *POWER), [laws.WIDE, laws.KEYED], size_of(simulation))
    clients = run.clients
    await clients.begin()
    sizes = Sizes(run.context, {laws.WIDE.name: 1, laws.KEYED.name: 1})
    clients.send_in_lines(laws.WIDE, 2, 0.6)
    clients.consume(laws.WIDE, 3, 0.3, DILIGENT)
    clients.pause(laws.WIDE, 15.0)
    for number in range(2):
        run.context.act(send_by_keys(run.context, clients.oracle, f"keys-{number}", laws.KEYED.name, 0.4))
    clients.send_in_lines(laws.KEYED, 1, 0.8)
    clients.consume(laws.KEYED, 2, 1.0)
    played = await run.end(7.0)
    sizes.check(laws.WIDE.name, shrinks=True)
    sizes.check(laws.KEYED.name, shrinks=False)
    return played


async def cluster_letters(simulation: Simulation, starter: Starter) -> RunResult:
    kinds = [laws.PLAIN, laws.POISON, laws.DEAD, laws.REVIVED, laws.TRIED]
    run = ClusterQueueRun(simulation, (*LEADERS, *POWER), kinds)
    clients = run.clients
    await clients.begin()
    clients.send(laws.PLAIN, 0.4, 0.1)
    clients.consume(laws.PLAIN, 4, 0.2, Habits(settle=0.55, extend=0.12, give_back=0.1))
    clients.poison(0.5)
    clients.send(laws.TRIED, 1.0)
    clients.consume(laws.TRIED, 2, 0.5, BAD)
    return await run.end(7.0)


async def cluster_doors(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, COUNTERS, [laws.PLAIN], size_of(simulation))
    clients, context = run.clients, run.context
    await clients.begin()
    name = laws.PLAIN.name
    clients.send(laws.PLAIN, 1.0, 0.2)
    clients.consume(laws.PLAIN, 3, 0.3)
    context.act(producers.send_by_kafka(context, clients.oracle, "kafka", name, 0.7))
    context.act(producers.send_in_transactions(context, clients.oracle, "transactional", name, 1.0))
    context.act(look_on(context, "onlooker", Place(name, 0)))
    return await run.end(6.0)


async def cluster_deposed(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, ("isolate_the_leader",), [laws.PLAIN])
    clients = run.clients
    await clients.begin()
    clients.send(laws.PLAIN, 0.8, 0.2)
    clients.consume(laws.PLAIN, 2, 0.5)
    for number in range(3):
        run.context.act(consumers.make_queues(run.context, f"made{number}", 0.5))
    return await run.end(15.0)


async def cluster_rot(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, QUEUE_DAMAGE, [laws.PLAIN, laws.ORDERED])
    run.cluster.watch.damage_allowed = True
    clients = run.clients
    await clients.begin()
    clients.send(laws.PLAIN, 0.3, 0.5)
    clients.consume(laws.PLAIN, 2, 0.5, BAD)
    clients.send_in_lines(laws.ORDERED, 3, 0.4)
    clients.consume(laws.ORDERED, 2, 0.5, BAD)
    return await run.end(7.0)


async def cluster_once(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, LEADERS, [laws.PLAIN])
    await run.clients.begin()
    clients = await work_once(run.clients)
    played = await run.end(7.0)
    await run.context.on_clients(compare_results(run.clients, clients))
    return played


async def cluster_shares(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, LEADERS, [laws.PLAIN, laws.STRICT, laws.POISON, laws.DEAD])
    await run.clients.begin()
    await share(run.clients)
    return await run.end(7.0)


async def cluster_clocks(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterQueueRun(simulation, CLOCKS, [laws.PLAIN, laws.ORDERED, laws.STRICT], drift_max=DRIFT_MAX)
    clients = run.clients
    run.cluster.skew_clocks(SKEW_MS, DRIFT_MAX)
    await clients.begin()
    clients.send(laws.PLAIN, 0.5, 0.5)
    clients.consume(laws.PLAIN, 3, 0.3)
    clients.send_in_lines(laws.ORDERED, 2, 0.6)
    clients.consume(laws.ORDERED, 2, 0.4)
    clients.send(laws.STRICT, 2.0)
    clients.consume(laws.STRICT, 2, 0.5)
    return await run.end(7.0)


CLUSTER_SCENARIOS: Final[dict[str, Scenario]] = {
    "cluster": cluster,
    "failovers": failovers,
    "cluster-memberships": cluster_memberships,
    "movers": movers,
    "cluster-damage": cluster_damage,
    "cluster-queues": cluster_queues,
    "cluster-lines": cluster_lines,
    "cluster-resizes": cluster_resizes,
    "cluster-letters": cluster_letters,
    "cluster-doors": cluster_doors,
    "cluster-deposed": cluster_deposed,
    "cluster-rot": cluster_rot,
    "cluster-once": cluster_once,
    "cluster-shares": cluster_shares,
    "cluster-clocks": cluster_clocks,
}
