"""Sealed topics and queues in an archive: ciphertext without a key, clear text with one, and replays of both."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.node.credentials import Known
from longhall.pipeline.archive.job import Done, Options, archive
from longhall.pipeline.archive.manifest import ArchiveManifest
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.opening import ArchiveKeys, PieceReader, unwrap_keys
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.archive_frame import read_archive
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.replay.job import Options as ReplayOptions
from longhall.pipeline.replay.job import replay
from soak.node import Node
from tests.clients.sealed.conftest import found_in, sqs_at, write_keys
from tests.clients.sealed.test_doors import consume, http, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = b"the body that no file may have"


class Sealing(NamedTuple):
    """A node with master keys, and the file that has them."""

    node: Node
    keys: Path

    def unwrap(self, place: Path) -> ArchiveKeys:
        masters = Known(None, str(self.keys)).keys
        assert masters is not None
        return unwrap_keys(masters, str(place))

    def make(self, *names: str, **configuration: str) -> None:
        topics = [NewTopic(name, 1, config={"longhall.sealed": "house", **configuration}) for name in names]
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        for future in admin.create_topics(topics).values():
            future.result(10)


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealing]:
    home = tmp_path_factory.mktemp("sealing")
    keys = write_keys(home)
    with Node(home / "data", options=["--keys", str(keys)]) as node:
        yield Sealing(node, keys)


def run(spark: SparkSession, sealing: Sealing, place: Path, *topics: str, **options: Any) -> Done:
    return archive(spark, Options(sealing.node.bootstrap, topics, str(place), **options), _silent, _hidden)


def manifest_of(place: Path, topic: str) -> ArchiveManifest:
    manifest = ManifestLog(Storage(str(place)), topic).latest()
    assert manifest is not None
    return manifest


def opened(place: Path, topic: str, keys: ArchiveKeys) -> list[dict[str, Any]]:
    """The rows of an archive in clear, without Spark."""
    manifest = manifest_of(place, topic)
    return [
        row
        for number, pieces in manifest.partitions.items()
        for piece in pieces
        for batch in PieceReader(str(place), topic, bytes.fromhex(manifest.topic_id), int(number), keys).read(piece)
        for row in batch.to_pylist()
    ]


def bodies(number: int, first: int = 0) -> list[bytes]:
    return [b"%s, %d" % (SECRET, each) for each in range(first, first + number)]


def test_an_archive_without_a_key_is_ciphertext(spark: SparkSession, sealing: Sealing, tmp_path: Path) -> None:
    sealing.make("orders")
    produce(sealing.node, "orders", *bodies(40), **{"batch.num.messages": 7, "compression.type": "none"})
    done = run(spark, sealing, tmp_path, "orders")
    assert done.messages == 40
    assert not found_in(tmp_path, SECRET)
    manifest = manifest_of(tmp_path, "orders")
    assert manifest.format == 2
    assert [piece.sealed for piece in manifest.pieces(0)] == [True]
    with pytest.raises(PipelineError, match=r"orders is archived as ciphertext; .* --keys"):
        read_archive(spark, str(tmp_path), "orders")
    keys = sealing.unwrap(tmp_path)
    found = read_archive(spark, str(tmp_path), "orders", keys=keys).records.orderBy("offset").collect()
    assert [bytes(row.value) for row in found] == bodies(40)
    assert [row.offset for row in found] == list(range(40))
    assert {bytes(row.key) for row in found} == {b"key"}
    assert {row.timestampType for row in found} == {0}


def test_an_archive_grows_through_rotations_and_small_files_are_merged(
    spark: SparkSession, sealing: Sealing, tmp_path: Path
) -> None:
    sealing.make("rotated")
    for number in range(8):
        produce(sealing.node, "rotated", *bodies(3, 3 * number))
        if number == 4:
            http(sealing.node, "POST", "/api/v1/keys/rotated/rotate")
        assert run(spark, sealing, tmp_path, "rotated").messages == 3
    pieces = manifest_of(tmp_path, "rotated").pieces(0)
    assert len(pieces) < 8
    assert sum(piece.message_count for piece in pieces) == 24
    rows = opened(tmp_path, "rotated", sealing.unwrap(tmp_path))
    assert [row["value"] for row in rows] == bodies(24)


def test_batches_that_two_ranges_share_are_whole(spark: SparkSession, sealing: Sealing, tmp_path: Path) -> None:
    sealing.make("cut")
    produce(sealing.node, "cut", *bodies(50), **{"batch.num.messages": 50, "linger.ms": 500})
    assert run(spark, sealing, tmp_path, "cut", file_bytes_max=1000, merge=False).messages == 50
    assert len(manifest_of(tmp_path, "cut").pieces(0)) > 2
    keys = sealing.unwrap(tmp_path)
    assert [row["value"] for row in opened(tmp_path, "cut", keys)] == bodies(50)
    assert run(spark, sealing, tmp_path, "cut").messages == 0


def test_a_sealed_queue_and_its_dead_letters(spark: SparkSession, sealing: Sealing, tmp_path: Path) -> None:
    sqs = sqs_at(sealing.node)
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=letters, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    attributes = {
        "KmsMasterKeyId": "house",
        "VisibilityTimeout": "0",
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}),
    }
    queue = sqs.create_queue(QueueName="sealed-queue", Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody=SECRET.decode())
    for _ in range(20):
        sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)
        counted = sqs.get_queue_attributes(QueueUrl=letters, AttributeNames=["ApproximateNumberOfMessages"])
        if counted["Attributes"]["ApproximateNumberOfMessages"] == "1":
            break
    run(spark, sealing, tmp_path, "sealed-queue", "letters")
    assert not found_in(tmp_path, SECRET)
    with pytest.raises(PipelineError, match="letters is archived as ciphertext"):
        read_archive(spark, str(tmp_path), "letters")
    keys = sealing.unwrap(tmp_path)
    for topic in ("sealed-queue", "letters"):
        (row,) = opened(tmp_path, topic, keys)
        assert row["value"] == SECRET
        assert "longhall.seal" not in {header["key"] for header in row["headers"]}


def test_a_replay_needs_the_key(spark: SparkSession, sealing: Sealing, tmp_path: Path) -> None:
    sealing.make("source", "sealed-target")
    sealing.make("target", **{"longhall.sealed": ""})
    produce(sealing.node, "source", *bodies(20))
    run(spark, sealing, tmp_path, "source")
    options = ReplayOptions(bootstrap=sealing.node.bootstrap, topics=("source",), to="target", archive=str(tmp_path))
    with pytest.raises(PipelineError, match="--keys"):
        replay(spark, options, _silent, _hidden)
    options = options._replace(keys=sealing.unwrap(tmp_path))
    assert replay(spark, options, _silent, _hidden).messages == 20
    assert consume(sealing.node, "target", 20) == bodies(20)
    assert replay(spark, options._replace(to="sealed-target"), _silent, _hidden).messages == 20
    assert consume(sealing.node, "sealed-target", 20) == bodies(20)


def test_open_archives_clear_text(spark: SparkSession, sealing: Sealing, tmp_path: Path) -> None:
    sealing.make("wanted-in-clear")
    produce(sealing.node, "wanted-in-clear", *bodies(5))
    assert run(spark, sealing, tmp_path, "wanted-in-clear", opens=True).messages == 5
    assert manifest_of(tmp_path, "wanted-in-clear").format == 1
    found = read_archive(spark, str(tmp_path), "wanted-in-clear").records.collect()
    assert [bytes(row.value) for row in found] == bodies(5)


def test_a_destroyed_key_leaves_the_archive_and_altered_files_are_refused(
    spark: SparkSession, sealing: Sealing, tmp_path: Path
) -> None:
    sealing.make("shredded", "other")
    produce(sealing.node, "shredded", *bodies(2))
    produce(sealing.node, "other", *bodies(2))
    run(spark, sealing, tmp_path, "shredded", "other")
    keys = sealing.unwrap(tmp_path)
    one, another = (manifest_of(tmp_path, name).pieces(0)[0] for name in ("shredded", "other"))
    moved = PieceReader(str(tmp_path), "shredded", bytes.fromhex(manifest_of(tmp_path, "shredded").topic_id), 0, keys)
    with pytest.raises(PipelineError, match="for which it was not sealed"):
        list(moved.read(another))
    with pytest.raises(PipelineError, match="altered, cut, or moved"):
        list(moved._replace(partition=1).read(one))
    http(sealing.node, "POST", "/api/v1/keys/shredded/rotate")
    destroy = f"http://{sealing.node.http}/api/v1/keys/shredded/1"
    with urllib.request.urlopen(urllib.request.Request(destroy, method="DELETE"), timeout=10):
        pass
    produce(sealing.node, "shredded", *bodies(1, 2))
    run(spark, sealing, tmp_path, "shredded")
    with pytest.raises(PipelineError, match=r"data key 1 .* is not to be had"):
        opened(tmp_path, "shredded", sealing.unwrap(tmp_path))


def _silent(words: str) -> None:
    """Progress that nobody reads."""


def _hidden(done: int, total: int) -> None:
    """The same."""
