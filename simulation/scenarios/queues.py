"""Scenarios of queues, through the SQS door, from an empty disk to empty queues.

queues     every kind of queue at once, under all faults
leases     consumers of all habits; power cuts and kills in quick succession
lines      FIFO queues with deduplication, links that break, crashes
letters    poison messages, dead letters, interrupted redrives; at times the disk is full
resizes    FIFO queues that grow and shrink all the time; crashes
parcels    priorities, stamps, and large messages in parts, some of which are never finished
doors      one log, two doors: Kafka producers and transactions send to a queue, Kafka readers read its topic
shares     members of Kafka share groups and SQS consumers take turns on the same queues; crashes
clocks     the wall clock of a running node jumps: no lease or delay ends early or late
delays     milliseconds to days, purges between, a crash every few hours
"""

from __future__ import annotations

from typing import Final

from simulation.checkers.sends import Place
from simulation.scenarios import consumers, producers
from simulation.scenarios.consumers import BAD, GOOD, Habits
from simulation.scenarios.large_messages import send_parcels
from simulation.scenarios.machine import Starter
from simulation.scenarios.nemesis import EVERYTHING
from simulation.scenarios.queue_laws import (
    BROAD,
    BROAD_DEAD,
    DEAD,
    EXPIRED,
    KEYED,
    LINES,
    LINES_DEAD,
    ONCE,
    ORDERED,
    PLAIN,
    POISON,
    PURGED,
    RANKED,
    RANKED_DEAD,
    REVIVED,
    SHORT,
    SPREAD,
    STAMPED,
    STRICT,
    TRIED,
    WIDE,
)
from simulation.scenarios.queue_resizes import DILIGENT, Sizes, send_by_keys
from simulation.scenarios.queue_run import QueueRun, alone
from simulation.scenarios.queue_topic_readers import look_on
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.share_members import ShareClient, configure_group
from simulation.world import Simulation

FAULTS_S: Final = 180.0
DAY_S: Final = 86_400.0
GROUP: Final = "sharers"
CRASHES: Final = ["power_cut", "power_cut_in_the_middle", "power_cut_in_the_middle", "power_cut_on_a_slow_disk", "kill"]
# Oracles check leases and delays by the clients' clock, so the node's clock may not change.
BREAKAGES: Final = [name for name in EVERYTHING if name != "clock_jump"]


async def queues(simulation: Simulation, starter: Starter) -> RunResult:
    laws = [PLAIN, ORDERED, POISON, DEAD, REVIVED, SHORT, EXPIRED, STRICT, ONCE, PURGED]
    run = alone(simulation, starter, BREAKAGES, laws)
    await run.begin()
    run.send(PLAIN, 0.8, 0.2)
    run.consume(PLAIN, 2, 0.5)
    run.send_in_lines(ORDERED, 2, 0.8)
    run.consume(ORDERED, 2, 0.5)
    run.poison(1.5)
    run.send(SHORT, 1.5, 0.1)
    run.consume(SHORT, 1, 4.0, BAD)
    run.send(STRICT, 3.0)
    run.consume(STRICT, 2, 0.5)
    run.pause(STRICT, 20.0)
    run.send(ONCE, 1.5)
    run.consume(ONCE, 1, 1.0)
    run.send(PURGED, 1.5, 0.4)
    run.consume(PURGED, 1, 4.0)
    run.purge(PURGED, 25.0)
    run.context.act(consumers.make_queues(run.context, "made", 6.0))
    return await run.end(FAULTS_S, 8.0)


async def leases(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "kill_twice", "stop_cleanly"], [PLAIN, STRICT, ONCE, PURGED])
    await run.begin()
    run.send(PLAIN, 0.3, 0.1)
    run.consume(PLAIN, 4, 0.15, Habits(settle=0.55, extend=0.12, give_back=0.1))
    run.send(STRICT, 2.0)
    run.consume(STRICT, 3, 0.4)
    run.send(ONCE, 0.5)
    run.consume(ONCE, 2, 0.5)
    run.send(PURGED, 0.7, 0.3)
    run.consume(PURGED, 1, 2.0)
    run.purge(PURGED, 20.0)
    run.pause(ONCE, 20.0)
    return await run.end(FAULTS_S, 4.0)


async def lines(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "cut", "resets", "stop_cleanly"], [ORDERED, LINES, LINES_DEAD])
    await run.begin()
    run.send_in_lines(ORDERED, 3, 0.3)
    run.consume(ORDERED, 4, 0.2)
    run.send_in_lines(LINES, 2, 0.6)
    run.consume(LINES, 3, 0.3, Habits(settle=0.5, give_back=0.3))
    run.consume(LINES_DEAD, 1, 3.0)
    return await run.end(FAULTS_S, 5.0)


async def resizes(simulation: Simulation, starter: Starter) -> RunResult:
    menu = [*CRASHES, "kill_twice", "stop_cleanly"]
    run = alone(simulation, starter, menu, [WIDE, BROAD, BROAD_DEAD, SPREAD, KEYED])
    await run.begin()
    sizes = Sizes(run.context, {WIDE.name: 1, KEYED.name: 1})
    run.send_in_lines(WIDE, 2, 0.6)
    run.consume(WIDE, 3, 0.3, DILIGENT)
    run.pause(WIDE, 15.0)
    run.send_in_lines(BROAD, 2, 0.8)
    run.consume(BROAD, 3, 0.5, Habits(settle=0.6, give_back=0.2))
    run.consume(BROAD_DEAD, 1, 3.0)
    run.send(SPREAD, 1.5, 0.2)
    run.consume(SPREAD, 2, 0.8)
    for number in range(2):
        run.context.act(send_by_keys(run.context, run.oracle, f"keys-{number}", KEYED.name, 0.6))
    run.send_in_lines(KEYED, 1, 1.0)
    run.consume(KEYED, 2, 1.0)
    played = await run.end(FAULTS_S, 6.0)
    sizes.check(WIDE.name, shrinks=True)
    sizes.check(KEYED.name, shrinks=False)
    return played


