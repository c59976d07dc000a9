"""The scenarios of queues, through the SQS door, from an empty disk to empty queues.

queues     every kind of queue at once, and everything breaks
leases     consumers of all habits; power cuts and kills in quick succession
lines      FIFO queues with deduplication, links that break, crashes
letters    poisoned messages, dead letters, redrives that are interrupted; now and then the disk is full
resizes    FIFO queues that grow and shrink all the time; crashes
parcels    priorities, and large messages in parts, some of which are never finished
doors      one log, two doors: Kafka producers and transactions feed a queue, Kafka readers look on
clocks     the wall clock of a running node jumps: nothing ends early and nothing late
delays     milliseconds to days, purges between, a crash every few hours
"""

from __future__ import annotations

from typing import Final

from simulation.checkers.sends import Place
from simulation.scenarios import consumers, producers
from simulation.scenarios.consumers import BAD, Habits
from simulation.scenarios.laws import (
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
    STRICT,
    TRIED,
    WIDE,
)
from simulation.scenarios.machine import Starter
from simulation.scenarios.nemesis import EVERYTHING
from simulation.scenarios.onlookers import look_on
from simulation.scenarios.parcels import send_parcels
from simulation.scenarios.played import Played, Scenario
from simulation.scenarios.queue_play import alone
from simulation.scenarios.resizing import DILIGENT, Sizes, send_by_keys
from simulation.world import Simulation

RAGE_S: Final = 180.0
DAY_S: Final = 86_400.0
CRASHES: Final = ["power_cut", "power_cut_in_the_middle", "power_cut_in_the_middle", "power_cut_on_a_slow_disk", "kill"]
# Leases and delays are held against the clients' clock, so the node's must not be set by anybody.
BREAKAGES: Final = [name for name in EVERYTHING if name != "clock_jump"]


async def queues(simulation: Simulation, starter: Starter) -> Played:
    laws = [PLAIN, ORDERED, POISON, DEAD, REVIVED, SHORT, EXPIRED, STRICT, ONCE, PURGED]
    play = alone(simulation, starter, BREAKAGES, laws)
    await play.begin()
    play.send(PLAIN, 0.8, 0.2)
    play.consume(PLAIN, 2, 0.5)
    play.send_in_lines(ORDERED, 2, 0.8)
    play.consume(ORDERED, 2, 0.5)
    play.poison(1.5)
    play.send(SHORT, 1.5, 0.1)
    play.consume(SHORT, 1, 4.0, BAD)
    play.send(STRICT, 3.0)
    play.consume(STRICT, 2, 0.5)
    play.pause(STRICT, 20.0)
    play.send(ONCE, 1.5)
    play.consume(ONCE, 1, 1.0)
    play.send(PURGED, 1.5, 0.4)
    play.consume(PURGED, 1, 4.0)
    play.purge(PURGED, 25.0)
    play.stage.act(consumers.make_queues(play.stage, "made", 6.0))
    return await play.end(RAGE_S, 8.0)


async def leases(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "kill_twice", "stop_cleanly"], [PLAIN, STRICT, ONCE, PURGED])
    await play.begin()
    play.send(PLAIN, 0.3, 0.1)
    play.consume(PLAIN, 4, 0.15, Habits(settle=0.55, extend=0.12, give_back=0.1))
    play.send(STRICT, 2.0)
    play.consume(STRICT, 3, 0.4)
    play.send(ONCE, 0.5)
    play.consume(ONCE, 2, 0.5)
    play.send(PURGED, 0.7, 0.3)
    play.consume(PURGED, 1, 2.0)
    play.purge(PURGED, 20.0)
    play.pause(ONCE, 20.0)
    return await play.end(RAGE_S, 4.0)


async def lines(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "cut", "resets", "stop_cleanly"], [ORDERED, LINES, LINES_DEAD])
    await play.begin()
    play.send_in_lines(ORDERED, 3, 0.3)
    play.consume(ORDERED, 4, 0.2)
    play.send_in_lines(LINES, 2, 0.6)
    play.consume(LINES, 3, 0.3, Habits(settle=0.5, give_back=0.3))
    play.consume(LINES_DEAD, 1, 3.0)
    return await play.end(RAGE_S, 5.0)


