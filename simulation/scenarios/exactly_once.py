"""Clients of exactly-once work: Kafka producers send tasks to a queue with rules, and workers settle each task together
with its result, over the queue service or in a Kafka transaction.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.broker.queues.service import QueueService
from longhall.client.groups import Committed, Membership
from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.errors import Code
from longhall.queues.messages import Outgoing, WriteBack
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch
from simulation.checkers.exactly_once import ExactlyOnceOracle
from simulation.checkers.violation import demand
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import ReceivedMessage, SqsClient, SqsRefusal, Unanswered

TASKS: Final = "tasks"
RESULTS: Final = "results"
DELAY_S: Final = 1.0
MESSAGES_MAX: Final = 30
LARGEST_BYTES: Final = 1024
LEASE_S: Final = 4
QUIET_S: Final = 20.0
SETTINGS: Final = QueueSettings(
    delivery="exactly-once",
    delay_ms=int(DELAY_S * 1000),
    messages_max=MESSAGES_MAX,
    when_full="wait",
    message_bytes_max=LARGEST_BYTES,
)


@final
class ExactlyOnceClients:
    """The clients of one task queue and its results, which report to an `ExactlyOnceOracle`."""

    def __init__(self, context: RunContext) -> None:
        self.oracle = ExactlyOnceOracle(DELAY_S, MESSAGES_MAX)
        self._context = context

    async def send(self, name: str, pause_s: float) -> None:
        """Send batches of tasks with deduplication ids; without an answer, and now and then with one, send again."""
        chance = self._context.stream(name)
        hall = await self._context.connect(name)
        number = 0
        while not self._context.closing:
            await self._context.rest(chance.expovariate(1 / pause_s))
            if chance.random() < 0.1:
                await self._break_a_rule(hall, chance, f"{name}-large-{number}")
            keys = [f"{name}-{number + at}" for at in range(chance.choice((1, 1, 2, 5)))]
            number += len(keys)
            for _ in range(8):
                answered = await self._send(hall, chance, keys)
                if self._context.closing or (answered and chance.random() < 0.7):
                    break

    async def _send(self, hall: Hall, chance: random.Random, keys: list[str]) -> bool:
        now_s = asyncio.get_running_loop().time()
        for key in keys:
            self.oracle.sending(key, now_s)
        records = [
            Record(-1, self._context.now_ms(), None, key.encode(), (("longhall.deduplication-id", key.encode()),))
            for key in keys
        ]
        batch = build_batch(records, compression=chance.randrange(5))
        try:
            await hall.records.produce(TASKS, 0, batch, create=False, timeout_ms=2_000)
        except (Unreachable, Refused) as refusal:
            demand(
                not isinstance(refusal, Refused) or refusal.code is not Code.MESSAGE_TOO_LARGE,
                f"{keys} were refused: {refusal}",
            )
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            return False
        for key in keys:
            self.oracle.acknowledged(key)
        return True

    async def _break_a_rule(self, hall: Hall, chance: random.Random, key: str) -> None:
        """A task that is too large, in a batch that looks small, or one without an id."""
        self.oracle.must_not_be(key)
        headers = (("longhall.deduplication-id", key.encode()),) if chance.random() < 0.5 else ()
        value = key.encode().ljust(2 * LARGEST_BYTES, b".") if headers else key.encode()
        try:
            await hall.records.produce(
                TASKS,
                0,
                build_batch([Record(-1, self._context.now_ms(), None, value, headers)], compression=1),
                create=False,
            )
        except (Unreachable, Refused):
            return
        demand(False, f"{key} was accepted although it breaks a rule of the queue")

    async def work(self, name: str, pause_s: float) -> None:
        """Receive tasks and settle them with their results, until none has come for a while after the end."""
        chance = self._context.stream(name)
        client = SqsClient(self._context)
        hall = await self._context.connect(name)
        quiet_since_s = _now_s()
        while not self._context.closing or _now_s() - quiet_since_s < QUIET_S:
            if not self._context.closing:
                quiet_since_s = _now_s()
            await asyncio.sleep(chance.expovariate(1 / pause_s))
            try:
                found = await client.receive(TASKS, 4, 0, LEASE_S)
            except (Unanswered, SqsRefusal):
                quiet_since_s = _now_s()
                continue
            for task in found:
                self.oracle.came(task.body, _now_s())
            if found:
                quiet_since_s = _now_s()
                if self._context.closing or chance.random() < 0.9:
                    if chance.random() < 0.5:
                        await self._settle_in_transaction(hall, chance, name, found)
                    else:
                        await self._settle_with_sends(chance, found)

    async def _settle_with_sends(self, chance: random.Random, tasks: list[ReceivedMessage]) -> None:
        receipts = [task.receipt for task in tasks]
        half = len(tasks) // 2

        def back(some: list[ReceivedMessage]) -> WriteBack:
            return WriteBack(queue=RESULTS, messages=[Outgoing(body=task.body.encode()) for task in some])

        async def question(desk: QueueService) -> None:
            sends = [back(some) for some in (tasks[:half], tasks[half:]) if some]
            await desk.settle_with_sends(TASKS, receipts, sends)

        for _ in range(4):  # The same request again, if its answer is lost.
            try:
                await ask_inside(self._context.deployment, question)
            except Unanswered:
                await asyncio.sleep(chance.uniform(0.1, 1.0))
                continue
            except SqsRefusal:
                pass  # Another consumer has a task: the lease has ended.
            return

    async def _settle_in_transaction(
        self, hall: Hall, chance: random.Random, name: str, tasks: list[ReceivedMessage]
    ) -> None:
        transactions = hall.transactions
        try:
            who = await transactions.identify(name, timeout_ms=10_000)
            await transactions.add_partitions(name, who, [(RESULTS, 0)])
            batch = build_batch(
                [Record(-1, self._context.now_ms(), None, task.body.encode()) for task in tasks],
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                base_sequence=0,
                transactional=True,
            )
            await hall.records.produce(RESULTS, 0, batch, transactional_id=name, create=False)
            group = f"longhall.settle.{TASKS}"
            await transactions.add_offsets(name, who, group)
            for task in tasks:
                settled = {(TASKS, 0): Committed(0, -1, task.receipt)}
                await transactions.commit_offsets(name, who, group, settled, Membership(), rising=False)
            await transactions.end(name, who, commit=chance.random() < 0.9, rising=False)
        except (Unreachable, Refused):
            await asyncio.sleep(chance.uniform(0.05, 0.5))

    async def measure(self, pause_s: float) -> None:
        """Compare the size of the queue with its capacity."""

        async def question(desk: QueueService) -> int:
            depth = desk.depth(TASKS)
            return depth.available + depth.in_flight + depth.delayed

        while not self._context.closing:
            await self._context.rest(pause_s)
            try:
                self.oracle.measured(await ask_inside(self._context.deployment, question))
            except (Unanswered, SqsRefusal):
                continue


def _now_s() -> float:
    return asyncio.get_running_loop().time()
