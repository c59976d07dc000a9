"""Scenarios of messages that move between replication groups.

cluster-outbox    dead letters, redrives and answers between the hall and wings, while hosts, links, disks, leaders and
                  single wing processes fail: each message exists once, and none is lost

The seed decides where the queues are: the queue, its dead letters and the queue that gets some of them are in three
different groups, or in all of them.
"""

from __future__ import annotations

from typing import Final

from simulation.replicas.fault_menus import WINGS
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.machine import Starter
from simulation.scenarios.request_reply import ASKS, REPLIES, RequestReplyClients
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.wings import WingQueueRun
from simulation.world import Simulation

# Of the queue, of its dead letters, of the revived messages, of questions and of replies.
PLACEMENTS: Final = (
    ("share", "hall", "share", "share", "hall"),
    ("hall", "share", "parts", "hall", "share"),
    ("parts", "share", "hall", "parts", "share"),
    ("share", "any-host", "hall", "share", "parts"),
)
TALK: Final = (laws.Law(REPLIES), laws.Law(ASKS))


async def cluster_outbox(simulation: Simulation, starter: Starter) -> RunResult:
    poison, dead, revived, asks, replies = PLACEMENTS[simulation.seed % len(PLACEMENTS)]
    kinds = [
        laws.DEAD._replace(placement=dead),
        laws.REVIVED._replace(placement=revived),
        laws.POISON._replace(placement=poison),
        laws.URGENT,
    ]
    run = WingQueueRun(simulation, kinds, (*WINGS, *("kill_a_ward",) * 3))
    run.more = [law._replace(placement=at) for law, at in zip(TALK, (replies, asks), strict=True)]
    await run.begin()
    run.clients.poison(0.5)
    talk = RequestReplyClients(run.context)
    for number in range(2):
        run.context.act(talk.ask(f"asker-{number}", 0.8))
        run.context.act(talk.answer(f"answerer-{number}", 0.3, until_empty=number == 0))
    run.context.act(talk.listen("listener", 0.4))
    played = await run.end()
    talk.oracle.account()
    return played


OUTBOX_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-outbox": cluster_outbox}