async def resizes(simulation: Simulation, starter: Starter) -> Played:
    menu = [*CRASHES, "kill_twice", "stop_cleanly"]
    play = alone(simulation, starter, menu, [WIDE, BROAD, BROAD_DEAD, SPREAD, KEYED])
    await play.begin()
    sizes = Sizes(play.stage, [WIDE.name, KEYED.name])
    play.send_in_lines(WIDE, 2, 0.6)
    play.consume(WIDE, 3, 0.3, DILIGENT)
    play.pause(WIDE, 15.0)
    play.send_in_lines(BROAD, 2, 0.8)
    play.consume(BROAD, 3, 0.5, Habits(settle=0.6, give_back=0.2))
    play.consume(BROAD_DEAD, 1, 3.0)
    play.send(SPREAD, 1.5, 0.2)
    play.consume(SPREAD, 2, 0.8)
    for number in range(2):
        play.stage.act(send_by_keys(play.stage, play.oracle, f"keys-{number}", KEYED.name, 0.6))
    play.send_in_lines(KEYED, 1, 1.0)
    play.consume(KEYED, 2, 1.0)
    played = await play.end(RAGE_S, 6.0)
    sizes.check(WIDE.name, shrinks=True)
    sizes.check(KEYED.name, shrinks=False)
    return played


async def letters(simulation: Simulation, starter: Starter) -> Played:
    menu = [*CRASHES, "disk_full", "sync_error", "stop_cleanly"]
    play = alone(simulation, starter, menu, [POISON, DEAD, REVIVED, TRIED, SHORT, EXPIRED])
    await play.begin()
    play.poison(0.5)
    play.send(TRIED, 1.0)
    play.consume(TRIED, 2, 0.5, BAD)
    play.send(SHORT, 0.8, 0.1)
    play.consume(SHORT, 2, 3.0, BAD)
    return await play.end(RAGE_S, 5.0)


async def parcels(simulation: Simulation, starter: Starter) -> Played:
    menu = [*CRASHES, "disk_full", "stop_cleanly", "kill_twice"]
    play = alone(simulation, starter, menu, [RANKED, RANKED_DEAD])
    await play.begin()
    stage = play.stage
    for number in range(2):
        stage.act(send_parcels(stage, play.oracle, f"parcels-{number}", RANKED.name, 0.4))
    play.consume(RANKED, 3, 0.4, Habits(settle=0.6, give_back=0.2))
    play.consume(RANKED_DEAD, 1, 4.0)
    stage.act(consumers.redrive_now_and_then(stage, play.oracle, "mover", RANKED_DEAD.name, [""], 20.0))
    return await play.end(RAGE_S, 5.0)


async def doors(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, BREAKAGES, [PLAIN])
    await play.begin()
    stage = play.stage
    play.send(PLAIN, 1.0, 0.2)
    play.consume(PLAIN, 3, 0.3)
    stage.act(producers.send_by_kafka(stage, play.oracle, "kafka", PLAIN.name, 0.7))
    stage.act(producers.send_in_transactions(stage, play.oracle, "transactional", PLAIN.name, 1.0))
    stage.act(look_on(stage, "onlooker", Place(PLAIN.name, 0)))
    return await play.end(RAGE_S, 6.0)


async def clocks(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, ["clock_jump", "clock_jump", "resets"], [PLAIN, SHORT, EXPIRED, ORDERED])
    await play.begin()
    play.send(PLAIN, 0.5, 0.5)
    play.consume(PLAIN, 2, 0.4)
    play.send(SHORT, 1.0, 0.2)
    play.consume(SHORT, 1, 4.0, BAD)
    play.send_in_lines(ORDERED, 1, 0.8)
    play.consume(ORDERED, 2, 0.5)
    return await play.end(RAGE_S, 6.0)


async def delays(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "stop_cleanly", "disk_full"], [PLAIN, PURGED])
    await play.begin()
    stage = play.stage
    for law in (PLAIN, PURGED):
        name = f"planner-{law.name}"
        stage.act(producers.send_far_ahead(stage, play.oracle, name, law.name, 150.0, DAY_S))
        play.consume(law, 1, 120.0)
    play.purge(PURGED, DAY_S / 3)
    play.drain.patience_s = 3 * DAY_S
    return await play.end(DAY_S / 2, 2_400.0)


QUEUE_SCENARIOS: Final[dict[str, Scenario]] = {
    "queues": queues,
    "leases": leases,
    "lines": lines,
    "resizes": resizes,
    "letters": letters,
    "parcels": parcels,
    "doors": doors,
    "clocks": clocks,
    "delays": delays,
}
