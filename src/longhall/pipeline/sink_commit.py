"""The commit of one Spark batch: everything that its tasks have staged becomes visible together, exactly once.

    take the id      the sink's transactional id: an earlier driver of this sink is fenced, and the hall ends its
                     open transaction
    look             the last commit marker of this sink; if it is this batch or a later one of this query, there is
                     nothing to do
    copy             the staged batches go to their topics, within one transaction
    note             the marker (query, batch) goes to the sink's own topic, within the same transaction
    commit           the hall decides once, and carries the decision out also after a crash
    clear            the stage is emptied, and earlier markers are deleted

Before `commit` a reader of committed messages sees nothing of the batch, and afterwards all of it; the marker exists if
and only if the messages do. A repeated batch, with the same rows or with others, finds either neither and writes all,
or both and writes nothing. The reasons are in docs/decisions/0009.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from longhall.client.hall import Hall
from longhall.client.reader import Reader
from longhall.client.records import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from longhall.client.refusals import Refused
from longhall.client.transactions import Identity
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.errors import LonghallError
from longhall.pipeline.delivery import PATIENCE_MS, Delivery
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_options import SINK_PREFIX
from longhall.pipeline.stage import Staged, clear, ensure_topic, read_staged, remove
from longhall.records.batch import Record, build_batch

TIMEOUT_MIN_MS: Final = 60_000
TIMEOUT_MAX_MS: Final = 15 * 60_000  # The default maximum of a hall.
BYTES_A_MS: Final = 5_000  # The lowest rate of copying that is assumed.
_NOTE_CONFIGS: Final = {"retention.ms": "-1", "retention.bytes": "-1"}

Step = Callable[[str], None]


class Batch(NamedTuple):
    """The batch to commit: its number, its query and its sink."""

    sink: str
    query: str
    number: int | None  # None: the write has no number and is not checked for an earlier commit.
    keeps_stage: bool = True  # Whether another batch will use the same stage.


class CommitMarker(NamedTuple):
    """The last commit of a sink."""

    query: str
    batch: int
    offset: int


def no_step(name: str) -> None:
    """The default for `step`: does nothing."""


async def commit_batch(hall: Hall, batch: Batch, staged: Sequence[Staged], now_ms: int, step: Step = no_step) -> bool:
    """Commit a batch; False if it is committed already. `step` is called after each step, for tests.

    Raises PipelineError, Refused and Unreachable; then the batch may be committed or not, and must be run again.
    """
    transactional_id = SINK_PREFIX + batch.sink
    identity = await _take(hall, transactional_id, sum(each.size_bytes for each in staged))
    step("taken")
    if batch.number is not None:
        await ensure_topic(hall, transactional_id, 1, _NOTE_CONFIGS)
        note = await last_commit_marker(hall, batch.sink)
        if note is not None and note.query == batch.query and note.batch >= batch.number:
            await _clear(hall, batch, staged, note.offset)
            return False
    step("looked")
    await _write(hall, transactional_id, identity, batch, staged, now_ms, step)
    step("committed")
    note = await last_commit_marker(hall, batch.sink) if batch.number is not None else None
    await _clear(hall, batch, staged, note.offset if note is not None else 0)
    step("cleared")
    return True


async def last_commit_marker(hall: Hall, sink: str) -> CommitMarker | None:
    """The last commit of a sink. Its transactional id must be taken, so that no transaction of it is open."""
    topic = SINK_PREFIX + sink
    first, stable, end = [
        await _offset(hall, topic, which, level)
        for which, level in ((EARLIEST, READ_UNCOMMITTED), (LATEST, READ_COMMITTED), (LATEST, READ_UNCOMMITTED))
    ]
    if stable != end:
        raise PipelineError(f"another driver is writing for the sink {sink}; is the query running twice?")
    found: CommitMarker | None = None
    reader = Reader(hall, {(topic, 0): first}, max_wait_ms=0)
    try:
        while reader.positions[topic, 0] < end:
            for consumed in await reader.poll():
                document = json.loads(consumed.record.value or b"{}")
                found = CommitMarker(document["query"], document["batch"], consumed.record.offset)
    finally:
        reader.close()
    return found


async def _offset(hall: Hall, topic: str, which: int, isolation_level: int) -> int:
    found = await hall.persist(
        lambda: hall.records.list_offsets(topic, {0: which}, isolation_level=isolation_level), patience_ms=PATIENCE_MS
    )
    return found[0].offset


async def _take(hall: Hall, transactional_id: str, size_bytes: int) -> Identity:
    """Take the sink's transactional id, with a timeout that is long enough to copy so many bytes."""
    timeout_ms = min(max(TIMEOUT_MIN_MS, size_bytes // BYTES_A_MS), TIMEOUT_MAX_MS)
    try:
        return await hall.transactions.identify(transactional_id, timeout_ms)
    except Refused as refusal:
        if refusal.error_code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
    return await hall.transactions.identify(transactional_id, TIMEOUT_MIN_MS)


async def _write(
    hall: Hall,
    transactional_id: str,
    identity: Identity,
    batch: Batch,
    staged: Sequence[Staged],
    now_ms: int,
    step: Step,
) -> None:
    """Copy, write the marker and commit. A failure aborts the transaction, so that readers need not wait for its
    timeout.
    """
    delivery = Delivery(hall, identity, transactional_id)
    try:
        async for parcel in read_staged(hall, staged):
            await delivery.send(parcel.place, parcel.batch)
            step("sent")
        await delivery.flush()
        step("copied")
        if batch.number is not None:
            note = json.dumps({"query": batch.query, "batch": batch.number}, sort_keys=True).encode()
            await delivery.send((transactional_id, 0), build_batch([Record(-1, now_ms, b"commit", note)]))
            await delivery.flush()
            step("noted")
        await hall.transactions.end(transactional_id, identity, commit=True, rising=False)
    except (LonghallError, PipelineError):
        await delivery.give_up()
        with suppress(LonghallError):
            await hall.transactions.end(transactional_id, identity, commit=False, rising=False)
        raise


async def _clear(hall: Hall, batch: Batch, staged: Sequence[Staged], before: int) -> None:
    """Delete what is not needed any more. What a crash leaves is deleted by the next commit or by retention."""
    for topic in {each.topic for each in staged}:
        await (clear if batch.keeps_stage else remove)(hall, topic)
    if before > 0:
        with suppress(LonghallError):
            await hall.topics.delete_records(SINK_PREFIX + batch.sink, {0: before})
