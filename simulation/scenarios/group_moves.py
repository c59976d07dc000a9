"""The scenario `moves`: partitions move between a hall and two wings of one replica each.

The groups are killed and lose their power all the time, a tenth of all calls between them is lost, and clients often
ask a group that has a partition no longer, or not yet. Writers are idempotent and repeat what they have no answer to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar, final

from longhall.broker.fetch import check_epoch, read_log
from longhall.broker.hall import Hall
from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.records.batch import Record, build_batch, parse_header, read_records
from longhall.topics.partition_moves import owners_of
from simulation.checkers.moved_logs import MovedLogOracle
from simulation.checkers.violation import Violation, demand
from simulation.loop import PowerCut
from simulation.scenarios.cluster_run import FAULTS_S
from simulation.scenarios.group_halls import MAIN, GroupHalls
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

TOPIC: Final = "events"
PARTITIONS: Final = 3
WINGS: Final = 2
WRITERS: Final = 2  # Of each partition.
LOSSES: Final = 0.1
CALM_S: Final = 3.0
SEND_S: Final = 0.1
READ_S: Final = 0.3
MOVE_S: Final = 1.5
STALE: Final = 0.2  # The chance that a client asks any group.
CANCELLED: Final = 0.15
ASK_S: Final = 2.0
ENDED_S: Final = 120.0
READ_BYTES: Final = 20_000

R = TypeVar("R")


@final
class MoveRun:
    """A run of `moves`: clients, an operator who moves partitions, and faults."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, WINGS)
        self.oracles = [MovedLogOracle(f"{TOPIC}-{number}") for number in range(PARTITIONS)]
        self.faults = self.moves = self.reads = 0
        self.closing = False
        self._simulation = simulation
        self._chance = simulation.stream("clients")

    async def make(self) -> None:
        """Start all groups and make the topic, in the hall."""
        for group in self.halls.groups.values():
            await group.start()
        configuration = {"segment.bytes": str(self._chance.choice((4_096, 20_000, 200_000)))}
        await self._inside(MAIN, lambda hall: create_topic(hall, TOPIC, PARTITIONS, configuration))

    async def write(self, partition: int, number: int) -> None:
        """Send messages with rising sequences. A batch without an answer is sent again."""
        oracle, name = self.oracles[partition], f"{partition}.{number}"
        chance = self._simulation.stream(f"write {name}")
        for sequence in itertools.count():
            await asyncio.sleep(chance.expovariate(1 / SEND_S))
            if self.closing:
                return
            key = f"{name}-{sequence}"
            oracle.sends += 1
            body = key.encode() + b" " + bytes(chance.choice((0, 100, 2_000)))
            frame = build_batch(
                [Record(0, 0, None, body)],
                producer_id=partition * 100 + number,
                producer_epoch=0,
                base_sequence=sequence,
            )
            while True:
                found = await self._inside(self._choose(partition), partial(_send, partition, frame))
                if isinstance(found, int):
                    oracle.sent(key, found)
                    break
                demand(found is not Code.OUT_OF_ORDER_SEQUENCE, f"{oracle.name}: {key} is out of order")
                await asyncio.sleep(chance.uniform(0.02, 0.3))

    async def read(self, partition: int) -> None:
        """Read from anywhere to the end, again and again."""
        chance = self._simulation.stream(f"read {partition}")
        offset = 0
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / READ_S))
            found = await self._inside(self._choose(partition), partial(_read, partition, offset))
            if isinstance(found, tuple):
                rows, end = found
                self.oracles[partition].read(rows, end)
                self.reads += len(rows)
                offset = rows[-1][0] + 1 if rows and chance.random() > 0.1 else chance.randrange(end + 1)

    async def move(self) -> None:
        """Begin and cancel moves."""
        chance = self._simulation.stream("moves")
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / MOVE_S))
            partition, target = chance.randrange(PARTITIONS), chance.randrange(WINGS + 1)
            cancels = chance.random() < CANCELLED
            begun = await self._inside(MAIN, partial(self._change, partition, target, cancels))
            self.moves += begun if isinstance(begun, int) and not cancels else 0

    async def _change(self, partition: int, target: int, cancels: bool, hall: Hall) -> int:
        mover = self.halls.groups[MAIN].mover
        assert mover is not None
        if cancels:
            return await mover.cancel(TOPIC, [partition])
        return await mover.begin(TOPIC, {partition: target})

    async def break_groups(self, seconds: float) -> None:
        """Kill a group or cut its power, about once in three seconds."""
        chance = self._simulation.stream("faults")
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + seconds
        self.halls.losses = LOSSES
        while loop.time() < ends_s:
            await asyncio.sleep(chance.expovariate(1 / CALM_S))
            group = self.halls.groups[chance.randrange(len(self.halls.groups))]
            self._simulation.trace.note("fault", f"group {group.number}")
            self.faults += 1
            group.end(power=chance.random() < 0.6)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            await group.start()
        self.halls.losses = 0.0
        self.closing = True

    async def account(self) -> None:
        """Wait for the end of all moves, then read everything from the owners."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + ENDED_S
        while (problem := self._unfinished()) is not None:
            if loop.time() > ends_s:
                raise Violation(f"after {ENDED_S} s without faults {problem}")
            await asyncio.sleep(0.2)
        for partition, oracle in enumerate(self.oracles):
            rows: list[tuple[int, str]] = []
            while True:
                owner = self._owners()[partition]
                found = await self._inside(owner, partial(_read, partition, len(rows)))
                demand(isinstance(found, tuple), f"{oracle.name} cannot be read from group {owner}: {found}")
                if not found[0]:
                    break
                rows += found[0]
            oracle.account(rows)

    def _unfinished(self) -> str | None:
        main = self.halls.groups[MAIN]
        topic = main.hall.topic(TOPIC) if main.hall is not None else None
        if topic is None or main.mover is None:
            return "the hall is down"
        if topic.options.moves.moves:
            return f"partitions still move: {main.mover.progress()}"
        owners = self._owners()
        for number, group in self.halls.groups.items():
            for partition in group.hall.routes.get(TOPIC, ()) if group.hall is not None else ():
                owned = owners[partition.number] == number
                if owned == partition.elsewhere:
                    raise Violation(f"the owners are {owners}; group {number} differs for {partition.number}")
                if not owned and partition.log.segments:
                    raise Violation(f"the owners are {owners}; group {number} has messages of {partition.number}")
        return None

    def switches(self) -> int:
        """How often a partition got another owner."""
        hall = self.halls.groups[MAIN].hall
        topic = hall.topic(TOPIC) if hall is not None else None
        return sum(topic.options.moves.counts.values()) if topic is not None else 0

    def _owners(self) -> list[int]:
        hall = self.halls.groups[MAIN].hall
        topic = hall.topic(TOPIC) if hall is not None else None
        return owners_of(topic.options.wings, PARTITIONS) if topic is not None else [MAIN] * PARTITIONS

    def _choose(self, partition: int) -> int:
        if self._chance.random() < STALE:
            return self._chance.randrange(WINGS + 1)
        return self._owners()[partition]

    async def _inside(self, number: int, errand: Any) -> Any:
        """Do something in the process of a group. The error code if it is refused, None without an answer."""
        group = self.halls.groups[number]
        process = group.host.process
        if group.hall is None or process is None or not process.alive:
            return None
        task = process.start(_guarded(errand(group.hall)))
        waited: list[asyncio.Future[Any]] = [task, process.ended]
        await asyncio.wait(waited, timeout=ASK_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled() or isinstance(task.exception(), PowerCut | OSError):
            return None
        return task.result()


async def _guarded(work: Coroutine[Any, Any, R]) -> R | Code:
    try:
        return await work
    except LonghallError as error:
        return error.code


async def _send(number: int, frame: bytes, hall: Hall) -> int | Code:
    partition = hall.partition(TOPIC, number)
    if partition is None:
        return Code.NOT_LEADER
    sent = send(hall, partition, frame, 0, len(frame))
    if sent.code is not None:
        return sent.code
    await committed(hall, partition.shard)
    return sent.base_offset


async def _read(number: int, offset: int, hall: Hall) -> tuple[list[tuple[int, str]], int] | Code:
    partition = hall.partition(TOPIC, number)
    if partition is None:
        return Code.NOT_LEADER
    refused = check_epoch(partition, -1)
    if refused is not None:
        return refused
    end = partition.high_watermark
    read = await read_log(hall, partition, offset, READ_BYTES, end)
    if read.code is not None:
        return read.code
    rows: list[tuple[int, str]] = []
    data, at = b"".join(read.buffers), 0
    while at < len(data):
        header = parse_header(data, at)
        for record in read_records(data, at):
            assert record.value is not None
            rows.append((header.base_offset, record.value.split(b" ")[0].decode()))  # One message a batch.
        at += header.size_bytes
    return [row for row in rows if row[0] >= offset], end


async def moves(simulation: Simulation, starter: Starter) -> RunResult:
    run = MoveRun(simulation)
    await run.make()
    clients = [run.write(partition, number) for partition in range(PARTITIONS) for number in range(WRITERS)]
    clients += [run.read(partition) for partition in range(PARTITIONS)]
    tasks = [asyncio.ensure_future(client) for client in [*clients, run.move()]]
    breaking = asyncio.ensure_future(run.break_groups(FAULTS_S * simulation.share))
    await asyncio.wait([breaking, *tasks], return_when=asyncio.FIRST_EXCEPTION)
    for task in [breaking, *tasks]:
        if task.done():
            task.result()
    await asyncio.gather(breaking, *tasks)
    await run.account()
    demand(run.switches() > 0, "no partition has moved")
    sends = sum(oracle.sends for oracle in run.oracles)
    return RunResult(
        asyncio.get_running_loop().time(),
        sends,
        sum(len(oracle.acknowledged) for oracle in run.oracles),
        sum(group.host.boots for group in run.halls.groups.values()),
        run.faults,
        simulation.trace.digest(),
        run.reads,
        run.moves,
        run.switches(),
    )
