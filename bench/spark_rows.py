"""Topics of incompressible messages: the same work for every reader."""

from __future__ import annotations

import os
from typing import Final

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.records.batch import Record, build_batch

BATCH_BYTES: Final = 256 * 1024
TIME_MS: Final = 1_700_000_000_000


def fill(address: str, topic: str, partitions: int, size_bytes: int, count: int) -> None:
    """Send so many messages with short keys, spread over the partitions."""
    rows = max(1, BATCH_BYTES // size_bytes)

    async def write(hall: Hall) -> None:
        await hall.topics.create(topic, partitions=partitions, configs={"retention.ms": "-1"})
        for partition in range(partitions):
            share = count // partitions + (partition < count % partitions)
            for first in range(0, share, rows):
                noise = os.urandom(min(rows, share - first) * size_bytes)
                batch = build_batch(
                    [
                        Record(-1, TIME_MS + first, b"key-%d" % (first + at), noise[at * size_bytes :][:size_bytes])
                        for at in range(len(noise) // size_bytes)
                    ]
                )
                await hall.records.produce(topic, partition, batch)

    with BlockingClient(address) as conversation:
        conversation.ask(write)
