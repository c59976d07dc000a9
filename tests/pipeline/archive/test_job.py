"""The archiver over a running node: all that is committed is in the archive once, in order; the broker hears of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from longhall.client.hall import Hall
from longhall.client.producer import Options as ProducerOptions
from longhall.client.producer import Producer
from longhall.names import ARCHIVE_GROUP
from longhall.pipeline.archive.job import Done, Options, archive
from longhall.pipeline.archive.manifest import first_break
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.parquet import read_piece
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError, one_line_reason
from longhall.records.batch import Record
from longhall.records.compression import ZSTD
from longhall.world.real.clock import RealClock
from soak.node import Node
from tests.console.api.asking import Asking
from tests.crash.conftest import Mount, mount  # noqa: F401
from tests.pipeline.conftest import MakeTopic, Produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Archive = Callable[..., Done]
DAY_MS = 86_400_000
MORNING_MS = 1_700_000_000_000


@pytest.fixture
def run(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Archive:
    def archived(*topics: str, **words: Any) -> Done:
        options = Options(bootstrap=bootstrap, topics=topics, to=str(tmp_path / "archive"))
        return archive(spark, options._replace(**words), lambda words: None, lambda done, total: None)

    return archived


def rows_of(place: Path, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """What counts in an archive, in its order."""
    storage = Storage(str(place))
    manifest = ManifestLog(storage, topic).latest()
    assert manifest is not None
    pieces = manifest.pieces(partition)
    assert first_break(pieces) is None
    return [row for piece in pieces for batch in read_piece(storage, piece) for row in batch.to_pylist()]


def files_of(place: Path) -> set[str]:
    return {
        str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and "_manifest" not in str(path)
    }


def told(blocking_client: BlockingClient, topic: str) -> dict[int, int]:
    async def ask(hall: Hall) -> dict[int, int]:
        found = await hall.groups.offsets(ARCHIVE_GROUP)
        return {part: each.offset for (name, part), each in found.items() if name == topic}

    return blocking_client.ask(ask)


def records(count: int, first: int = 0, step_ms: int = 1) -> list[Record]:
    return [
        Record(-1, MORNING_MS + number * step_ms, b"key-%d" % number, b"value-%d" % number)
        for number in range(first, first + count)
    ]


def test_new_messages_are_archived_by_each_run(
    run: Archive, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, tmp_path: Path
) -> None:
    topic = make_topic(2)
    odd = Record(-1, 5, None, None, (("trace", b"\x00abc"), ("none", None)))
    produce(topic, 0, records(50), compression=ZSTD)
    produce(topic, 1, [odd, *records(3)])
    first = run(topic)
    assert (first.messages, first.swept, first.lost) == (54, 0, 0)
    assert told(blocking_client, topic) == {0: 50, 1: 4}
    assert run(topic).messages == 0, "there was nothing new"
    produce(topic, 0, records(10, first=50, step_ms=DAY_MS))
    assert run(topic).messages == 10
    assert told(blocking_client, topic) == {0: 60, 1: 4}
    place = tmp_path / "archive"
    rows = rows_of(place, topic)
    assert [row["offset"] for row in rows] == list(range(60))
    assert [row["value"] for row in rows] == [b"value-%d" % number for number in range(60)]
    assert rows_of(place, topic, 1)[0]["headers"] == [
        {"key": "trace", "value": b"\x00abc"},
        {"key": "none", "value": None},
    ]
    assert rows_of(place, topic, 1)[0]["key"] is None
    manifest = ManifestLog(Storage(str(place)), topic).latest()
    assert manifest is not None
    assert files_of(place) == manifest.paths()


def test_a_large_message_of_a_queue_is_archived_whole(run: Archive, node: Node, tmp_path: Path) -> None:
    ask = Asking(node.http)
    settings = {"message_bytes_max": 4096, "whole_bytes_max": 8 << 20, "settled": "keep"}
    ask.good("POST", "queues", {"name": "films", "settings": settings})
    bodies = [b"short", bytes(range(256)) * 8192, b"short again"]
    for body in bodies:
        said = ask.raw("POST", "queues/films/messages", body, {"Content-Type": "application/octet-stream"})
        assert said[0] == 200, said
    assert run("films").messages == 3
    assert [row["value"] for row in rows_of(tmp_path / "archive", "films")] == bodies
    ask.good("DELETE", "queues/films")
    ask.close()


def test_only_what_is_committed_is_archived(
    run: Archive, make_topic: MakeTopic, blocking_client: BlockingClient, tmp_path: Path
) -> None:
    topic = make_topic()

    async def transactions(hall: Hall) -> None:
        producer = Producer(hall, RealClock(), ProducerOptions(transactional_id=f"of-{topic}"))
        for number, commit in enumerate([True, False, True, False]):
            await producer.begin()
            await producer.send(topic, b"%d" % number, partition=0)
            await (producer.commit() if commit else producer.abort())

    blocking_client.ask(transactions)
    run(topic)
    assert [row["value"] for row in rows_of(tmp_path / "archive", topic)] == [b"0", b"2"]
    assert told(blocking_client, topic) == {0: 8}, "markers and what was aborted count as archived"


def test_small_files_are_merged_and_orphans_removed(
    run: Archive, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic()
    place = tmp_path / "archive"
    merged = 0
    for number in range(9):
        produce(topic, 0, records(5, first=number * 5))
        merged += run(topic).merged
    assert merged == 8
    manifest = ManifestLog(Storage(str(place)), topic).latest()
    assert manifest is not None
    assert [(piece.base, piece.end) for piece in manifest.pieces(0)] == [(0, 40), (40, 45)]
    assert len(manifest.retired) == 8, "for those who read by an older manifest"
    stray = place / f"topic={topic}/partition=0/date=2023-11-14/{0:020}-{77:020}.parquet"
    stray.write_bytes(b"half a fi")
    (stray.parent / ".longhall-1234").write_bytes(b"half")
    assert run(topic).swept == 2
    assert not stray.exists()
    assert [row["offset"] for row in rows_of(place, topic)] == list(range(45))


def test_a_deleted_archive_releases_nothing(
    run: Archive, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(topic, 0, records(20))
    run(topic)
    assert told(blocking_client, topic) == {0: 20}
    (tmp_path / "archive").rename(tmp_path / "elsewhere")

    async def delete(hall: Hall) -> None:
        await hall.topics.delete_records(topic, {0: 5})

    blocking_client.ask(delete)
    heard: list[int] = []
    assert run(topic).messages == 15
    heard.append(told(blocking_client, topic)[0])
    assert heard == [20], "all that there is was archived again"
    produce(topic, 0, records(5))
    other = run(topic, to=str(tmp_path / "second"))
    assert other.messages == 20
    assert told(blocking_client, topic) == {0: 20}, "one archive answers for the topic"


def test_failures_are_one_line_and_a_rerun_succeeds(
    run: Archive, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(topic, 0, records(5))
    with pytest.raises(PipelineError, match="there is no topic no-such-topic"):
        run("no-such-topic")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PipelineError, match=r"cannot be written: .*/file is a file"):
        run(topic, to=str(tmp_path / "file" / "archive"))
    with pytest.raises(PipelineError, match="is no place for an archive"):
        run(topic, to="gopher://nowhere/archive")
    run(topic)

    async def recreate(hall: Hall) -> None:
        await hall.topics.delete(topic)
        await hall.topics.create(topic, partitions=1, configs={"retention.ms": "-1"})

    blocking_client.ask(recreate)
    produce(topic, 0, records(3))
    with pytest.raises(PipelineError, match="was deleted and made anew since it was archived"):
        run(topic)
    assert told(blocking_client, topic) == {}


def test_a_full_disk_is_one_line_and_a_rerun_goes_on(
    run: Archive,
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
    mount: Mount,  # noqa: F811
) -> None:
    place = mount("-t", "tmpfs", "-o", "size=3m", "tmpfs")
    topic = make_topic()
    ballast = place / "ballast"
    for _ in range(4):
        produce(topic, 0, [Record(-1, MORNING_MS, None, os.urandom(250_000))])
    ballast.write_bytes(bytes(2_500_000))
    with pytest.raises(Exception, match="is full; make room and start again") as failure:
        run(topic, to=str(place / "archive"))
    line = one_line_reason(failure.value)
    assert line == f"the archive at {place}/archive is full; make room and start again, nothing is lost"
    assert told(blocking_client, topic) == {}
    ballast.unlink()
    assert run(topic, to=str(place / "archive")).messages == 4
    assert told(blocking_client, topic) == {0: 4}
    assert [row["offset"] for row in rows_of(place / "archive", topic)] == [0, 1, 2, 3]
