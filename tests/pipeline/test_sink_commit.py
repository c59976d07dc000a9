"""The commit of the sink, with processes that die between any two of its steps. No Spark: these tests are its driver.

They play the part of Spark: tasks that write and report, a driver that commits, and after any failure the same batch
again from the beginning, with its rows in other tasks. They check what a reader of committed messages sees.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longhall.broker.topic_administration import create_topic
from longhall.client.hall import Hall
from longhall.client.reader import Reader
from longhall.client.records import EARLIEST, LATEST, READ_COMMITTED
from longhall.client.refusals import Refused
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_columns import Layout
from longhall.pipeline.sink_commit import Batch, commit_batch, last_commit_marker
from longhall.pipeline.sink_options import SINK_PREFIX, STAGE_PREFIX
from longhall.pipeline.stage import Staged
from longhall.pipeline.task_writer import direct_outlet, stage_outlet, write_rows
from soak.node import Node
from tests.doors.hall_and_wings import hall_and_wings
from tests.pipeline.conftest import FreshName, MakeTopic

LAYOUT = Layout(key=0, value=1, topic=-1, partition=-1, headers=-1, timestamp=-1, fixed_topic="")
NOW_MS = 1_700_000_000_000


class Died(BaseException):
    """What a killed process does: nothing any more."""


def tables(numbers: Sequence[int], size: int = 10) -> Iterator[Any]:
    for at in range(0, len(numbers), size):
        some = numbers[at : at + size]
        keys = pa.array([str(number).encode() for number in some])
        yield pa.record_batch([keys, pa.array([b"%d" % number for number in some])], names=["key", "value"])


def dying(batches: Iterator[Any], after: int) -> Iterator[Any]:
    yield from itertools.islice(batches, after)
    raise Died


class Query:
    """A query that writes, as Spark would run it."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.name = name
        self.chance = random.Random(name)

    def task(self, batches: Iterator[Any], number: int) -> Staged | None:
        layout = LAYOUT._replace(fixed_topic=self.topic)
        with BlockingClient(self.bootstrap) as blocking_client:
            _, staged = write_rows(
                blocking_client,
                lambda hall: stage_outlet(hall, STAGE_PREFIX + self.name, number),
                layout,
                0,
                number,
                batches,
            )
            return staged

    def tasks(self, rows: Sequence[int]) -> list[Staged]:
        """Every row to some task, otherwise each time; one more attempt of a task writes for nothing."""
        hands: list[list[int]] = [[], []]
        for row in rows:
            self.chance.choice(hands).append(row)
        with pytest.raises(Died):
            self.task(dying(tables(hands[0], 2), 3), 0)
        told = [self.task(tables(hand), number) for number, hand in enumerate(hands)]
        return [each for each in told if each is not None]

    def commit(self, batch: int, staged: Sequence[Staged], die_at: int = -1, between: Any = None) -> bool:
        counter = itertools.count()

        def step(name: str) -> None:
            if between is not None:
                between(name)
            if next(counter) == die_at:
                raise Died

        with BlockingClient(self.bootstrap, patience_ms=60_000) as blocking_client:
            return blocking_client.try_to(
                lambda hall: commit_batch(hall, Batch(self.name, f"query of {self.name}", batch), staged, NOW_MS, step)
            )

    def run(self, batch: int, rows: Sequence[int]) -> bool:
        return self.commit(batch, self.tasks(rows))

    def visible(self) -> Counter[int]:
        """The rows that a reader of committed messages gets, up to the end."""
        with BlockingClient(self.bootstrap) as blocking_client:
            return blocking_client.ask(self._visible)

    async def _visible(self, hall: Hall) -> Counter[int]:
        parts = [part.partition_index for part in (await hall.topics.describe(self.topic)).partitions]
        ends = await hall.records.list_offsets(self.topic, dict.fromkeys(parts, LATEST), isolation_level=READ_COMMITTED)
        reader = await Reader.open(hall, self.topic, EARLIEST, max_wait_ms=0)
        rows: Counter[int] = Counter()
        while any(reader.positions[self.topic, part] < ends[part].offset for part in parts):
            rows.update(int(each.record.value or b"-1") for each in await reader.poll())
        reader.close()
        return rows


