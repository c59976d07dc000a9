"""A hall without doors on a simulated host, to be started, used, killed and restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.partition import Partition
from longhall.broker.produced import Sent
from longhall.broker.recovery import Recovered, identify, recover
from longhall.broker.send import send, wait
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.broker.waiting import Commit
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.segment_reads import Supplied
from longhall.records.batch import BatchHeader, Record, build_batch, parse_header
from simulation.loop import PowerCut
from simulation.world import SimulatedWorld, Simulation

OPTIONS = HallOptions(
    shards=2,
    wal_file_bytes=16 * 1024 * 1024,
    segment_bytes=150_000,
    open_files_max=8,
    disk_reserve_bytes=0,
    tail_bytes_max=1 << 20,
    behind_tails_min=1,  # So that some are written beside the loop and some are not.
    behind_bytes_min=200,
)

Play = Callable[["Life"], Awaitable[None]]


class Life:
    """One start of the hall."""

    def __init__(self, world: SimulatedWorld, options: HallOptions = OPTIONS) -> None:
        identity = identify(world.disk, world.entropy, options)
        self.world = world
        self.hall = Hall(world, msgspec.structs.replace(options, shards=identity.shards))
        self.coordinator = GroupCoordinator(self.hall)
        self.transactor = TransactionCoordinator(self.hall, self.coordinator)
        self.failures: list[OSError] = []
        self.hall.commits.on_failure = self.failures.append
        self.report: Recovered = recover(self.hall)

    def partition(self, topic: str, number: int = 0) -> Partition:
        found = self.hall.partition(topic, number)
        assert found is not None, f"{topic}-{number} is not there"
        return found

    async def send(self, partition: Partition, batch: bytes, transactional_id: str | None = None) -> Sent:
        """Send and wait until it is committed."""
        sent = send(self.hall, partition, batch, 0, len(batch), transactional_id)
        if sent.code is None:
            commit = Commit()
            wait(self.hall, partition, commit, 0)
            await commit.future
        return sent

    async def sync(self) -> None:
        await self.hall.commits.durable()


class Desk:
    """The host, and how coroutines run on it."""

    def __init__(self, seed: int = 1, options: HallOptions = OPTIONS) -> None:
        self.simulation = Simulation(seed)
        self.host = self.simulation.host("node")
        self.host.faults.cold_read_chance = 0.0
        self.options = options

    def live(self, play: Callable[[Life], Coroutine[Any, Any, Any]], *, end: str = "kill") -> Any:
        """Start the hall, let `play` run until it ends or the power is cut, and end it as told. Its result, or None."""
        self.host.kill()
        world = self.host.boot(BACKGROUND_JOBS)

        async def inside() -> Any:
            life = Life(world, self.options)
            await life.hall.commits.durable()
            return await play(life)

        async def outside() -> Any:
            task = world.process.start(inside())
            await asyncio.wait({task, world.process.ended}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() and not isinstance(task.exception(), PowerCut) else None

        result = self.simulation.run(outside())
        if end == "kill":
            self.host.kill()
        elif end == "cut":
            self.host.cut_power()
        assert self.simulation.loop.failures == []
        return result


def batch_of(
    value: bytes,
    *,
    key: bytes | None = b"k",
    records: int = 1,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamp_ms: int = 1_800_000_000_000,
) -> bytes:
    rows = [Record(-1, timestamp_ms, key, value) for _ in range(records)]
    return build_batch(
        rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def stored_batches(partition: Partition) -> list[tuple[BatchHeader, bytes]]:
    """Everything that readers may see of a partition, read as they read it."""
    found: list[tuple[BatchHeader, bytes]] = []
    log = partition.log
    offset = log.start_offset
    supplied: Supplied | None = None
    while offset < partition.high_watermark:
        result = log.read(offset, 300_000, partition.high_watermark, supplied)
        if result.cold is not None:
            cold = result.cold
            if cold.rebuild is not None:
                arguments: dict[str, object] = {"partition": log.partition, "base_offset": cold.rebuild.base_offset}
                BACKGROUND_JOBS["rebuild_index"](log._files.disk, arguments)
                supplied = None
            else:
                data = log._files.get(cold.path).read_at(cold.position, cold.size)
                supplied = Supplied(cold.path, cold.position, data, version=cold.version)
            continue
        assert result.code is None, (result.code, offset)
        data = b"".join(result.buffers)
        assert data, f"nothing at {offset} below {partition.high_watermark}"
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            found.append((header, data[at : at + header.size_bytes]))
            offset = header.next_offset
            at += header.size_bytes
        supplied = None
    return found


def picture(hall: Hall) -> dict[str, Any]:
    """All that must be the same after a restart that lost nothing."""
    return {
        "catalogue": hall.catalogue.snapshot(),
        "partitions": {
            number: [
                partition.log.start_offset,
                partition.log.next_offset,
                partition.high_watermark,
                partition.producers.snapshot() if partition.producers is not None else None,
                partition.log.epochs.snapshot(),
                [batch for _, batch in stored_batches(partition)],
            ]
            for number, partition in hall.partitions.items()
        },
        "groups": [groups.snapshot() for groups in hall.groups],
        "transactions": [transactions.snapshot() for transactions in hall.transactions],
    }
