"""Settles in transactions over several replication groups.

group-settles    tasks of a queue in two wings of one replica each, and of one in the hall; workers settle them in
                 transactions that write the results in the hall, some of which abort, give a task back before the
                 commit, or are abandoned; others settle them with sends to a topic in a wing. Hall and wings are
                 killed and lose their power all the time, while a tenth of all calls between them is lost: each
                 accepted task has one result that readers of committed messages find
settle-moves     the same, while two of the queues move between the hall and the wings
"""

from __future__ import annotations

import asyncio
import itertools
import random
from functools import partial
from typing import Any, Final, final

from longhall.broker.configuration import PLACEMENT, SHARE
from longhall.broker.fetch import read_log
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery, Outgoing, WriteBack
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch, parse_header, read_records
from longhall.service import queue_operations as ops
from longhall.topics.effects import CommitRequest
from simulation.checkers.exactly_once import ExactlyOnceOracle
from simulation.checkers.violation import Violation, demand
from simulation.loop import PowerCut
from simulation.scenarios.cluster_run import FAULTS_S
from simulation.scenarios.group_halls import MAIN, GroupHalls, break_groups
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

QUEUES: Final = {"tasks": "parts", "more": "share", "near": "hall"}
RESULTS: Final = "results"
FACTS: Final = "facts"  # A topic in a wing.
WORKERS: Final = 3
STEPPERS: Final = 2
LEASE_MS: Final = 2_500
CANCELLED: Final = 0.1  # The share of moves.
TIMEOUT_MS: Final = 4_000  # Of a transaction.
SEND_S: Final = 0.2
WORK_S: Final = 0.2
LOSSES: Final = {False: 0.1, True: 0.05}  # By whether queues move: with more of them hardly one does.
MOVING: Final = ("more", "near")
MOVE_S: Final = 3.0  # Between two moves of a queue.
WINGS: Final = 2
SETTLE_S: Final = 40.0  # After the faults: every lease that a transaction extended has ended.
DRAIN_LOOKS: Final = 120
READ_BYTES: Final = 300_000


@final
class _Worker:
    """A transactional producer that settles tasks together with their results."""

    def __init__(self, run: SettleRun, name: str, chance: random.Random) -> None:
        self._run = run
        self._halls = run.halls
        self._name = name
        self._chance = chance
        self._producer = self._epoch = -1

    async def work(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / WORK_S))
            try:
                found: dict[str, list[Delivery]] = {}
                for queue in self._chance.sample(list(QUEUES), 2):
                    got = await self._halls.ask(ops.ReceiveMessages(queue, 3, 0, LEASE_MS))
                    if got:
                        found[queue] = got
                for one in [one for some in found.values() for one in some]:
                    self._run.oracle.came(one.body.decode(), asyncio.get_running_loop().time())
                if found:
                    await self._transact(found)
            except LonghallError:
                continue

    async def _transact(self, found: dict[str, list[Delivery]]) -> None:
        taken = await self._halls.transact(lambda one: one.init(self._name, TIMEOUT_MS, -1, -1))
        _expect(taken.code)
        self._producer, self._epoch = taken.producer_id, taken.producer_epoch
        await self._write([one.body for some in found.values() for one in some])
        for queue, some in found.items():
            await self._settle(queue, some)
        fate = self._chance.random()
        if fate < 0.1:
            queue = self._chance.choice(list(found))  # Then the commit must be refused: another worker gets the task.
            await self._halls.ask(ops.ChangeLeases(queue, [(found[queue][0].receipt, 0)]))
        elif fate < 0.15:
            return  # The transaction times out.
        for _ in range(6):
            code = await self._end(commit=fate < 0.9)
            if code is not Code.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0.2)
        if code is Code.TRANSACTION_ABORTABLE:
            await self._end(commit=False)

    async def _write(self, bodies: list[bytes]) -> None:
        async def work(transactor: TransactionCoordinator) -> Code | None:
            added = await transactor.add(self._name, self._producer, self._epoch, [(RESULTS, 0)])
            hall = self._halls.groups[MAIN].hall
            partition = hall.partition(RESULTS, 0) if hall is not None else None
            if added.code is not None or hall is None or partition is None:
                return added.code or Code.NOT_READY
            batch = build_batch(
                [Record(-1, hall.time.now_ms(), None, body) for body in bodies],
                producer_id=self._producer,
                producer_epoch=self._epoch,
                base_sequence=0,
                transactional=True,
            )
            code = send(hall, partition, batch, 0, len(batch), self._name).code
            await committed(hall, partition.shard)
            return code

        _expect(await self._halls.transact(work))

    async def _settle(self, queue: str, some: list[Delivery]) -> None:
        offsets = ((queue, 0, 0, -1, " ".join(one.receipt for one in some)),)
        request = CommitRequest(group_id=f"longhall.settle.{queue}", generation=-1, member_id="", offsets=offsets)
        result = await self._halls.transact(
            lambda one: one.hold_offsets(self._name, request, self._producer, self._epoch, True)
        )
        _expect(result.code or result.refused.get((queue, 0)))

    async def _end(self, *, commit: bool) -> Code | None:
        ended = await self._halls.transact(lambda one: one.end(self._name, self._producer, self._epoch, commit, False))
        return ended.code


