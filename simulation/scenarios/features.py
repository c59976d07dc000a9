"""Scenarios of queue features beyond sending and receiving, while the node crashes.

rewinds    a queue with `settled: keep` is rewound, to the start or to a position, and is forked
answers    questions name their reply queue: each is answered once, in the step that settles it
audits     every delivery and every settle is in the audit topic, once
filters    receivers take only the messages that match, the rest stays for others
once       Kafka producers send to a queue with rules; each task is settled together with its result, exactly once
"""

from __future__ import annotations

from typing import Final

from longhall.broker.queues.service import QueueService
from longhall.queues.settings import QueueSettings
from simulation.checkers.sends import Place
from simulation.scenarios import exactly_once
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.audit_reader import compare_audit
from simulation.scenarios.consumers import Habits
from simulation.scenarios.filtered_messages import WISHES, send_coloured
from simulation.scenarios.final_check import HEALED_S
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.machine import Starter
from simulation.scenarios.queue_run import QueueRun, alone
from simulation.scenarios.readers import read_all
from simulation.scenarios.request_reply import ASKS, REPLIES, RequestReplyClients
from simulation.scenarios.rewind_client import RewindClient
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

FAULTS_S: Final = 180.0
CRASHES: Final = [
    "power_cut",
    "power_cut_in_the_middle",
    "power_cut_in_the_middle",
    "power_cut_on_a_slow_disk",
    "kill",
    "stop_cleanly",
]


async def rewinds(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "disk_full"], [laws.PLAIN])
    await run.begin()
    run.send(laws.PLAIN, 1.0, 0.2)
    run.consume(laws.PLAIN, 1, 0.6)
    for name in ("kept", "held"):
        run.context.act(RewindClient(run.context, name).run(0.4))
    return await run.end(FAULTS_S, 8.0)


async def answers(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "cut", "resets"], [laws.PLAIN])
    await run.begin()
    for name in (ASKS, REPLIES):
        await _make(run, name, QueueSettings())
    run.send(laws.PLAIN, 1.0, 0.2)
    run.consume(laws.PLAIN, 1, 0.6)
    talk = RequestReplyClients(run.context)
    for number in range(2):
        run.context.act(talk.ask(f"asker-{number}", 0.5))
        run.context.act(talk.answer(f"answerer-{number}", 0.2, until_empty=number == 0))
    run.context.act(talk.listen("listener", 0.3))
    played = await run.end(FAULTS_S, 6.0)
    talk.oracle.account()
    return played


async def audits(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "kill_twice"], [laws.AUDITED])
    await run.begin()
    run.send(laws.AUDITED, 0.4, 0.1)
    run.consume(laws.AUDITED, 3, 0.3, Habits(settle=0.6, give_back=0.2))
    played = await run.end(FAULTS_S, 5.0)
    await run.context.on_clients(compare_audit(run, laws.AUDITED))
    return played


async def filters(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "cut", "resets"], [laws.COLOURED])
    await run.begin()
    context = run.context
    for number in range(2):
        context.act(send_coloured(context, run.oracle, f"painter-{number}", laws.COLOURED.name, 0.5))
    for colour, receiver_filter in WISHES.items():
        run.consume(laws.COLOURED, 2, 0.3, receiver_filter=receiver_filter, colour=colour)
    run.consume(laws.COLOURED, 1, 2.0)
    return await run.end(FAULTS_S, 5.0)


async def once(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, [*CRASHES, "cut", "resets"], [laws.PLAIN])
    await run.begin()
    clients = await work_once(run)
    played = await run.end(FAULTS_S, 6.0)
    await run.context.on_clients(compare_results(run, clients))
    return played


async def work_once(run: QueueRun) -> exactly_once.ExactlyOnceClients:
    """Start the clients of a queue with tasks and its results, beside others of a plain queue."""
    await _make(run, exactly_once.TASKS, exactly_once.SETTINGS)
    await _make(run, exactly_once.RESULTS, QueueSettings(settled="keep"))
    run.send(laws.PLAIN, 1.0, 0.2)
    run.consume(laws.PLAIN, 1, 0.6)
    clients = exactly_once.ExactlyOnceClients(run.context)
    for number in range(2):
        run.context.act(clients.send(f"sender-{number}", 0.5))
        run.context.act(clients.work(f"worker-{number}", 0.3))
    run.context.act(clients.measure(0.7))
    return clients


async def compare_results(run: QueueRun, clients: exactly_once.ExactlyOnceClients) -> None:
    """Every acknowledged task has one result, and nothing else has one."""
    hall = await run.context.connect("accountant", patience_ms=30_000)
    place = Place(exactly_once.RESULTS, 0)
    _, records, _ = await read_all(hall, place, stable=True, seconds=HEALED_S)
    clients.oracle.account([(record.value or b"").decode() for record in records])
    hall.close()


async def _make(run: QueueRun, name: str, settings: QueueSettings) -> None:
    async def question(desk: QueueService) -> None:
        await desk.create(name, settings)

    await ask_inside(run.context.deployment, question)


FEATURE_SCENARIOS: Final[dict[str, Scenario]] = {
    "rewinds": rewinds,
    "answers": answers,
    "audits": audits,
    "filters": filters,
    "once": once,
}
