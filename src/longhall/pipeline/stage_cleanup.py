"""Removal of orphaned stages: stages of writes whose driver was killed and did not return.

A stage is removed if it is empty, which it is after a week by retention, and if its write is over: the stage of a batch
write without a name has the start time in its name, and a named sink has the time of its last commit in its markers. A
stage without either stays. If a driver returns all the same, the stage is created again, and at worst one batch has to
be repeated.

The driver cleans up after some of its commits. A failure here does not fail the commit.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, LATEST, MAX_TIMESTAMP
from longhall.errors import LonghallError
from longhall.pipeline.sink_options import SINK_PREFIX, STAGE_PREFIX
from longhall.pipeline.stage import RETENTION_MS, remove

STAGES_MAX: Final = 100  # Stages, in one look.
COMMITS_A_CLEANUP: Final = 100

_RUN: Final = re.compile(r"run-(\d{13})-[0-9a-f]{32}")


def run_name(now_ms: int) -> str:
    """The name of a write that has no name of its own."""
    return f"run-{now_ms:013}-{uuid.uuid4().hex}"


def is_cleanup_due(batch: int | None) -> bool:
    """True for a single batch write, and for some of the batches of a stream."""
    return batch is None or batch % COMMITS_A_CLEANUP == 0


async def remove_orphans(hall: Hall, now_ms: int) -> int:
    """Remove the orphaned stages; returns how many."""
    removed = 0
    try:
        topics = await hall.topics.list()
        stages = {
            topic.name: len(topic.partitions)
            for topic in topics
            if topic.name is not None and topic.name.startswith(STAGE_PREFIX)
        }
        there = {topic.name for topic in topics}
        for stage in sorted(stages)[:STAGES_MAX]:
            name = stage.removeprefix(STAGE_PREFIX)
            last_ms = await _last_sign_ms(hall, name, there)
            if last_ms is None or now_ms - last_ms < RETENTION_MS:
                continue
            if await _is_empty(hall, stage, stages[stage]):
                await remove(hall, stage)
                removed += 1
    except LonghallError:
        return removed
    return removed


async def _last_sign_ms(hall: Hall, name: str, there: set[str | None]) -> int | None:
    """The time of the last use of a stage, or a little before; None if it is unknown."""
    run = _RUN.fullmatch(name)
    if run is not None:
        return int(run.group(1))
    notes = SINK_PREFIX + name
    if notes not in there:
        return None
    newest = (await hall.records.list_offsets(notes, {0: MAX_TIMESTAMP}))[0]
    return newest.timestamp_ms if newest.timestamp_ms > 0 else None


async def _is_empty(hall: Hall, stage: str, partitions: int) -> bool:
    parts = range(partitions)
    first = await hall.records.list_offsets(stage, dict.fromkeys(parts, EARLIEST))
    end = await hall.records.list_offsets(stage, dict.fromkeys(parts, LATEST))
    return all(first[part].offset >= end[part].offset for part in parts)
