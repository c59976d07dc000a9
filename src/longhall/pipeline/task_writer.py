"""The write of one task: rows are packed into record batches, and each batch is sent while the next one is packed.

Rows come as Arrow batches. Record batches go to an outlet: a stage, or the topics themselves. A task without rows does
not connect.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from longhall.client.groups import Place
from longhall.client.hall import Hall
from longhall.errors import LonghallError
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.delivery import PATIENCE_MS, Delivery
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_columns import Layout, rows_of
from longhall.pipeline.stage import Stage, Staged
from longhall.records.packer import Packer, Rows


class Outlet(Protocol):
    """The destination of record batches."""

    async def put(self, place: Place, batch: bytes, rows: int, now_ms: int) -> None: ...

    async def close(self) -> Staged | None: ...


class _Direct:
    """An outlet that writes to the topics themselves."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def put(self, place: Place, batch: bytes, rows: int, now_ms: int) -> None:
        await self._delivery.send(place, batch)

    async def close(self) -> Staged | None:
        await self._delivery.flush()
        return None


async def stage_outlet(hall: Hall, topic: str, task: int) -> Outlet:
    return await Stage.open(hall, topic, task)


async def direct_outlet(hall: Hall) -> Outlet:
    return _Direct(Delivery(hall, await hall.transactions.identify(None)))


def write_rows(
    client: BlockingClient,
    outlet: Callable[[Hall], Awaitable[Outlet]],
    layout: Layout,
    compression: int,
    task: int,
    batches: Iterator[Any],
) -> tuple[int, Staged | None]:
    """Write all rows of a task; returns their number and the result of the outlet. Raises PipelineError."""
    packer = Packer(task)
    there: Outlet | None = None
    count = 0
    for batch in batches:
        now_ms = time.time_ns() // 1_000_000
        rows = rows_of(batch, layout, now_ms)
        if not rows.count:
            continue
        count += rows.count
        if there is None:
            there = client.ask(outlet)
        _learn(client, packer, rows)
        at = 0
        while at < rows.count:
            at = _pack(packer, rows, at, now_ms)
            _hand_over(client, there, packer, compression, now_ms, everything=False)
    if there is None:
        return 0, None
    _hand_over(client, there, packer, compression, time.time_ns() // 1_000_000, everything=True)
    last = there
    return count, client.ask(lambda hall: last.close())


def _pack(packer: Packer, rows: Rows, at: int, now_ms: int) -> int:
    try:
        return packer.pack(rows, at, now_ms)
    except LonghallError as failure:
        raise PipelineError(str(failure)) from failure


def _learn(client: BlockingClient, packer: Packer, rows: Rows) -> None:
    """Look up the number of partitions of each topic; a missing topic is created if the hall creates topics
    automatically.
    """
    for topic in rows.topics:
        if packer.knows(topic):
            continue

        async def count(hall: Hall, topic: str = topic) -> int:
            found = await hall.persist(lambda: hall.topic(topic, create=True), patience_ms=PATIENCE_MS)
            return len(found.partitions)

        packer.learn(topic, client.ask(count))


def _hand_over(
    client: BlockingClient, outlet: Outlet, packer: Packer, compression: int, now_ms: int, *, everything: bool
) -> None:
    for pack in packer.take(everything):
        place, batch, rows = (pack.topic, pack.partition), pack.batch(compression), int(pack.rows)

        async def put(hall: Hall, place: Place = place, batch: bytes = batch, rows: int = rows) -> None:
            await outlet.put(place, batch, rows, now_ms)

        client.ask(put)
