"""The scenarios of queues, through the SQS door, from an empty disk to empty queues.

queues     every kind of queue at once, and everything breaks
leases     consumers of all habits; power cuts and kills in quick succession
lines      FIFO queues with deduplication, links that break, crashes
letters    poisoned messages, dead letters, redrives that are interrupted; now and then the disk is full
parcels    priorities, and large messages in parts, some of which are never finished
doors      one log, two doors: Kafka producers and transactions feed a queue, Kafka readers look on
clocks     the wall clock of a running node jumps: nothing ends early and nothing late
delays     milliseconds to days, purges between, a crash every few hours
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.broker.queues.desk import Desk
from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from longhall.simulation.checkers.messages import Law
from longhall.simulation.checkers.queues import QueueOracle
from longhall.simulation.checkers.sends import Place
from longhall.simulation.scenarios import consumers, producers
from longhall.simulation.scenarios.consumers import BAD, GOOD, Consumer, Habits
from longhall.simulation.scenarios.drain import Drain
from longhall.simulation.scenarios.inside import ask_inside
from longhall.simulation.scenarios.machine import Machine, Starter
from longhall.simulation.scenarios.nemesis import EVERYTHING, Nemesis
from longhall.simulation.scenarios.onlookers import look_on
from longhall.simulation.scenarios.parcels import LIMIT_BYTES, PRIORITIES, WHOLE_BYTES_MAX, send_parcels
from longhall.simulation.scenarios.played import Played, Scenario
from longhall.simulation.scenarios.stage import Stage
from longhall.simulation.world import Simulation

RAGE_S: Final = 180.0
ATTEMPTS_MAX: Final = 3
TIME_TO_LIVE_S: Final = 12.0
DAY_S: Final = 86_400.0
CRASHES: Final = ["power_cut", "power_cut_in_the_middle", "power_cut_in_the_middle", "power_cut_on_a_slow_disk", "kill"]
# Leases and delays are held against the clients' clock, so the node's must not be set by anybody.
BREAKAGES: Final = [name for name in EVERYTHING if name != "clock_jump"]

PLAIN: Final = Law("plain")
ORDERED: Final = Law("ordered.fifo", fifo=True)
POISON: Final = Law("poison", attempts_max=ATTEMPTS_MAX, dead="dead")
TRIED: Final = Law("tried", attempts_max=ATTEMPTS_MAX, dead="dead", retry_s=1.5)
DEAD: Final = Law("dead")
REVIVED: Final = Law("revived")
SHORT: Final = Law("short", time_to_live_s=TIME_TO_LIVE_S, messages_max=60, attempts_max=1000, dead="expired")
EXPIRED: Final = Law("expired")
STRICT: Final = Law("strict", one_by_one=True)
ONCE: Final = Law("once", at_most_once=True)
PURGED: Final = Law("purged")
RANKED: Final = Law("ranked", attempts_max=ATTEMPTS_MAX, dead="ranked-dead", parcels=True)
RANKED_DEAD: Final = Law("ranked-dead")
LINES: Final = Law("lines.fifo", fifo=True, attempts_max=ATTEMPTS_MAX, dead="lines-dead.fifo")
LINES_DEAD: Final = Law("lines-dead.fifo", fifo=True)


@final
class QueuePlay:
    """What all scenarios begin and end with."""

    def __init__(self, simulation: Simulation, starter: Starter, menu: list[str], laws: list[Law]) -> None:
        self.simulation = simulation
        self.machine = Machine(simulation, starter)
        self.stage = Stage(simulation, self.machine)
        self.nemesis = Nemesis(simulation, self.machine, menu)
        self.oracle = QueueOracle(laws)
        self.drain = Drain(self.stage, self.nemesis, self.oracle)
        self.chance: random.Random = simulation.stream("play")

    async def begin(self) -> None:
        """Start the node and make the queues, before anything breaks."""
        self.machine.start()
        await self.machine.up(10.0)
        for law in sorted(self.oracle.laws.values(), key=lambda law: bool(law.dead)):

            async def question(desk: Desk, law: Law = law) -> None:
                await desk.create(law.name, settings_of(law))

            await ask_inside(self.machine, question)

    async def end(self, rage_s: float, calm_s: float) -> Played:
        with self.drain.reports:
            raging = asyncio.ensure_future(self.nemesis.rage(rage_s, calm_s))
            await self.stage.watch(rage_s)
            await raging
            await self.drain.speak()
        oracle = self.oracle
        seconds = asyncio.get_running_loop().time()
        return Played(
            seconds,
            oracle.sends,
            oracle.acknowledged,
            self.machine.host.boots,
            self.nemesis.happened,
            self.simulation.trace.digest(),
            oracle.delivered,
            oracle.settled,
            oracle.dead,
        )

    def send(self, law: Law, pause_s: float, delayed: float = 0.0) -> None:
        name = f"sender-{law.name}"
        self.stage.act(producers.send_freely(self.stage, self.oracle, name, law.name, pause_s, delayed))

    def send_in_lines(self, law: Law, senders: int, pause_s: float) -> None:
        for number in range(senders):
            name = f"{law.name[0]}{number}"
            self.stage.act(producers.send_in_lines(self.stage, self.oracle, name, law.name, 3, pause_s))

    def consume(self, law: Law, count: int, pause_s: float, habits: Habits = GOOD) -> None:
        for number in range(count):
            name = f"consumer-{law.name}-{number}"
            self.stage.act(Consumer(self.stage, self.oracle, name, law.name, habits).run(pause_s))

    def poison(self, pause_s: float) -> None:
        self.send(POISON, pause_s)
        self.consume(POISON, 3, pause_s, BAD)
        self.consume(DEAD, 1, pause_s * 8, Habits(settle=0.3))
        self.consume(REVIVED, 1, pause_s * 2)
        stage = self.stage
        targets = ["", REVIVED.name]
        stage.act(consumers.redrive_now_and_then(stage, self.oracle, "mover", DEAD.name, targets, 8.0))

    def purge(self, law: Law, pause_s: float) -> None:
        self.stage.act(consumers.purge_now_and_then(self.stage, self.oracle, "purger", law.name, pause_s))

    def pause(self, law: Law, pause_s: float) -> None:
        self.stage.act(consumers.pause_now_and_then(self.stage, self.oracle, "pauser", law.name, pause_s))


def settings_of(law: Law) -> QueueSettings:
    return QueueSettings(
        fifo=law.fifo,
        deduplication="id" if law.fifo else "off",
        delivery="at-most-once" if law.at_most_once else "at-least-once",
        one_by_one=law.one_by_one,
        priorities=PRIORITIES if law.parcels else 1,
        message_bytes_max=LIMIT_BYTES if law.parcels else 256 * 1024,
        whole_bytes_max=WHOLE_BYTES_MAX if law.parcels else 0,
        time_to_live_ms=int(law.time_to_live_s * 1000),
        messages_max=law.messages_max,
        when_full="dead-letter" if law.messages_max else "refuse",
        retry=RetryPolicy(first_ms=int(law.retry_s * 1000)) if law.retry_s else None,
        dead_letters=DeadLetters(queue=law.dead, attempts_max=law.attempts_max) if law.dead else None,
    )


async def queues(simulation: Simulation, starter: Starter) -> Played:
    laws = [PLAIN, ORDERED, POISON, DEAD, REVIVED, SHORT, EXPIRED, STRICT, ONCE, PURGED]
    play = QueuePlay(simulation, starter, BREAKAGES, laws)
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
    play = QueuePlay(simulation, starter, [*CRASHES, "kill_twice", "stop_cleanly"], [PLAIN, STRICT, ONCE, PURGED])
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
    play = QueuePlay(simulation, starter, [*CRASHES, "cut", "resets", "stop_cleanly"], [ORDERED, LINES, LINES_DEAD])
    await play.begin()
    play.send_in_lines(ORDERED, 3, 0.3)
    play.consume(ORDERED, 4, 0.2)
    play.send_in_lines(LINES, 2, 0.6)
    play.consume(LINES, 3, 0.3, Habits(settle=0.5, give_back=0.3))
    play.consume(LINES_DEAD, 1, 3.0)
    return await play.end(RAGE_S, 5.0)


async def letters(simulation: Simulation, starter: Starter) -> Played:
    menu = [*CRASHES, "disk_full", "sync_error", "stop_cleanly"]
    play = QueuePlay(simulation, starter, menu, [POISON, DEAD, REVIVED, TRIED, SHORT, EXPIRED])
    await play.begin()
    play.poison(0.5)
    play.send(TRIED, 1.0)
    play.consume(TRIED, 2, 0.5, BAD)
    play.send(SHORT, 0.8, 0.1)
    play.consume(SHORT, 2, 3.0, BAD)
    return await play.end(RAGE_S, 5.0)


async def parcels(simulation: Simulation, starter: Starter) -> Played:
    menu = [*CRASHES, "disk_full", "stop_cleanly", "kill_twice"]
    play = QueuePlay(simulation, starter, menu, [RANKED, RANKED_DEAD])
    await play.begin()
    stage = play.stage
    for number in range(2):
        stage.act(send_parcels(stage, play.oracle, f"parcels-{number}", RANKED.name, 0.4))
    play.consume(RANKED, 3, 0.4, Habits(settle=0.6, give_back=0.2))
    play.consume(RANKED_DEAD, 1, 4.0)
    stage.act(consumers.redrive_now_and_then(stage, play.oracle, "mover", RANKED_DEAD.name, [""], 20.0))
    return await play.end(RAGE_S, 5.0)


async def doors(simulation: Simulation, starter: Starter) -> Played:
    play = QueuePlay(simulation, starter, BREAKAGES, [PLAIN])
    await play.begin()
    stage = play.stage
    play.send(PLAIN, 1.0, 0.2)
    play.consume(PLAIN, 3, 0.3)
    stage.act(producers.send_by_kafka(stage, play.oracle, "kafka", PLAIN.name, 0.7))
    stage.act(producers.send_in_transactions(stage, play.oracle, "transactional", PLAIN.name, 1.0))
    stage.act(look_on(stage, "onlooker", Place(PLAIN.name, 0)))
    return await play.end(RAGE_S, 6.0)


async def clocks(simulation: Simulation, starter: Starter) -> Played:
    play = QueuePlay(simulation, starter, ["clock_jump", "clock_jump", "resets"], [PLAIN, SHORT, EXPIRED, ORDERED])
    await play.begin()
    play.send(PLAIN, 0.5, 0.5)
    play.consume(PLAIN, 2, 0.4)
    play.send(SHORT, 1.0, 0.2)
    play.consume(SHORT, 1, 4.0, BAD)
    play.send_in_lines(ORDERED, 1, 0.8)
    play.consume(ORDERED, 2, 0.5)
    return await play.end(RAGE_S, 6.0)


async def delays(simulation: Simulation, starter: Starter) -> Played:
    play = QueuePlay(simulation, starter, [*CRASHES, "stop_cleanly", "disk_full"], [PLAIN, PURGED])
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
    "letters": letters,
    "parcels": parcels,
    "doors": doors,
    "clocks": clocks,
    "delays": delays,
}
