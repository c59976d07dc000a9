"""Places for archives: a local disk, and S3 as moto has it. What is written is whole, and failures are one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.pipeline.archive.hadoop import prepare_hadoop
from longhall.pipeline.archive.manifest import Piece, extended
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from longhall.records.batch import Record
from tests.left_out import leave_out
from tests.pipeline.conftest import Command, MakeTopic, Produce
from tests.pipeline.replay.test_job import content


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a place sets for HDFS is gone behind the test."""
    for variable in ("JAVA_HOME", "CLASSPATH"):
        value = os.environ.get(variable)
        monkeypatch.setenv(variable, value or "")
        if value is None:
            monkeypatch.delenv(variable)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of a bucket in a mock of S3 that the bench has fetched."""
    import boto3

    from bench.peers.moto import Moto, environment
    from bench.peers.node import BrokerFailed

    try:
        environment()
    except BrokerFailed as failure:
        leave_out(f"S3: {str(failure).splitlines()[0]}")
    with pytest.MonkeyPatch.context() as patch, Moto() as server:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        boto3.client("s3", endpoint_url=f"http://{server.address}", region_name="us-east-1").create_bucket(
            Bucket="hall"
        )
        yield f"s3://hall/archive?endpoint_override={server.address}&scheme=http&region=us-east-1"


class Distant:
    """A file system like HDFS: directories must exist, and a rename does not replace a file."""

    type_name = "hdfs"

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def move(self, source: str, target: str) -> None:
        import pyarrow.fs as fs

        if self._system.get_file_info(target).type != fs.FileType.NotFound:
            raise OSError(f"{target} is there already")
        self._system.move(source, target)

    def open_output_stream(self, path: str) -> Any:
        assert Path(path).parent.is_dir()
        return self._system.open_output_stream(path)


@pytest.fixture
def hdfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A URL that leads to such a one: the real one needs Hadoop's own library, which no package on PyPI has."""
    import pyarrow.fs as fs

    class Found:
        @staticmethod
        def from_uri(url: str) -> tuple[Any, str]:
            return Distant(fs.LocalFileSystem()), str(tmp_path / url.rpartition("/")[2])

    monkeypatch.setattr(fs, "FileSystem", Found)
    return "hdfs://somewhere/archive"


