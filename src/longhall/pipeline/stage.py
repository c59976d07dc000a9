"""The stage of a Spark write: batches that tasks have written and the driver has not committed.

A stage is a topic of its own. Each of its messages holds one batch:

    key    the topic and the partition that the batch is for, as JSON
    value  the whole batch, without a producer

Every attempt of a task is a producer of its own, so the producer id tells its messages from those of other attempts,
and no batch is stored twice. The attempt reports the number of its batches and their offsets (`Staged`). The driver
counts what it reads and refuses to go on with fewer. Batches of attempts that did not report are skipped and cleared.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, final

from longhall.client.groups import Place
from longhall.client.hall import Hall
from longhall.client.records import LATEST, READ_UNCOMMITTED, Fetched
from longhall.client.refusals import Refused
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.errors import LonghallError
from longhall.pipeline.delivery import PATIENCE_MS, Delivery
from longhall.pipeline.refusals import PipelineError
from longhall.records.batch import Record, build_batch, read_records, scan_headers

PARTITIONS: Final = 4
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
FETCH_BYTES: Final = 4 * 1024 * 1024
_CONFIGS: Final = {
    # An uncommitted stage is deleted by retention; a job may take days from its first task to its last.
    "retention.ms": str(RETENTION_MS),
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
}


class Staged(NamedTuple):
    """What one attempt of a task has staged: where, by which producer, and how much."""

    topic: str
    partition: int
    producer_id: int
    first_offset: int
    end_offset: int
    batches: int
    rows: int
    size_bytes: int


class StagedBatch(NamedTuple):
    """A staged batch and the partition that it is for."""

    place: Place
    batch: bytes


@final
class Stage:
    """The writer of one attempt into a stage. Made by `Stage.open`."""

    def __init__(self, hall: Hall, place: Place, producer_id: int, first_offset: int, delivery: Delivery) -> None:
        self._hall = hall
        self._place = place
        self._producer_id = producer_id
        self._first_offset = first_offset
        self._delivery = delivery
        self._batches = 0
        self._rows = 0
        self._size_bytes = 0

    @classmethod
    async def open(cls, hall: Hall, topic: str, task: int) -> Stage:
        await ensure_topic(hall, topic, PARTITIONS, _CONFIGS)
        partition = task % PARTITIONS
        first = await _latest(hall, topic, partition)
        identity = await hall.transactions.identify(None)
        return cls(hall, (topic, partition), identity.producer_id, first, Delivery(hall, identity))

    async def put(self, place: Place, batch: bytes, rows: int, now_ms: int) -> None:
        key = json.dumps(place, separators=(",", ":")).encode()
        await self._delivery.send(self._place, build_batch([Record(-1, now_ms, key, batch)]))
        self._batches += 1
        self._rows += rows
        self._size_bytes += len(batch)

    async def close(self) -> Staged:
        """Wait until every batch is durable."""
        await self._delivery.flush()
        topic, partition = self._place
        end = await _latest(self._hall, topic, partition)
        return Staged(
            topic, partition, self._producer_id, self._first_offset, end, self._batches, self._rows, self._size_bytes
        )


async def ensure_topic(hall: Hall, topic: str, partitions: int, configs: dict[str, str]) -> None:
    """Create a topic unless it exists."""
    try:
        await hall.persist(lambda: hall.topic(topic), patience_ms=PATIENCE_MS)
        return
    except Refused as refusal:
        if refusal.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    try:
        await hall.topics.create(topic, partitions=partitions, configs=configs)
    except Refused as refusal:
        if refusal.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_staged(hall: Hall, staged: Sequence[Staged]) -> AsyncIterator[StagedBatch]:
    """Read every batch of these attempts, those of one attempt in order. Raises PipelineError if some are missing.

    A partition of the stage is read once, however many attempts have written to it.
    """
    by_partition: dict[Place, list[Staged]] = {}
    for each in staged:
        if each.batches:
            by_partition.setdefault((each.topic, each.partition), []).append(each)
    for (topic, partition), attempts in by_partition.items():
        missing = {each.producer_id: each.batches for each in attempts}
        offset = min(each.first_offset for each in attempts)
        end = max(each.end_offset for each in attempts)
        while any(missing.values()) and offset < end:
            fetched = await _fetch(hall, topic, partition, offset)
            headers = scan_headers(fetched.records, 0, len(fetched.records))
            at = 0
            for header in headers:
                if missing.get(header.producer_id, 0) and header.base_offset >= offset:
                    missing[header.producer_id] -= header.record_count
                    for record in read_records(fetched.records, at):
                        yield _opened(record)
                at += header.size_bytes
            if not headers:
                break
            offset = headers[-1].next_offset
        if any(missing.values()):
            raise PipelineError(
                f"what tasks had staged in {topic}-{partition} is not there any more; the batch must be run again"
            )


async def clear(hall: Hall, topic: str) -> None:
    """Delete everything in a stage. What is left after a failure is deleted after the next commit."""
    try:
        await hall.topics.delete_records(topic, dict.fromkeys(range(PARTITIONS), -1))
    except LonghallError:
        return


async def remove(hall: Hall, topic: str) -> None:
    """Delete the topic of a stage."""
    try:
        await hall.topics.delete(topic)
    except LonghallError:
        return


async def _fetch(hall: Hall, topic: str, partition: int, offset: int) -> Fetched:
    try:
        return await hall.persist(
            lambda: hall.records.fetch(
                topic, partition, offset, max_bytes=FETCH_BYTES, isolation_level=READ_UNCOMMITTED
            ),
            patience_ms=PATIENCE_MS,
        )
    except Refused as refusal:
        raise PipelineError(
            f"what tasks had staged in {topic}-{partition} cannot be read ({refusal.name}); the batch must be run again"
        ) from refusal


async def _latest(hall: Hall, topic: str, partition: int) -> int:
    found = await hall.persist(lambda: hall.records.list_offsets(topic, {partition: LATEST}), patience_ms=PATIENCE_MS)
    return found[partition].offset


def _opened(record: Record) -> StagedBatch:
    assert record.key is not None, "a staged message has a key"
    assert record.value is not None, "a staged message has a value"
    topic, partition = json.loads(record.key)
    return StagedBatch((topic, partition), record.value)