async def letters(simulation: Simulation, starter: Starter) -> RunResult:
    menu = [*CRASHES, "disk_full", "sync_error", "stop_cleanly"]
    run = alone(simulation, starter, menu, [POISON, DEAD, REVIVED, TRIED, SHORT, EXPIRED])
    await run.begin()
    run.poison(0.5)
    run.send(TRIED, 1.0)
    run.consume(TRIED, 2, 0.5, BAD)
    run.send(SHORT, 0.8, 0.1)
    run.consume(SHORT, 2, 3.0, BAD)
    return await run.end(FAULTS_S, 5.0)


async def parcels(simulation: Simulation, starter: Starter) -> RunResult:
    menu = [*CRASHES, "disk_full", "stop_cleanly", "kill_twice"]
    run = alone(simulation, starter, menu, [RANKED, RANKED_DEAD, STAMPED])
    await run.begin()
    context = run.context
    for number in range(2):
        context.act(send_parcels(context, run.oracle, f"parcels-{number}", RANKED.name, 0.4))
    run.consume(RANKED, 3, 0.4, Habits(settle=0.6, give_back=0.2))
    run.consume(RANKED_DEAD, 1, 4.0)
    run.send(STAMPED, 0.6, 0.1)
    run.consume(STAMPED, 2, 0.5, Habits(settle=0.6, give_back=0.2))
    context.act(consumers.redrive_now_and_then(context, run.oracle, "mover", RANKED_DEAD.name, [""], 20.0))
    return await run.end(FAULTS_S, 5.0)


async def doors(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, BREAKAGES, [PLAIN])
    await run.begin()
    context = run.context
    run.send(PLAIN, 1.0, 0.2)
    run.consume(PLAIN, 3, 0.3)
    context.act(producers.send_by_kafka(context, run.oracle, "kafka", PLAIN.name, 0.7))
    context.act(producers.send_in_transactions(context, run.oracle, "transactional", PLAIN.name, 1.0))
    context.act(look_on(context, "onlooker", Place(PLAIN.name, 0)))
    return await run.end(FAULTS_S, 6.0)


async def shares(simulation: Simulation, starter: Starter) -> RunResult:
    laws = [PLAIN, STRICT, POISON, DEAD, RANKED, STAMPED, RANKED_DEAD]
    run = alone(simulation, starter, [*CRASHES, "kill_twice"], laws)
    await run.begin()
    await share(run)
    share_levels(run)
    return await run.end(FAULTS_S, 5.0)


async def share(run: QueueRun) -> None:
    """Start share members and SQS consumers on three queues, and a consumer of the dead letters."""
    context = run.context
    await context.on_clients(configure_group(context, GROUP))
    for law, habits, pause_s in ((PLAIN, GOOD, 0.3), (STRICT, GOOD, 0.5), (POISON, BAD, 0.5)):
        run.send(law, pause_s, 0.1)
        run.consume(law, 2, pause_s, habits)
        for number in range(2):
            name = f"share-{law.name}-{number}"
            context.act(ShareClient(context, run.oracle, name, GROUP, law.name, habits).run(pause_s))
    run.consume(DEAD, 1, 3.0)


def share_levels(run: QueueRun) -> None:
    """Start share members and SQS consumers on a queue with priorities, and on one with a head for late messages."""
    context = run.context
    habits = Habits(settle=0.6, give_back=0.2)
    context.act(send_parcels(context, run.oracle, "parcels", RANKED.name, 0.5))
    run.send(STAMPED, 0.6, 0.1)
    for law in (RANKED, STAMPED):
        run.consume(law, 1, 0.5, habits)
        name = f"share-{law.name}"
        context.act(ShareClient(context, run.oracle, name, GROUP, law.name, habits).run(0.5))
    run.consume(RANKED_DEAD, 1, 4.0)


async def clocks(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, ["clock_jump", "clock_jump", "resets"], [PLAIN, SHORT, EXPIRED, ORDERED])
    await run.begin()
    run.send(PLAIN, 0.5, 0.5)
    run.consume(PLAIN, 2, 0.4)
    run.send(SHORT, 1.0, 0.2)
    run.consume(SHORT, 1, 4.0, BAD)
    run.send_in_lines(ORDERED, 1, 0.8)
    run.consume(ORDERED, 2, 0.5)
    return await run.end(FAULTS_S, 6.0)


async def delays(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "stop_cleanly", "disk_full"], [PLAIN, PURGED])
    await run.begin()
    context = run.context
    ahead_s = DAY_S * simulation.share  # A slice of the scenario need not wait for a day until its queues are empty.
    for law in (PLAIN, PURGED):
        name = f"planner-{law.name}"
        context.act(producers.send_far_ahead(context, run.oracle, name, law.name, 150.0, ahead_s))
        run.consume(law, 1, 120.0)
    run.purge(PURGED, DAY_S / 3)
    run.drain.patience_s = 3 * DAY_S
    return await run.end(DAY_S / 2, 2_400.0)


QUEUE_SCENARIOS: Final[dict[str, Scenario]] = {
    "queues": queues,
    "leases": leases,
    "lines": lines,
    "resizes": resizes,
    "letters": letters,
    "parcels": parcels,
    "doors": doors,
    "shares": shares,
    "clocks": clocks,
    "delays": delays,
}
