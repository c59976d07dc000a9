"""One Spark session and one node for everything under tests/pipeline that needs them; most of it needs neither.

The session is as small as Spark gets: one core, no page, one shuffle partition, a Java that does not optimise much.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from longhall.cli.main import main
from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.records.batch import Record, build_batch
from soak.node import Node
from tests.clients.serving import served
from tests.left_out import leave_out
from tests.pipeline.cluster import Cluster
from tests.pipeline.connector import connector_jars
from tests.pipeline.day import PARTITIONS, Day, make_day
from tests.pipeline.nursery import Nursery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=OFF",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.network.timeout": "3600s",  # A machine that stands still for a while is no fault of Spark's.
}
SPARK_TEST_SECONDS_MAX = 600  # A job takes a second on an idle machine, and a minute on a busy one.
_numbers = itertools.count(1)
_run = uuid.uuid4().hex[:8]

FreshName = Callable[[str], str]
MakeTopic = Callable[..., str]
Produce = Callable[..., None]
ReadTopic = Callable[..., "DataFrame"]


class Ended(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Spark is slow; ./dev check leaves it to ./dev test. What needs a cluster ends the suite's session."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and {"spark", "cluster"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(SPARK_TEST_SECONDS_MAX))
    items.sort(key=lambda item: here in item.path.parents and "cluster" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the whole suite, with the data source and, if it is here, Spark's own Kafka connector."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        leave_out("Spark: java is not on this machine")
    from longhall.pipeline import session

    jars = connector_jars()
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    with Nursery(tmp_path_factory.mktemp("nursery")) as nursery:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_PYTHON", nursery.python)
            running = session("local[1]", name="longhall tests", settings=settings, quiet=True)
        yield running
        running.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The node under test: with `LONGHALL_TEST_CLUSTER=1` a cluster, whose nodes are used in turn."""
    with served(tmp_path_factory.mktemp("pipeline") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster for `--master`. Commands that use it start a session of their own, each its own."""
    if shutil.which("java") is None:
        leave_out("Spark: java is not on this machine")
    _end_session()
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def _end_session() -> None:
    """The session of the suite, and what it was started with: a Java process has one at a time, and tells the next."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        java: Any = running.sparkContext._jvm
        names = [name for name, _ in running.sparkContext.getConf().getAll()]
        running.stop()
        for name in names:
            java.java.lang.System.clearProperty(name)


@pytest.fixture(scope="session")
def bootstrap(node: Node) -> str:
    return node.bootstrap


@pytest.fixture(scope="session")
def blocking_client(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as talking:
        yield talking


@pytest.fixture(scope="session")
def fresh_name() -> FreshName:
    """A name that no other test and no earlier run has used."""
    return lambda word: f"{word}-{_run}-{next(_numbers)}"


@pytest.fixture(scope="session")
def make_topic(blocking_client: BlockingClient, fresh_name: FreshName) -> MakeTopic:
    """A new topic that keeps everything, whatever its timestamps say."""

    def make(partitions: int = 1, configs: Mapping[str, str] | None = None, name: str | None = None) -> str:
        chosen = name or fresh_name("topic")
        wanted = {"retention.ms": "-1", **(configs or {})}

        async def create(hall: Hall) -> None:
            await hall.topics.create(chosen, partitions=partitions, configs=wanted)

        blocking_client.ask(create)
        return chosen

    return make


@pytest.fixture(scope="session")
def produce(blocking_client: BlockingClient) -> Produce:
    """Append records to one partition, as one batch; the words of `build_batch` say which kind."""

    def send(topic: str, partition: int, records: Sequence[Record], **kind: Any) -> None:
        batch = build_batch(records, **kind)

        async def append(hall: Hall) -> None:
            await hall.persist(lambda: hall.records.produce(topic, partition, batch))

        blocking_client.ask(append)

    return send


@pytest.fixture
def read_topic(spark: SparkSession, bootstrap: str) -> ReadTopic:
    """A batch of `format("longhall")` over topics, with further options as words."""

    def read(topics: str, schema: str | None = None, format_name: str = "longhall", **options: str) -> DataFrame:
        reader = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topics).options(**options)
        return (reader.schema(schema) if schema is not None else reader).load()

    return read


@pytest.fixture
def own_command(
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Command:
    """`longhall pipeline ...` through its entry point, in this process; it starts and ends a session."""
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path_factory.mktemp("home")))

    def run(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["longhall", "pipeline", *words, "--bootstrap", bootstrap])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0 if code is None else 1, said.out, said.err)

    return run


@pytest.fixture
def command(spark: SparkSession, own_command: Command) -> Command:
    """The same with the session of the suite, which is lent to it."""
    return own_command


@pytest.fixture(scope="session")
def day(make_topic: MakeTopic, produce: Produce, fresh_name: FreshName) -> tuple[str, Day]:
    """A made day of a queue, in the two topics that a real one would have written; its name, and what was planted."""
    queue = fresh_name("day")
    made = make_day(queue)
    make_topic(PARTITIONS, name=queue)
    make_topic(1, name=f"{queue}.deliveries")
    for partition, records in enumerate(made.sent):
        produce(queue, partition, records)
    produce(f"{queue}.deliveries", 0, made.audit)
    return queue, made
