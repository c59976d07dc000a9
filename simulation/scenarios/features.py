"""Scenarios of what queues can do beyond sending and receiving, while the node crashes.

rewinds    a queue that keeps what is settled goes back, to the start or to a place, and is forked
answers    questions name the queue of their answers: each is answered once, in the step that settles it
audits     every delivery and every settle stands in the audit topic, once
filters    receivers want only some messages, the others stay for others
"""

from __future__ import annotations

from typing import Final

from longhall.broker.queues.service import QueueService
from longhall.queues.settings import QueueSettings
from simulation.checkers.audits import audit
from simulation.checkers.messages import Law
from simulation.checkers.sends import Place
from simulation.scenarios import laws
from simulation.scenarios.again import Historian
from simulation.scenarios.colours import WISHES, send_coloured
from simulation.scenarios.consumers import Habits
from simulation.scenarios.inside import ask_inside
from simulation.scenarios.machine import Starter
from simulation.scenarios.played import Played, Scenario
from simulation.scenarios.queue_play import QueuePlay, alone
from simulation.scenarios.readers import read_all
from simulation.scenarios.talk import ASKS, REPLIES, Conversation
from simulation.scenarios.verdict import HEALED_S
from simulation.world import Simulation

RAGE_S: Final = 180.0
CRASHES: Final = [
    "power_cut",
    "power_cut_in_the_middle",
    "power_cut_in_the_middle",
    "power_cut_on_a_slow_disk",
    "kill",
    "stop_cleanly",
]


async def rewinds(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "disk_full"], [laws.PLAIN])
    await play.begin()
    play.send(laws.PLAIN, 1.0, 0.2)
    play.consume(laws.PLAIN, 1, 0.6)
    for name in ("kept", "held"):
        play.stage.act(Historian(play.stage, name).run(0.4))
    return await play.end(RAGE_S, 8.0)


async def answers(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "cut", "resets"], [laws.PLAIN])
    await play.begin()
    for name in (ASKS, REPLIES):
        await _make(play, name, QueueSettings())
    play.send(laws.PLAIN, 1.0, 0.2)
    play.consume(laws.PLAIN, 1, 0.6)
    talk = Conversation(play.stage)
    for number in range(2):
        play.stage.act(talk.ask(f"asker-{number}", 0.5))
        play.stage.act(talk.answer(f"answerer-{number}", 0.2, until_empty=number == 0))
    play.stage.act(talk.listen("listener", 0.3))
    played = await play.end(RAGE_S, 6.0)
    talk.oracle.account()
    return played


async def audits(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "kill_twice"], [laws.AUDITED])
    await play.begin()
    play.send(laws.AUDITED, 0.4, 0.1)
    play.consume(laws.AUDITED, 3, 0.3, Habits(settle=0.6, give_back=0.2))
    played = await play.end(RAGE_S, 5.0)
    await play.stage.on_clients(_compare_audit(play, laws.AUDITED))
    return played


async def filters(simulation: Simulation, starter: Starter) -> Played:
    play = alone(simulation, starter, [*CRASHES, "cut", "resets"], [laws.COLOURED])
    await play.begin()
    stage = play.stage
    for number in range(2):
        stage.act(send_coloured(stage, play.oracle, f"painter-{number}", laws.COLOURED.name, 0.5))
    for colour, wish in WISHES.items():
        play.consume(laws.COLOURED, 2, 0.3, wish=wish, colour=colour)
    play.consume(laws.COLOURED, 1, 2.0)
    return await play.end(RAGE_S, 5.0)


async def _make(play: QueuePlay, name: str, settings: QueueSettings) -> None:
    async def question(desk: QueueService) -> None:
        await desk.create(name, settings)

    await ask_inside(play.stage.premises, question)


async def _compare_audit(play: QueuePlay, law: Law) -> None:
    hall = await play.stage.connect("auditor", patience_ms=30_000)
    place = Place(f"{law.name}.deliveries", 0)
    _, records, _ = await read_all(hall, place, stable=False, seconds=HEALED_S)
    audit(play.oracle, law.name, [record.value or b"" for record in records])
    hall.close()


FEATURE_SCENARIOS: Final[dict[str, Scenario]] = {
    "rewinds": rewinds,
    "answers": answers,
    "audits": audits,
    "filters": filters,
}
