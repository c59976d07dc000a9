"""Orphaned stages of killed writes are removed when their write is over, and not before."""

from __future__ import annotations

import time

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.sink_options import SINK_PREFIX, STAGE_PREFIX
from longhall.pipeline.stage import RETENTION_MS
from longhall.pipeline.stage_cleanup import COMMITS_A_CLEANUP, is_cleanup_due, remove_orphans, run_name
from longhall.records.batch import Record
from tests.pipeline.conftest import FreshName, MakeTopic, Produce

NOW_MS = time.time_ns() // 1_000_000
LONG_AGO_MS = NOW_MS - RETENTION_MS - 1


def left(blocking_client: BlockingClient, names: list[str]) -> list[str]:
    """Of these names, those that still have a stage after a cleanup."""

    async def look(hall: Hall) -> set[str]:
        await remove_orphans(hall, NOW_MS)
        return {topic.name or "" for topic in await hall.topics.list()}

    there = blocking_client.ask(look)
    return [name for name in names if STAGE_PREFIX + name in there]


def test_the_stage_of_an_old_killed_write_is_removed(
    blocking_client: BlockingClient, make_topic: MakeTopic, produce: Produce
) -> None:
    dead, young, full = run_name(LONG_AGO_MS), run_name(NOW_MS - RETENTION_MS // 2), run_name(LONG_AGO_MS)
    for name in (dead, young, full):
        make_topic(4, name=STAGE_PREFIX + name)
    produce(STAGE_PREFIX + full, 3, [Record(-1, NOW_MS, b"", b"somebody is writing")])
    assert left(blocking_client, [dead, young, full]) == [young, full]


def test_the_stage_of_a_stream_without_recent_commits_is_removed(
    blocking_client: BlockingClient, make_topic: MakeTopic, produce: Produce, fresh_name: FreshName
) -> None:
    dead, alive, unknown = (fresh_name("query") for _ in range(3))
    for name in (dead, alive, unknown):
        make_topic(4, name=STAGE_PREFIX + name)
    for name, at_ms in ((dead, LONG_AGO_MS), (alive, NOW_MS)):
        make_topic(1, name=SINK_PREFIX + name)
        produce(SINK_PREFIX + name, 0, [Record(-1, at_ms, b"commit", b"{}")])
    assert left(blocking_client, [dead, alive, unknown]) == [alive, unknown]


def test_when_a_cleanup_is_due() -> None:
    looks = [batch for batch in range(2 * COMMITS_A_CLEANUP + 1) if is_cleanup_due(batch)]
    assert looks == [0, COMMITS_A_CLEANUP, 2 * COMMITS_A_CLEANUP]
    assert is_cleanup_due(None)
