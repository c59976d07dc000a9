"""All scenarios by name, and those of topics on a single node.

A scenario takes a simulation and runs it from an empty disk to the final checks; the seed decides the rest.

storm      all clients and all faults
crashes    transactions and idempotent writers; power cuts and kills in quick succession
large-batches
           batches that bypass the write-ahead log; power cuts on slow disks
memberships
           members of a group with server-side assignment, which come, give up partitions, and die under power cuts
cleaning   compaction and retention while the power fails
full       the disk is full repeatedly
damage     bits flip in closed segments and in the log's last frame: refused to readers, never served, never cut
"""

from __future__ import annotations

from typing import Final

from simulation.checkers.sends import Place
from simulation.checkers.topic_state import KeyOracle, RetentionOracle
from simulation.replicas.log_scenarios import REPLICA_SCENARIOS
from simulation.scenarios.access import ACCESS_SCENARIOS
from simulation.scenarios.accounts import ACCOUNT_SCENARIOS
from simulation.scenarios.amqp import AMQP_SCENARIOS
from simulation.scenarios.clusters import CLUSTER_SCENARIOS
from simulation.scenarios.committers import make_topics
from simulation.scenarios.coordinators import LOST_COORDINATORS
from simulation.scenarios.disks import BAD_CLUSTER_DISKS, BAD_DISKS
from simulation.scenarios.features import FEATURE_SCENARIOS
from simulation.scenarios.forks import FORK_SCENARIOS
from simulation.scenarios.group_settles import SETTLE_SCENARIOS
from simulation.scenarios.histories import HISTORIES
from simulation.scenarios.machine import Starter
from simulation.scenarios.machines import MACHINE_SCENARIOS
from simulation.scenarios.moves import MOVE_SCENARIOS
from simulation.scenarios.nemesis import EVERYTHING
from simulation.scenarios.outboxes import OUTBOX_SCENARIOS
from simulation.scenarios.queues import QUEUE_SCENARIOS
from simulation.scenarios.repairs import REPAIR_SCENARIOS
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.scrubs import SCRUB_SCENARIOS
from simulation.scenarios.sealed import SEALED_SCENARIOS
from simulation.scenarios.single_node_run import SingleNodeRun, places_of
from simulation.scenarios.spread_queues import SPREAD_SCENARIOS
from simulation.scenarios.upgrades import VERSION_SCENARIOS
from simulation.scenarios.usage import USAGE_SCENARIOS
from simulation.scenarios.wings import WING_SCENARIOS
from simulation.scenarios.writers import write_evenly, write_keys
from simulation.world import Simulation

FAULTS_S: Final = 180.0  # Virtual time with faults, before everything is healed.
RETENTION_MS: Final = 60_000
KEPT_BYTES: Final = 2_000_000
EVEN_BYTES: Final = 60_000  # Just below the size from which batches bypass the write-ahead log.
CUTS: Final = ("power_cut", "power_cut_in_the_middle", "power_cut_in_the_middle")