@pytest.fixture
def query(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> Query:
    return Query(bootstrap, make_topic(3), fresh_name("sink"))


def once(*rows: Sequence[int]) -> Counter[int]:
    return Counter(itertools.chain(*rows))


def test_staged_rows_become_visible_with_the_commit(query: Query) -> None:
    staged = query.tasks(range(100))
    assert query.visible() == Counter()
    assert query.commit(0, staged)
    assert query.visible() == once(range(100))


def test_a_batch_is_committed_once_however_often_it_is_run(query: Query) -> None:
    assert query.run(0, range(50))
    assert not query.run(0, range(50))
    assert query.run(1, range(50, 80))
    assert not query.run(0, range(50)), "nor an earlier one, from a driver that was away for long"
    assert query.visible() == once(range(80))


def test_a_driver_that_dies_between_any_two_steps(query: Query) -> None:
    """Each batch has its driver die one step later than the batch before, until one comes to its end."""
    rows: list[int] = []
    for batch in itertools.count():
        mine = range(len(rows), len(rows) + 20)
        rows.extend(mine)
        try:
            query.commit(batch, query.tasks(mine), die_at=batch)
        except Died:
            seen = query.visible()
            assert seen in (once(rows[: -len(mine)]), once(rows)), "all of a batch or nothing of it"
            query.run(batch, mine)
            assert query.visible() == once(rows)
        else:
            break
    assert batch > 8, "there are fewer steps than there should be"
    assert query.visible() == once(rows)


def test_a_driver_that_returns_is_fenced(query: Query) -> None:
    """One driver stands still in the middle of its commit while another takes over; then it goes on."""
    staged = query.tasks(range(30))
    later: list[bool] = []

    def takes_over(name: str) -> None:
        if name == "copied" and not later:
            other = threading.Thread(target=lambda: later.append(query.run(0, range(30))))
            other.start()
            other.join()

    with pytest.raises(Refused, match=r"FENCED|EPOCH"):
        query.commit(0, staged, between=takes_over)
    assert later == [True]
    assert query.visible() == once(range(30))


def test_a_driver_whose_stage_was_cleared_by_another_says_so_and_commits_nothing(query: Query) -> None:
    staged = query.tasks(range(30))
    assert query.run(0, range(30))
    with pytest.raises(PipelineError, match="must be run again"):
        query.commit(1, staged)
    assert query.visible() == once(range(30))


def test_stored_data_does_not_grow_with_the_batches(query: Query) -> None:
    for batch in range(5):
        query.run(batch, range(10))

    async def kept(hall: Hall) -> tuple[int, int, Any]:
        held = []
        for topic, parts in ((SINK_PREFIX + query.name, 1), (STAGE_PREFIX + query.name, 4)):
            first = await hall.records.list_offsets(topic, dict.fromkeys(range(parts), EARLIEST))
            end = await hall.records.list_offsets(topic, dict.fromkeys(range(parts), LATEST))
            held.append(sum(end[part].offset - first[part].offset for part in range(parts)))
        return held[0], held[1], await last_commit_marker(hall, query.name)

    with BlockingClient(query.bootstrap) as blocking_client:
        notes, staged, note = blocking_client.ask(kept)
    assert notes <= 2, "the last note and the marker behind it"
    assert staged == 0
    assert note.batch == 4


def test_another_query_of_the_same_sink_has_its_own_batch_numbers(query: Query) -> None:
    query.run(7, range(10))
    again = Batch(query.name, "a query with another checkpoint", 0)
    staged = query.tasks(range(10, 20))
    with BlockingClient(query.bootstrap) as blocking_client:
        assert blocking_client.ask(lambda hall: commit_batch(hall, again, staged, NOW_MS))
    assert query.visible() == once(range(20))


def test_a_topic_that_is_deleted_before_the_commit(query: Query) -> None:
    staged = query.tasks(range(10))
    with BlockingClient(query.bootstrap) as blocking_client:
        blocking_client.ask(lambda hall: hall.topics.delete(query.topic))
        batch = Batch(query.name, "", 0)
        with pytest.raises(PipelineError, match=f"there is no topic {query.topic}"):
            blocking_client.ask(lambda hall: commit_batch(hall, batch, staged, NOW_MS))


def test_a_batch_larger_than_the_delivery_bound(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    query = Query(bootstrap, make_topic(2), fresh_name("large"))
    pad = bytes(200_000)
    wide = pa.record_batch([pa.array([b"k", None] * 100), pa.array([pad] * 200)], names=["key", "value"])
    staged = query.task(iter([wide]), 0)
    assert staged is not None
    assert staged.size_bytes > 32 * 1024 * 1024
    assert query.commit(0, [staged])

    async def count(hall: Hall) -> int:
        reader = await Reader.open(hall, query.topic, EARLIEST, max_wait_ms=0)
        rows = 0
        while not reader.at_end:
            rows += len(await reader.poll())
        return rows

    with BlockingClient(bootstrap) as blocking_client:
        assert blocking_client.ask(count) == 200


def test_at_least_once_goes_to_the_topic_itself(query: Query) -> None:
    layout = LAYOUT._replace(fixed_topic=query.topic)
    with BlockingClient(query.bootstrap) as blocking_client:
        assert write_rows(blocking_client, direct_outlet, layout, 4, 0, tables(range(40))) == (40, None)
    assert query.visible() == once(range(40))


@pytest.mark.slow
def test_a_broker_that_dies_between_any_two_steps(tmp_path: Path) -> None:
    """Killed and started again behind every step in turn; tasks and driver go on by themselves."""
    with Node(tmp_path / "data") as node:
        with BlockingClient(node.bootstrap) as blocking_client:
            blocking_client.ask(lambda hall: hall.topics.create("target", partitions=3))
        query = Query(node.bootstrap, "target", "sink")
        rows: list[int] = []
        for batch, name in enumerate(("taken", "looked", "sent", "copied", "noted", "committed")):
            left = [name]

            def kills(step: str, left: list[str] = left) -> None:
                if step in left:
                    left.clear()
                    node.kill()
                    node.start()

            mine = range(len(rows), len(rows) + 20)
            rows.extend(mine)
            query.commit(batch, query.tasks(mine), between=kills)
            assert not left
            assert query.visible() == once(rows)


async def test_a_sink_writes_to_a_topic_in_wings(tmp_path: Path) -> None:
    """A batch is one transaction over the stage and the note in the hall, and the topic in two wings."""
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "placed", 3, {"longhall.placement": "any-host"})
        query = Query(str(halls.second.kafka), "placed", "sink-in-wings")

        def play() -> None:
            staged = query.tasks(range(30))
            assert query.visible() == Counter()
            with pytest.raises(Died):
                query.commit(0, staged, die_at=4)
            assert query.visible() in (Counter(), once(range(30)))
            query.run(0, range(30))
            assert not query.run(0, range(30))
            assert query.run(1, range(30, 40))
            assert query.visible() == once(range(40))

        await asyncio.to_thread(play)
        ends = [[one.log.next_offset for one in node.hall.routes["placed"]] for node in (halls.first, halls.second)]
        assert all(ends[0][number] > 0 for number in (0, 2))
        assert ends[1][1] > 0
