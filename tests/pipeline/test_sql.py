"""Continuous SQL from topics to a topic, as somebody at a terminal meets it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from longhall.cli.pipeline.running import Steps
from longhall.cli.pipeline.sql import follow
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sql import Watermark, Wish, parse_schemas, parse_watermark, start
from longhall.records.batch import Record
from tests.pipeline.conftest import MakeTopic, Produce, ReadTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)

MINUTE_MS = 60_000


def orders(*rows: tuple[str, int, int]) -> list[Record]:
    return [
        Record(-1, minute * MINUTE_MS, city.encode(), json.dumps({"city": city, "amount": amount}).encode())
        for city, amount, minute in rows
    ]


def test_words_of_the_command_line() -> None:
    assert parse_watermark("10 minutes") == Watermark("", "_timestamp", "10 minutes")
    assert parse_watermark("at=5 seconds") == Watermark("", "at", "5 seconds")
    assert parse_watermark("shop.orders.at=1 hour") == Watermark("shop.orders", "at", "1 hour")
    assert parse_schemas(["a=x int, y string"]) == {"a": "x int, y string"}
    for wrong in ("", "=5 s", "at="):
        with pytest.raises(PipelineError, match="must be DELAY"):
            parse_watermark(wrong)
    with pytest.raises(PipelineError, match="must be TOPIC=COLUMN TYPE"):
        parse_schemas(["a"])


def test_a_checkpoint_belongs_to_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one = Wish("select 1", "to", "here").place()
    assert one.startswith("/state/longhall/sql/to-")
    assert one != Wish("select 2", "to", "here").place()
    assert Wish("select 1", "to", "here", checkpoint="/mine").place() == "/mine"


class Interrupted:
    """A query that keeps running, at which somebody presses Ctrl-C while it is asked how far it is."""

    isActive = True
    stopped = False

    @property
    def recentProgress(self) -> list[dict[str, int]]:
        signal.raise_signal(signal.SIGINT)
        return [{"batchId": 0, "numInputRows": 3}, {"batchId": 1, "numInputRows": 4}]

    def stop(self) -> None:
        self.stopped = True


def test_an_interrupt_waits_until_spark_has_answered_and_ends_it_well() -> None:
    query: Any = Interrupted()
    before = signal.getsignal(signal.SIGINT)
    assert follow(query, Steps(silent=True)) == (7, 2)
    assert query.stopped
    assert signal.getsignal(signal.SIGINT) is before


def test_rows_that_fit_go_to_the_other_topic_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic()
    produce(source, 0, [*orders(("Oslo", 5, 1), ("Rome", 50, 2)), Record(-1, 1, None, b"no json")])
    produce(source, 1, orders(("Bern", 70, 3)))
    query = f"select _key, city, amount * 2 as twice from `{source}` where amount > 10"
    wish = Wish(query, target, bootstrap, str(tmp_path), once=True)
    assert start(spark, wish).awaitTermination(120)
    committed = {"kafka.isolation.level": "read_committed"}
    found = {(row.key, row.value) for row in read_topic(target, **committed).collect()}
    assert found == {(b"Rome", b'{"city":"Rome","twice":100}'), (b"Bern", b'{"city":"Bern","twice":140}')}
    # The same command goes on where it was.
    produce(source, 1, orders(("Oslo", 99, 4)))
    assert start(spark, wish).awaitTermination(120)
    assert sorted(row.key for row in read_topic(target, **committed).collect()) == [b"Bern", b"Oslo", b"Rome"]


def test_windows_are_told_when_the_watermark_has_passed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic()
    produce(source, 0, orders(("Oslo", 1, 1), ("Oslo", 2, 4), ("Rome", 7, 12), ("Oslo", 1, 60)))
    query = (
        f"select window.start as at, sum(amount) as amount from `{source}` group by window(_timestamp, '10 minutes')"
    )
    wish = Wish(
        query,
        target,
        bootstrap,
        str(tmp_path),
        schemas={source: "city string, amount bigint"},
        watermarks=(parse_watermark("1 minute"),),
        once=True,
    )
    assert start(spark, wish).awaitTermination(120)
    told = sorted(json.loads(row.value)["amount"] for row in read_topic(target).collect())
    assert told == [3, 7]


def test_what_cannot_be_is_one_line_and_nothing_is_begun(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    empty, target, plain = make_topic(), make_topic(), make_topic()
    produce(plain, 0, [Record(-1, 1, None, b"no json")])

    def refused(query: str, to: str = target, schemas: dict[str, str] | None = None) -> str:
        with pytest.raises(PipelineError) as failure:
            start(spark, Wish(query, to, bootstrap, str(tmp_path / "checkpoint"), schemas or {}, once=True))
        return str(failure.value)

    assert refused("select * from orders", to="no-such-topic").startswith("there is no topic no-such-topic;")
    assert refused("select * from `no-such-topic`").startswith("there is no topic no-such-topic;")
    assert "it has no messages yet; give them with --schema" in refused(f"select * from `{empty}`")
    assert "are no JSON objects; give them with --schema" in refused(f"select * from `{plain}`")
    assert refused("selec 1").startswith("the query is not understood: ")
    assert refused(f"select x from `{empty}`", schemas={empty: "y int"}).startswith("the query is not understood: ")
    assert refused(f"select * from `{empty}`", schemas={empty: "y nonsense("}).startswith("the schema of")
    assert "is read by the query itself" in refused(f"select y from `{target}`", schemas={target: "y int"})
    assert not (tmp_path / "checkpoint").exists()
