"""Every job, unchanged, on a standalone cluster whose executors have nothing of Longhall but what the command brings.

The first command starts a session of its own against the master and ends it. The others are lent one, made as commands
make it, so that executors start once.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.cli.pipeline.spark_job import ProgressDisplay
from longhall.pipeline.blocking_client import BlockingClient
from longhall.records.batch import Record
from soak.node import Node
from tests.pipeline.cluster import Cluster
from tests.pipeline.conftest import Command, FreshName, MakeTopic, Produce
from tests.pipeline.day import HOT, Day
from tests.pipeline.replay.test_job import content
from tests.pipeline.shop import open_shop

WHOLE_DAY = ("--since", "2025-11-10T00:00Z", "--until", "2025-11-11T00:00Z", "--no-state")
# Small executors whose Java does not optimise much, and few tasks: each command starts its own.
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.network.timeout": "3600s",
}

Run = Callable[..., Any]


@pytest.fixture
def run(own_command: Command, cluster: Cluster) -> Run:
    """A command that must say nothing but its result; that is returned."""
    settings = [word for name, value in SETTINGS.items() for word in ("--spark", f"{name}={value}")]

    def ran(*words: str, code: int = 0) -> Any:
        ended = own_command(*words, "--master", cluster.master, *settings, "-o", "json")
        assert (ended.code, ended.err) == (code, ""), ended.err + cluster.log_text("worker.Worker")[-2000:]
        return json.loads(ended.out)

    return ran


@pytest.fixture(scope="module")
def executors(cluster: Cluster) -> Iterator[None]:
    """A session on the cluster that is lent to commands, with an executor of each worker."""
    from longhall.pipeline import session

    running = session(cluster.master, name="longhall tests", settings=SETTINGS, quiet=True)
    yield
    running.stop()


def test_executors_are_brought_what_they_need(run: Run, cluster: Cluster) -> None:
    facts = run("check")
    assert facts["master"] == cluster.master
    assert facts["executors_longhall"].startswith("shipped")


@pytest.mark.usefixtures("executors")
def test_a_topic_goes_into_the_archive_and_back(
    run: Run, make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(2)
    for partition in (0, 1):
        produce(
            source, partition, [Record(-1, 1_700_000_000_000 + each, b"%d" % each, b"v" * each) for each in range(50)]
        )
    place = str(tmp_path / "archive")
    assert run("archive", "--topics", source, "--to", place, "--once")["messages"] == 100
    assert run("replay", "--topics", source, "--from", place, "--to", target)["messages"] == 100
    for partition in (0, 1):
        assert content(blocking_client, target, partition) == content(blocking_client, source, partition)


@pytest.mark.usefixtures("executors")
def test_sql_keeps_running_until_it_is_interrupted(
    run: Run,
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes while it runs is answered as well; the interrupt is no failure."""
    source, target = make_topic(), make_topic()

    def order(city: str, amount: int) -> None:
        produce(source, 0, [Record(-1, 1, city.encode(), json.dumps({"city": city, "amount": amount}).encode())])

    def keys() -> list[bytes]:
        return [row[1] for row in content(blocking_client, target)]

    later = [("Bern", 5), ("Rome", 70)]
    signals = [signal.SIGINT]

    def look(steps: ProgressDisplay, *told: Any) -> None:
        if later and keys() == [b"Oslo"]:
            while later:
                order(*later.pop(0))
        elif signals and keys() == [b"Oslo", b"Rome"]:
            signal.raise_signal(signals.pop())

    monkeypatch.setattr(ProgressDisplay, "show", look)
    order("Oslo", 50)
    query = f"select _key, city from `{source}` where amount > 10"
    run("sql", query, "--to", target, "--checkpoint", str(tmp_path), "--continuous")
    assert keys() == [b"Oslo", b"Rome"]


@pytest.mark.usefixtures("executors")
def test_a_day_is_reconciled_and_reported(run: Run, day: tuple[str, Day], tmp_path: Path) -> None:
    queue, made = day
    planted = made.planted
    [balance] = run("reconcile", "--queues", queue, *WHOLE_DAY, code=1)
    assert (balance["sent"], balance["lost"]) == (planted.messages, len(planted.lost))
    assert balance["delivered_twice"] == len(planted.twice)
    page = tmp_path / "report.html"
    [facts] = run("report", "--topics", queue, *WHOLE_DAY, "--to", str(page))
    assert facts["dead_by_reason"] == planted.died
    assert HOT in page.read_text()


@pytest.mark.usefixtures("executors")
def test_a_query_chooses_what_is_redriven(run: Run, node: Node, fresh_name: FreshName) -> None:
    shop = open_shop(node, fresh_name("shop"))
    query = "select message_id from dead_letters where body like 'Oslo%'"
    assert run("redrive", shop.name, query, "--http", node.http)["moved"] == 1
    assert [each["body"] for each in shop.letters()] == ["Rome 1"]