async def storm(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(simulation, starter, EVERYTHING)
    await run.begin({"events": (3, run.small_segments()), "keys": (1, {"cleanup.policy": "compact", **SMALL})})
    run.write(places_of("events", 3), plain=1, idempotent=1, transactional=2, pause_s=0.5)
    run.read(places_of("events", 3))
    run.commit(2, 1.0)
    run.belong(3)
    run.context.act(make_topics(run.context, "topic", 10.0))
    keys = KeyOracle(Place("keys", 0))
    run.verdict.keys.append(keys)
    run.context.act(write_keys(run.context, "keyed", keys, 10, 0.5))
    return await run.end(FAULTS_S, 8.0)


async def crashes(simulation: Simulation, starter: Starter) -> RunResult:
    menu = ["power_cut_on_a_slow_disk", *CUTS, "kill", "kill_twice", "stop_cleanly"]
    run = SingleNodeRun(simulation, starter, menu)
    await run.begin({"events": (4, run.small_segments())})
    run.context.large_chance = run.chance.choice((0.02, 0.2))
    run.write(places_of("events", 4), plain=0, idempotent=2, transactional=3, pause_s=0.3)
    run.read(places_of("events", 4))
    run.commit(1, 0.5)
    run.belong(2)
    return await run.end(FAULTS_S, 4.0)


async def large_batches(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(simulation, starter, ["power_cut_on_a_slow_disk", *CUTS])
    await run.begin({"events": (4, run.small_segments())})
    run.context.large_chance = 0.7
    run.write(places_of("events", 4), plain=1, idempotent=2, transactional=0, pause_s=0.3)
    run.read(places_of("events", 4))
    return await run.end(FAULTS_S, 3.0)


async def memberships(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(simulation, starter, [*CUTS, "kill", "kill_twice", "stop_cleanly"])
    await run.begin({"events": (6, run.small_segments())})
    run.write(places_of("events", 6), plain=0, idempotent=1, transactional=0, pause_s=0.5)
    run.belong(1)
    run.belong_assigned(4)
    return await run.end(FAULTS_S, 12.0)


async def cleaning(simulation: Simulation, starter: Starter) -> RunResult:
    menu = [*CUTS, "kill", "stop_cleanly"]
    run = SingleNodeRun(simulation, starter, menu)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", **SMALL}
    aging = {"retention.ms": str(RETENTION_MS), "segment.ms": "5000", **SMALL}
    quiet = {"cleanup.policy": "compact", "max.compaction.lag.ms": "4000"}  # The cleaner closes its segments.
    topics = {"keys": (2, compacted), "quiet": (1, quiet), "aging": (2, aging)}
    await run.begin({"events": (1, run.small_segments()), **topics})
    for place, pause_s in [(Place("keys", 0), 0.2), (Place("keys", 1), 0.2), (Place("quiet", 0), 4.0)]:
        keys = KeyOracle(place)
        run.verdict.keys.append(keys)
        run.context.act(write_keys(run.context, f"{place.topic}-{place.partition}", keys, 20, pause_s))
    run.write(places_of("aging", 2), plain=1, idempotent=1, transactional=1, pause_s=0.5)
    run.read(places_of("aging", 2))
    run.verdict.retention += [RetentionOracle(place, retention_ms=RETENTION_MS) for place in places_of("aging", 2)]
    return await run.end(FAULTS_S, 10.0)


async def full(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(
        simulation, starter, ["disk_full", "disk_full", "disk_full", "power_cut_on_a_slow_disk", "kill"]
    )
    await run.begin({"events": (3, run.small_segments())})
    run.write(places_of("events", 3), plain=1, idempotent=1, transactional=1, pause_s=0.3)
    run.read(places_of("events", 3))
    run.commit(2, 0.5)
    return await run.end(FAULTS_S, 6.0)


async def recycling(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(simulation, starter, [*CUTS, "kill"])
    kept = {"retention.bytes": str(KEPT_BYTES), "segment.bytes": "500000"}
    await run.begin({"events": (1, kept)})
    place = Place("events", 0)
    run.verdict.logs.append(place)
    run.verdict.retention.append(RetentionOracle(place, retention_bytes=KEPT_BYTES))
    run.context.act(write_evenly(run.context, "even", place, EVEN_BYTES, 0.06))
    run.read([place])
    return await run.end(FAULTS_S, 20.0)


async def damage(simulation: Simulation, starter: Starter) -> RunResult:
    run = SingleNodeRun(simulation, starter, ["flip", "flip", "rot_the_tail", "power_cut", "kill", "stop_cleanly"])
    await run.begin({"events": (2, {"segment.bytes": "20000"})})
    run.verdict.damage_allowed = True
    run.write(places_of("events", 2), plain=1, idempotent=1, transactional=0, pause_s=0.3)
    run.read(places_of("events", 2))
    return await run.end(FAULTS_S, 10.0)


SMALL: Final = {"segment.bytes": "4096"}

SCENARIOS: Final[dict[str, Scenario]] = {
    "storm": storm,
    "crashes": crashes,
    "large-batches": large_batches,
    "memberships": memberships,
    "cleaning": cleaning,
    "full": full,
    "recycling": recycling,
    "damage": damage,
    **BAD_DISKS,
    **QUEUE_SCENARIOS,
    **FEATURE_SCENARIOS,
    **REPLICA_SCENARIOS,
    **CLUSTER_SCENARIOS,
    **HISTORIES,
    **REPAIR_SCENARIOS,
    **VERSION_SCENARIOS,
    **WING_SCENARIOS,
    **SPREAD_SCENARIOS,
    **FORK_SCENARIOS,
    **MOVE_SCENARIOS,
    **OUTBOX_SCENARIOS,
    **SETTLE_SCENARIOS,
    **BAD_CLUSTER_DISKS,
    **LOST_COORDINATORS,
    **MACHINE_SCENARIOS,
    **SCRUB_SCENARIOS,
    **AMQP_SCENARIOS,
    **ACCOUNT_SCENARIOS,
    **USAGE_SCENARIOS,
    **ACCESS_SCENARIOS,
    **SEALED_SCENARIOS,
}
