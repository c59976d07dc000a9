"""What a task does when all is not well: restarts, gaps, topics that go away. A real node, no Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from longhall.client.hall import Hall, split_address
from longhall.pipeline import partition_reader
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.options import Subscription
from longhall.pipeline.partition_reader import ReadTask, read
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.subscription_metadata import SubscriptionMetadata
from longhall.records.batch import Record
from soak.node import Node
from tests.pipeline.conftest import MakeTopic, Produce


def work_for(bootstrap: str, topic: str, end: int, **changes: Any) -> ReadTask:
    with BlockingClient(bootstrap) as blocking_client:
        described = SubscriptionMetadata(blocking_client, Subscription(names=(topic,))).topics()[topic]
    work = ReadTask(bootstrap, topic, described.id, 0, 0, end, ("value", "offset"), described.leaders[0])
    return work._replace(**changes)


def offsets(batches: list[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def fill(produce: Produce, topic: str, batches: int, rows: int = 10, size_bytes: int = 10) -> int:
    for _ in range(batches):
        produce(topic, 0, [Record(-1, 1000, None, b"x" * size_bytes)] * rows)
    return batches * rows


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


def test_a_range_is_read_to_its_end(bootstrap: str, topic: str, produce: Produce) -> None:
    fill(produce, topic, 3)
    assert offsets(list(read(work_for(bootstrap, topic, 25, start=5)))) == list(range(5, 25))


def test_a_range_of_many_responses(
    bootstrap: str, topic: str, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "FETCH_BYTES", 4000)
    end = fill(produce, topic, 12, size_bytes=100)
    batches = list(read(work_for(bootstrap, topic, end)))
    assert len(batches) > 3
    assert offsets(batches) == list(range(end))


def test_a_leader_that_has_moved_is_found(bootstrap: str, topic: str, produce: Produce) -> None:
    end = fill(produce, topic, 1)
    assert offsets(list(read(work_for(bootstrap, topic, end, leader=("127.0.0.1", 1))))) == list(range(end))


def test_reading_resumes_after_a_broker_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "FETCH_BYTES", 4000)
    with Node(tmp_path / "data") as node:
        with BlockingClient(node.bootstrap) as blocking_client:
            blocking_client.ask(lambda hall: hall.topics.create("t", partitions=1))

            def send(topic: str, partition: int, records: list[Record]) -> None:
                from longhall.records.batch import build_batch

                async def append(hall: Hall) -> None:
                    await hall.records.produce(topic, partition, build_batch(records))

                blocking_client.ask(append)

            end = fill(send, "t", 12, size_bytes=100)
        batches = read(work_for(node.bootstrap, "t", end))
        seen = [next(batches)]
        node.kill()
        node.start()
        seen += list(batches)
    assert offsets(seen) == list(range(end))


def test_messages_that_are_deleted_during_the_read(
    bootstrap: str, topic: str, produce: Produce, blocking_client: BlockingClient
) -> None:
    end = fill(produce, topic, 2)
    blocking_client.ask(lambda hall: hall.topics.delete_records(topic, {0: 7}))
    work = work_for(bootstrap, topic, end)
    with pytest.raises(PipelineError, match=rf"{topic}-0: offsets 0 to 6 were deleted before they were read; set the"):
        list(read(work))
    assert offsets(list(read(work._replace(fail_on_data_loss=False)))) == list(range(7, end))


def test_a_topic_that_is_recreated_during_the_read(
    bootstrap: str,
    topic: str,
    produce: Produce,
    blocking_client: BlockingClient,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_reader, "GONE_PATIENCE_S", 0.2)
    end = fill(produce, topic, 1)
    work = work_for(bootstrap, topic, end)
    blocking_client.ask(lambda hall: hall.topics.delete(topic))
    make_topic(name=topic)
    fill(produce, topic, 1)
    with pytest.raises(PipelineError, match="are gone: the topic was deleted or recreated"):
        list(read(work))
    assert list(read(work._replace(fail_on_data_loss=False))) == []


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "PATIENCE_S", 0.3)
    work = ReadTask("127.0.0.1:1", "t", bytes(16), 0, 0, 5, ("value",))
    with pytest.raises(PipelineError, match=r"no broker answers at 127\.0\.0\.1:1"):
        list(read(work))


def test_a_read_task_can_be_pickled(bootstrap: str, topic: str) -> None:
    work = work_for(bootstrap, topic, 5)
    assert pickle.loads(pickle.dumps(work)) == work
    assert work.leader == split_address(bootstrap)
