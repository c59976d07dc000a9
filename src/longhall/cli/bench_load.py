"""The load of `longhall bench`: produce throughput, latency of single messages, consume throughput.

Batches are built once and sent repeatedly, so that the node is measured and not the building of batches in Python. It
is a quick check; comparisons are made with the benchmarks of the repository.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, READ_UNCOMMITTED, Fetched
from longhall.meters import Histogram, quantile
from longhall.records.batch import HEADER_BYTES, Record, build_batch, parse_header

_BOUNDS = tuple(0.00002 * 1.1**step for step in range(170))  # From 20 microseconds to three minutes, 10 % a step.


class Load(NamedTuple):
    """The parameters of a load."""

    topic: str
    partitions: int
    message_bytes: int
    batch_bytes: int
    in_flight: int
    seconds: float
    compression: int
    acks: int


@dataclass(slots=True)
class Phase:
    """The counts of one phase so far."""

    name: str
    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    latency: Histogram = field(default_factory=lambda: Histogram(_BOUNDS))

    def row(self) -> dict[str, object]:
        """The phase as a row of the table."""
        seconds = self.seconds or 1e-9
        milliseconds = [1000 * quantile(_BOUNDS, self.latency.counts, share) for share in (0.5, 0.99, 0.999)]
        return {
            "phase": self.name,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.messages / seconds),
            "megabytes_per_second": round(self.bytes / seconds / 1e6, 2),
            "p50_ms": round(milliseconds[0], 3),
            "p99_ms": round(milliseconds[1], 3),
            "p999_ms": round(milliseconds[2], 3),
        }


Show = Callable[[list[Phase]], None]


async def run_load(hall: Hall, load: Load, show: Show) -> list[Phase]:
    """Run all phases in a new topic, which is deleted afterwards."""
    phases: list[Phase] = []
    await hall.topics.create(load.topic, partitions=load.partitions)
    try:
        for name, work in (("produce", _produce), ("one at a time", _one_at_a_time), ("consume", _consume)):
            phase = Phase(name)
            phases.append(phase)
            ticker = asyncio.create_task(_tick(phases, show))
            try:
                await work(hall, load, phase)
            finally:
                ticker.cancel()
        return phases
    finally:
        await hall.topics.delete(load.topic)


async def _tick(phases: list[Phase], show: Show) -> None:
    while True:
        show(phases)
        await asyncio.sleep(0.25)


async def _produce(hall: Hall, load: Load, phase: Phase) -> None:
    count = max(1, load.batch_bytes // (load.message_bytes + 16))
    batch = _batch(load, count)
    until = time.perf_counter() + load.seconds
    started = time.perf_counter()

    async def worker(number: int) -> None:
        partition = number % load.partitions
        while time.perf_counter() < until:
            sent = time.perf_counter()
            await hall.persist(functools.partial(_send, hall, load, partition, batch))
            now = time.perf_counter()
            phase.latency.observe(now - sent)
            phase.messages += count
            phase.bytes += count * load.message_bytes
            phase.seconds = now - started

    await asyncio.gather(*(worker(number) for number in range(load.in_flight)))


async def _send(hall: Hall, load: Load, partition: int, batch: bytes) -> None:
    await hall.records.produce(load.topic, partition, batch, acks=load.acks, create=False)


async def _one_at_a_time(hall: Hall, load: Load, phase: Phase) -> None:
    await _produce(hall, load._replace(in_flight=1, batch_bytes=1), phase)


async def _consume(hall: Hall, load: Load, phase: Phase) -> None:
    started = time.perf_counter()
    until = started + load.seconds

    async def worker(partition: int) -> None:
        at = (await hall.records.list_offsets(load.topic, {partition: EARLIEST}))[partition].offset
        while time.perf_counter() < until:
            asked = time.perf_counter()
            fetched = await hall.records.fetch(
                load.topic, partition, at, max_bytes=4 << 20, max_wait_ms=100, isolation_level=READ_UNCOMMITTED
            )
            messages, at = _count(fetched, at)
            now = time.perf_counter()
            phase.latency.observe(now - asked)
            phase.messages += messages
            phase.bytes += messages * load.message_bytes
            phase.seconds = now - started
            if at >= fetched.high_watermark:
                return

    await asyncio.gather(*(worker(partition) for partition in range(load.partitions)))


def _count(fetched: Fetched, offset: int) -> tuple[int, int]:
    """The messages in whole batches and the offset behind them; the batches are not decoded."""
    buffer, at, messages = fetched.records, 0, 0
    while len(buffer) - at >= HEADER_BYTES:
        header = parse_header(buffer, at)
        if header.size_bytes > len(buffer) - at:
            break
        messages += header.record_count
        offset = header.next_offset
        at += header.size_bytes
    return messages, offset


def _batch(load: Load, count: int) -> bytes:
    now_ms = int(time.time() * 1000)
    value = bytes(48 + at * 7 % 75 for at in range(load.message_bytes))
    return build_batch([Record(-1, now_ms, None, value) for _ in range(count)], compression=load.compression)
