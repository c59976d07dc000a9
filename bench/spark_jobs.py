"""Archive and replay of the topics that the reading bench has filled: MB a second, and what they cost the broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.kafka import say
from bench.measure import process
from longhall.client.hall import Hall
from longhall.pipeline.archive import job as archiving
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.replay import job as replaying

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from bench.peers.longhall import Longhall

Figures = dict[str, float]


def measure(
    spark: SparkSession, node: Longhall, scratch: Path, topics: dict[str, tuple[str, int, int]], rounds: int
) -> dict[str, list[Figures]]:
    """Rates by job and message size; topics are names with the bytes of a value and their number."""
    lines: dict[str, list[Figures]] = {}
    for number in range(rounds):
        for size, (topic, value_bytes, messages) in topics.items():
            place = str(scratch / f"archive-{number}")
            target = f"{topic}-again-{number}"
            _make(node.address, target)
            archive = archiving.Options(bootstrap=node.address, topics=(topic,), to=place)
            replay = replaying.Options(bootstrap=node.address, topics=(topic,), to=target, archive=place)
            for name, work in (
                ("archive", lambda archive=archive: archiving.archive(spark, archive, _hush, _hide).messages),
                ("replay", lambda replay=replay: replaying.replay(spark, replay, _hush, _hide).messages),
            ):
                figures = _timed(node, work, value_bytes, messages)
                say(f"{name}, {size}: {figures['megabytes_per_second']:,.0f} MB/s")
                lines.setdefault(f"{name}, {size}", []).append(figures)
            _delete(node.address, target)
    return lines


def _timed(node: Longhall, work: Callable[[], int], value_bytes: int, messages: int) -> Figures:
    before, began = process.usage(node.pid), time.monotonic()
    done = work()
    seconds = time.monotonic() - began
    assert done == messages, f"{done} messages instead of {messages}"
    broker_seconds, _ = process.usage(node.pid).since(before)
    return {
        "rows_per_second": messages / seconds,
        "megabytes_per_second": messages * value_bytes / seconds / 1e6,
        "seconds": seconds,
        "broker_cpu_seconds": broker_seconds,
    }


def _make(bootstrap: str, topic: str) -> None:
    async def make(hall: Hall) -> None:
        await hall.topics.create(topic, partitions=2, configs={"retention.ms": "-1"})

    with BlockingClient(bootstrap) as conversation:
        conversation.ask(make)


def _delete(bootstrap: str, topic: str) -> None:
    async def delete(hall: Hall) -> None:
        await hall.topics.delete(topic)

    with BlockingClient(bootstrap) as conversation:
        conversation.ask(delete)


def _hush(words: str) -> None:
    """Discard the job's progress lines."""


def _hide(done: int, total: int) -> None:
    """Discard the job's progress bar."""
