"""Replays over a running node: the same bytes, keys, headers and timestamps, each once, however often it is begun."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from longhall.client.fetched_records import decode_fetched
from longhall.client.hall import Hall
from longhall.pipeline.archive.job import Options as ArchiveOptions
from longhall.pipeline.archive.job import archive
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.replay.job import Done, Options, replay
from longhall.pipeline.replay.selection import Selection
from longhall.records.batch import Record
from longhall.records.compression import GZIP
from soak.node import Node
from tests.pipeline.conftest import FreshName, MakeTopic, Produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Replay = Callable[..., Done]
MORNING_MS = 1_700_000_000_000


@pytest.fixture
def run(spark: SparkSession, bootstrap: str) -> Replay:
    def replayed(topic: str, to: str, **words: Any) -> Done:
        options = Options(bootstrap=bootstrap, topics=(topic,), to=to)._replace(**words)
        return replay(spark, options, lambda words: None, lambda done, total: None)

    return replayed


@pytest.fixture
def archived(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Callable[[str], str]:
    def place(topic: str) -> str:
        options = ArchiveOptions(bootstrap=bootstrap, topics=(topic,), to=str(tmp_path / "archive"))
        archive(spark, options, lambda words: None, lambda done, total: None)
        return options.to

    return place


def content(blocking_client: BlockingClient, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    """What a reader of committed messages gets, without the offsets."""

    async def read(hall: Hall) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        offset = 0
        end = (await hall.records.list_offsets(topic, {partition: -1}))[partition].offset
        while offset < end:
            opened = decode_fetched(await hall.records.fetch(topic, partition, offset, max_wait_ms=100), offset)
            offset = opened.next_offset
            found += [(each.timestamp_ms, each.key, each.value, tuple(each.headers)) for each in opened.records]
        return found

    return blocking_client.ask(read)


def records(count: int, first: int = 0) -> list[Record]:
    """With and without keys, values and headers, at times that jump back now and then."""
    return [
        Record(
            -1,
            MORNING_MS + number * 10 - (number % 7) * 30,
            None if number % 5 == 0 else b"key-%d" % (number % 3),
            None if number % 11 == 10 else bytes(range(number % 256)),
            (("kind", b"\xff%d" % (number % 4)), ("none", None)) if number % 2 else (),
        )
        for number in range(first, first + count)
    ]


def test_an_archive_yields_the_same_messages_once(
    run: Replay,
    archived: Callable[[str], str],
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
) -> None:
    source, target = make_topic(2), make_topic(2)
    produce(source, 0, records(300), compression=GZIP)
    produce(source, 1, records(50, first=300))
    place = archived(source)
    done = run(source, target, archive=place)
    assert done.messages == 350
    for partition in (0, 1):
        assert content(blocking_client, target, partition) == content(blocking_client, source, partition)
    assert run(source, target, archive=place).messages == 0, "it was done already"
    produce(source, 1, records(5, first=350))
    archived(source)
    assert run(source, target, archive=place).messages == 5
    assert content(blocking_client, target, 1) == content(blocking_client, source, 1)
    other = make_topic(2)
    with pytest.raises(Exception, match="had other messages or another target"):
        run(source, target, archive=place, name=done.name, where="key is null")
    assert run(source, other, archive=place, name="again").messages == 355


def test_filters_choose_and_a_topic_can_be_the_source(
    run: Replay, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient
) -> None:
    source = make_topic()
    produce(source, 0, records(100))
    everything = content(blocking_client, source)
    target = make_topic()
    chosen = Selection(since_ms=MORNING_MS + 200, until_ms=MORNING_MS + 600, headers=(("kind", b"\xff1"),))
    run(source, target, selection=chosen, where="offset % 3 = 0 and key is not null")
    wanted = [
        row
        for number, row in enumerate(everything)
        if MORNING_MS + 200 <= row[0] < MORNING_MS + 600
        and ("kind", b"\xff1") in row[3]
        and number % 3 == 0
        and row[1] is not None
    ]
    assert wanted
    assert content(blocking_client, target) == wanted
    keyed = make_topic()
    run(source, keyed, selection=Selection(keys=(b"key-1",)))
    assert content(blocking_client, keyed) == [row for row in everything if row[1] == b"key-1"]


def test_a_queue_is_a_target_and_a_source(
    run: Replay,
    archived: Callable[[str], str],
    fresh_name: FreshName,
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
    node: Node,
) -> None:
    source, queue, back = make_topic(), fresh_name("queue"), make_topic()

    def ask(path: str, body: object) -> Any:
        data = json.dumps(body).encode()
        request = Request(f"http://{node.http}/api/v1{path}", data, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            return json.loads(answer.read())

    ask("/queues", {"name": queue})
    produce(source, 0, [Record(-1, MORNING_MS + number, None, b"m%d" % number) for number in range(5)])
    run(source, queue)
    got = ask(f"/queues/{queue}/receive", {"count": 10, "wait_ms": 5000})["messages"]
    assert sorted(message["body"] for message in got) == [f"m{number}" for number in range(5)]
    run(queue, back, archive=archived(queue))
    assert content(blocking_client, back) == content(blocking_client, source)


def test_a_replay_keeps_the_timing_and_the_order(
    run: Replay, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient
) -> None:
    source, target = make_topic(2), make_topic(2)
    produce(source, 0, records(60))
    produce(source, 1, records(60))
    began = time.monotonic()
    run(source, target, speed=0.5)
    assert time.monotonic() - began >= 1.0, "600 ms at half the speed"
    for partition in (0, 1):
        assert content(blocking_client, target, partition) == content(blocking_client, source, partition)


def test_a_killed_task_and_a_restarted_replay_send_nothing_twice(
    run: Replay, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient
) -> None:
    source, target = make_topic(), make_topic()
    produce(source, 0, records(400))
    stop = threading.Event()

    def kill() -> None:
        """The Python workers of Spark, while they are sending."""
        while not stop.wait(1.5) and len(content(blocking_client, target)) < 300:
            if len(content(blocking_client, target)) > 20:
                _kill_workers()
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run(source, target, rate=150)
    finally:
        stop.set()
        killer.join()
    assert content(blocking_client, target) == content(blocking_client, source)


def _kill_workers() -> None:
    import psutil

    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            # The daemon of tasks and the workers that it forked. Spark does not replace a planner's daemon that dies.
            if {"pyspark.daemon", "pyspark.worker"} <= set(child.cmdline()):
                child.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue


def test_failures_are_one_line(run: Replay, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    with pytest.raises(PipelineError, match=f"there is no archive of {topic} at {tmp_path}"):
        run(topic, topic, archive=str(tmp_path))
    with pytest.raises(PipelineError, match="there is no topic no-such-topic"):
        run(topic, "no-such-topic")
    with pytest.raises(PipelineError, match="cannot be replayed into itself"):
        run(topic, topic)
