"""Spark's source, its sink and the jobs at a node that asks for TLS and a login."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from longhall.cli.main import main
from longhall.client.login import Login
from longhall.client.security import ClientSecurity
from longhall.client.tls import ClientTls
from longhall.pipeline.archive.job import Options as ArchiveOptions
from longhall.pipeline.archive.job import archive
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import one_line_reason
from longhall.pipeline.replay.job import Options as ReplayOptions
from longhall.pipeline.replay.job import replay
from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.front.certificates import TestAuthority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MECHANISM = {"PLAIN": "plain.Plain", "SCRAM-SHA-512": "scram.Scram"}


class Guarded(NamedTuple):
    """A node with TLS and logins, and the file of its authority."""

    node: Node
    ca: str
    administrator: Administrator

    def options(self, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> dict[str, str]:
        module = f"org.apache.kafka.common.security.{MECHANISM[mechanism]}LoginModule"
        return {
            "kafka.bootstrap.servers": self.node.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": f'{module} required username="spark" password="{password}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": self.ca,
        }

    def client(self) -> BlockingClient:
        return BlockingClient(
            self.node.bootstrap, security=ClientSecurity(ClientTls(self.ca), Login("spark", PASSWORD))
        )

    def make_topic(self, name: str) -> None:
        with self.client() as client:
            client.ask(lambda hall: hall.topics.create(name, partitions=2, configs={}))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    authority = TestAuthority(home / "authority")
    with Node(home / "data", options=authority.options()) as node:
        administrator = Administrator(node.http, authority.client_context())
        administrator.add_user("spark")
        yield Guarded(node, authority.path("ca.crt"), administrator)


@pytest.mark.parametrize("mechanism", sorted(MECHANISM))
def test_a_batch_is_written_and_read(spark: SparkSession, guarded: Guarded, mechanism: str) -> None:
    topic = f"batch-{mechanism.lower()}"
    guarded.make_topic(topic)
    options = guarded.options(mechanism)
    rows = spark.range(20).selectExpr("cast(id as string) as key", "concat('row ', id) as value")
    rows.write.format("longhall").options(**options, topic=topic).mode("append").save()
    found = spark.read.format("longhall").options(**options, subscribe=topic).load()
    assert sorted(bytes(row.value) for row in found.select("value").collect()) == sorted(
        b"row %d" % number for number in range(20)
    )


def test_a_stream_is_read_and_written(spark: SparkSession, guarded: Guarded, tmp_path: Path) -> None:
    for topic in ("stream-in", "stream-out"):
        guarded.make_topic(topic)
    options = guarded.options()
    rows = spark.range(10).selectExpr("concat('row ', id) as value")
    rows.write.format("longhall").options(**options, topic="stream-in").mode("append").save()
    source = spark.readStream.format("longhall").options(**options, subscribe="stream-in", startingOffsets="earliest")
    query = (
        source.load()
        .select("value")
        .writeStream.format("longhall")
        .options(**options, topic="stream-out", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert spark.read.format("longhall").options(**options, subscribe="stream-out").load().count() == 10


def test_a_wrong_login_is_one_line_without_the_password(spark: SparkSession, guarded: Guarded) -> None:
    options = guarded.options(password="not the password")
    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as refused:
        spark.read.format("longhall").options(**options, subscribe="any").load().count()
    line = one_line_reason(refused.value)
    assert line is not None
    assert "not the password" not in line


def test_an_unknown_authority_is_one_line(spark: SparkSession, guarded: Guarded, tmp_path: Path) -> None:
    other = TestAuthority(tmp_path / "other").path("ca.crt")
    options = guarded.options() | {"kafka.ssl.truststore.location": other}
    with pytest.raises(Exception, match="no broker answers"):
        spark.read.format("longhall").options(**options, subscribe="any").load().count()


def test_jobs_log_in_with_the_environment(
    spark: SparkSession, guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("job-in", "job-again", "job-sql"):
        guarded.make_topic(topic)
    rows = spark.range(30).selectExpr("cast(id as string) as key", "concat('{\"n\": ', id, '}') as value")
    rows.write.format("longhall").options(**guarded.options(), topic="job-in").mode("append").save()
    monkeypatch.setenv("LONGHALL_CA", guarded.ca)
    monkeypatch.setenv("LONGHALL_USER", "spark")
    token = guarded.administrator.ask("POST", "users/spark/tokens", {})["token"]
    bootstrap, place = guarded.node.bootstrap, str(tmp_path / "archive")
    for name, secret in (("PASSWORD", PASSWORD), ("TOKEN", token)):
        monkeypatch.delenv("LONGHALL_PASSWORD", raising=False)
        monkeypatch.setenv(f"LONGHALL_{name}", secret)
        done = archive(spark, ArchiveOptions(bootstrap, ("job-in",), place), _silent, _hidden)
        assert done.messages == (30 if name == "PASSWORD" else 0)
    again = ReplayOptions(bootstrap=bootstrap, topics=("job-in",), to="job-again", archive=place)
    assert replay(spark, again, _silent, _hidden).messages == 30
    query = "select _key, n from `job-in` where n < 5"
    monkeypatch.setattr(
        "sys.argv", ["longhall", "pipeline", "sql", query, "--to", "job-sql", "--once", "--address", bootstrap]
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    found = spark.read.format("longhall").options(**guarded.options(), subscribe="job-sql").load()
    assert found.count() == 5
    shutil.rmtree(place)


def _silent(words: str) -> None:
    """Progress that nobody reads."""


def _hidden(done: int, total: int) -> None:
    """The same."""