@final
class _Stepper:
    """A client that settles tasks with sends of their results to the topic in a wing, and repeats lost requests."""

    def __init__(self, run: SettleRun, chance: random.Random) -> None:
        self._run = run
        self._chance = chance

    async def work(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / WORK_S))
            queue = self._chance.choice(list(QUEUES))
            try:
                found = await self._run.halls.ask(ops.ReceiveMessages(queue, 3, 0, LEASE_MS))
                for one in found:
                    self._run.oracle.came(one.body.decode(), asyncio.get_running_loop().time())
                if found:
                    await self._settle(queue, found)
            except LonghallError:
                continue

    async def _settle(self, queue: str, found: list[Delivery]) -> None:
        facts = WriteBack(topic=FACTS, messages=[Outgoing(body=one.body) for one in found])
        request = ops.SettleWithSends(queue, [one.receipt for one in found], [facts])
        for _ in range(3):
            try:
                await self._run.halls.ask(request)
            except LonghallError:
                await asyncio.sleep(0.2)
                continue
            return


@final
class SettleRun:
    """A run of `group-settles`."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, WINGS)
        self.halls.late_calls = True
        self.oracle = ExactlyOnceOracle(0.0, 0)
        self.sends = self.acknowledged = 0
        self.closing = False
        self._simulation = simulation

    async def make(self) -> None:
        """Start all groups and make the queues."""
        for group in self.halls.groups.values():
            await group.start()
        for name, placement in QUEUES.items():
            await self.halls.ask(ops.CreateQueue(name, QueueSettings(placement=placement, lease_ms=LEASE_MS)))
        await self.halls.ask(ops.CreateQueue(RESULTS, QueueSettings(placement="hall")))
        hall = self.halls.groups[MAIN].hall
        assert hall is not None
        await self.halls.transact(lambda _: create_topic(hall, FACTS, 1, {PLACEMENT: SHARE}))

    def start(self) -> list[asyncio.Task[None]]:
        """Senders and workers."""
        clients = [asyncio.ensure_future(self._send(name)) for name in QUEUES]
        for number in range(WORKERS):
            worker = _Worker(self, f"worker-{number}", self._simulation.stream(f"worker {number}"))
            clients.append(asyncio.ensure_future(worker.work()))
        for number in range(STEPPERS):
            stepper = _Stepper(self, self._simulation.stream(f"stepper {number}"))
            clients.append(asyncio.ensure_future(stepper.work()))
        return clients

    async def _send(self, name: str) -> None:
        chance = self._simulation.stream(f"send {name}")
        for number in itertools.count():
            await asyncio.sleep(chance.expovariate(1 / SEND_S))
            if self.closing:
                return
            key = f"{name}-{number}"
            self.oracle.sending(key, asyncio.get_running_loop().time())
            self.sends += 1
            try:
                (accepted,) = await self.halls.ask(ops.SendMessages(name, [Outgoing(body=key.encode())]))
            except LonghallError:
                continue
            if accepted.code is None:
                self.acknowledged += 1
                self.oracle.acknowledged(key)

    async def move(self) -> None:
        """Move the queues between the groups again and again, and cancel some of the moves."""
        chance = self._simulation.stream("moves")
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / MOVE_S))
            main = self.halls.groups[MAIN]
            queue, target = chance.choice(MOVING), chance.randrange(WINGS + 1)
            if main.mover is not None and main.host.process is not None:
                cancels = chance.random() < CANCELLED
                work = main.mover.cancel(queue) if cancels else main.mover.begin(queue, {0: target})
                task = main.host.process.start(work)
                waited: list[asyncio.Future[Any]] = [task, main.host.process.ended]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                error = task.exception() if task.done() and not task.cancelled() else None
                if error is not None and not isinstance(error, LonghallError | PowerCut | OSError):
                    raise error

    def switches(self) -> int:
        """How often the queues got another owner."""
        hall = self.halls.groups[MAIN].hall
        topics = [hall.topic(queue) for queue in MOVING] if hall is not None else []
        return sum(sum(topic.options.moves.counts.values()) for topic in topics if topic is not None)

    async def drain(self) -> int:
        """Let the workers empty the queues, and compare the results; returns their number."""
        await asyncio.sleep(SETTLE_S)
        for _ in range(DRAIN_LOOKS):
            await asyncio.sleep(1.0)
            depths = [await self.halls.ask(ops.MeasureQueue(name)) for name in QUEUES]
            if not any(depth.available + depth.in_flight for depth in depths):
                break
        else:
            raise Violation(f"tasks still wait or are held after {DRAIN_LOOKS} s without faults: {depths}")
        results: list[str] = []
        while found := await self.halls.ask(ops.ReceiveMessages(RESULTS, 10, 0, 600_000)):
            results += [one.body.decode() for one in found]
            await self.halls.ask(ops.SettleMessages(RESULTS, [one.receipt for one in found]))
        results += await self._facts()
        self.oracle.account(results)
        return len(results)

    async def _facts(self) -> list[str]:
        """The committed messages of the topic in a wing."""
        for number, group in self.halls.groups.items():
            hall = group.hall
            partition = hall.partition(FACTS, 0) if hall is not None else None
            if hall is not None and partition is not None and not partition.elsewhere:
                found: list[str] = await self.halls.inside(number, partial(_committed_of, hall, partition))
                return found
        raise Violation("no group has the topic")


async def _committed_of(hall: Hall, partition: Partition) -> list[str]:
    """What readers of committed messages find in a partition of which no transaction is open."""
    end = partition.high_watermark
    if partition.last_stable_offset != end:
        raise Violation(f"{partition.topic} has an open transaction at {partition.last_stable_offset} of {end}")
    aborted = partition.table().aborted_ranges()
    offset, found = partition.log.start_offset, list[str]()
    while offset < end:
        read = await read_log(hall, partition, offset, READ_BYTES, end)
        if read.code is not None:
            raise Violation(f"{partition.topic} cannot be read at {offset}: {read.code}")
        data, at = b"".join(read.buffers), 0
        while at < len(data):
            header = parse_header(data, at)
            offset = header.next_offset
            lost = any(one == header.producer_id and first < offset <= last for one, first, last in aborted)
            if not header.is_control and not lost:
                found += [(record.value or b"").decode() for record in read_records(data, at)]
            at += header.size_bytes
    return found


def _expect(code: Code | None) -> None:
    if code is not None:
        raise LonghallError(code)


async def group_settles(simulation: Simulation, starter: Starter) -> RunResult:
    return await _settle(simulation, moves=False)


async def settle_moves(simulation: Simulation, starter: Starter) -> RunResult:
    return await _settle(simulation, moves=True)


async def _settle(simulation: Simulation, *, moves: bool) -> RunResult:
    run = SettleRun(simulation)
    await run.make()
    clients = run.start()
    mover = asyncio.ensure_future(run.move()) if moves else None
    faults = await break_groups(run.halls, simulation, FAULTS_S * simulation.share, LOSSES[moves])
    run.closing = True
    results = await run.drain()
    if mover is not None:
        await mover
        demand(run.switches() > 0 or simulation.share < 1, "no queue has moved")
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return RunResult(
        asyncio.get_running_loop().time(),
        run.sends,
        run.acknowledged,
        sum(group.host.boots for group in run.halls.groups.values()),
        faults,
        simulation.trace.digest(),
        results,
        results,
        results,
    )


SETTLE_SCENARIOS: Final[dict[str, Scenario]] = {"group-settles": group_settles, "settle-moves": settle_moves}