@pytest.fixture(params=["local", "s3", "hdfs"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    local = request.param == "local"
    return Storage(str(tmp_path / "deep" / "archive") if local else request.getfixturevalue(request.param))


def test_files_are_put_listed_read_and_deleted(storage: Storage) -> None:
    storage.check()
    storage.put("topic=a/one", b"1")
    storage.put("topic=a/deep/two", b"22")
    storage.put("topic=a/one", b"111")
    assert storage.list("topic=a") == ["topic=a/deep/two", "topic=a/one"]
    assert storage.list("topic=b") == []
    assert memoryview(storage.read("topic=a/one")).tobytes() == b"111"
    assert (storage.size_bytes("topic=a/one"), storage.size_bytes("topic=a/none")) == (3, None)
    storage.delete("topic=a/one")
    storage.delete("topic=a/one")
    assert storage.list("topic=a") == ["topic=a/deep/two"]
    with pytest.raises(PipelineError, match="lacks topic=a/one"):
        storage.read("topic=a/one")


def test_one_writer_publishes_at_a_time(storage: Storage) -> None:
    ledger = ManifestLog(storage, "t")
    first = ledger.publish(extended(ledger.claim("a1", "aa"), {0: [Piece(base=0, end=5)]}))
    second = ledger.claim("b2", "aa")
    with pytest.raises(PipelineError, match="another archiver has taken over"):
        ledger.publish(extended(first, {0: [Piece(base=5, end=6)]}))
    second = ledger.publish(extended(second, {0: [Piece(base=5, end=9)]}))
    assert ledger.latest() == second


def test_an_archive_in_s3_is_written_and_replayed(
    s3: str,
    command: Command,
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
) -> None:
    """Through the commands, run by run. The keys are in the URL, for tasks on any host, and are never shown."""
    source, target = make_topic(2), make_topic(2)
    place = s3.replace("s3://", "s3://key:secret@")
    for partition in (0, 1):
        produce(source, partition, [Record(-1, 1_700_000_000_000 + each, b"k", b"v%d" % each) for each in range(40)])
    words = ("archive", "--topics", source, "--to", place, "--once", "-o", "json")
    first = command(*words)
    assert (first.code, first.err) == (0, "")
    assert json.loads(first.out)["messages"] == 80
    assert "secret" not in first.out
    produce(source, 1, [Record(-1, 1_700_000_001_000, None, b"last", (("trace", b"1"),))])
    assert json.loads(command(*words).out)["messages"] == 1
    files = Storage(s3).list(f"topic={source}/partition=1")
    assert [name.rpartition("/")[2] for name in files] == [
        "00000000000000000000-00000000000000000040.parquet",
        "00000000000000000040-00000000000000000041.parquet",
    ]
    again = command("replay", "--topics", source, "--from", place, "--to", target, "-o", "json")
    assert (again.code, json.loads(again.out)["messages"]) == (0, 81), again.err
    for partition in (0, 1):
        assert content(blocking_client, target, partition) == content(blocking_client, source, partition)


def test_a_store_that_pyarrow_cannot_reach_is_one_line() -> None:
    with pytest.raises(PipelineError, match=r"^hdfs://no-such-host:1/archive is no place for an archive: .+"):
        Storage("hdfs://no-such-host:1/archive")
    with pytest.raises(PipelineError, match=r"^gopher://here/archive is no place for an archive: .+"):
        Storage("gopher://here/archive")


@pytest.mark.parametrize(("library", "variable"), [("libhdfs", "ARROW_LIBHDFS_DIR"), ("libjvm", "JAVA_HOME")])
def test_a_missing_part_of_hdfs_is_one_line(monkeypatch: pytest.MonkeyPatch, library: str, variable: str) -> None:
    import pyarrow.fs as fs

    class Found:
        @staticmethod
        def from_uri(url: str) -> None:
            raise OSError(f"Unable to load {library}\ndlopen({library}.so) failed: No such file\ndlopen ...")

    monkeypatch.setattr(fs, "FileSystem", Found)
    words = rf"^hdfs://h/a is no place for an archive: [A-Z]\w+'s {library}.so is not found; set {variable}[^;\n]*$"
    with pytest.raises(PipelineError, match=words):
        Storage("hdfs://h/a")


def test_hdfs_gets_the_paths_of_java_and_the_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless they are set."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    for variable in ("JAVA_HOME", "CLASSPATH"):
        monkeypatch.setenv(variable, "mine")
    prepare_hadoop()
    assert (os.environ["JAVA_HOME"], os.environ["CLASSPATH"]) == ("mine", "mine")
    for variable in ("JAVA_HOME", "CLASSPATH"):
        monkeypatch.delenv(variable)
    prepare_hadoop()
    assert os.environ["JAVA_HOME"] == str(java.parent.parent.resolve())
    settings, *jars = os.environ["CLASSPATH"].split(os.pathsep)
    assert settings == "/etc/hadoop"
    assert any("hadoop-client-api" in jar for jar in jars)


def test_a_storage_without_access_is_one_line(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = Path("/proc/archive")
    else:
        place = tmp_path / "locked"
        place.mkdir(mode=0o500)
    with pytest.raises(PipelineError, match="cannot be written: "):
        Storage(str(place / "deeper")).check()


def test_secrets_of_a_url_are_not_shown() -> None:
    assert Storage("s3://key:secret@hall/archive?region=us-east-1").name == "s3://hall/archive"
    assert Storage("s3://hall/archive?region=us-east-1").name == "s3://hall/archive"
