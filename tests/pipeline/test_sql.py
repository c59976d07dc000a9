"""Continuous SQL from topics to a topic, through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from longhall.cli.pipeline.spark_job import ProgressDisplay
from longhall.cli.pipeline.sql import follow
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sql import SqlOptions, Watermark, parse_schemas, parse_watermark, start
from longhall.records.batch import Record
from tests.pipeline.conftest import MakeTopic, Produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    one = SqlOptions("select 1", "to", "here").place()
    assert one.startswith("/state/longhall/sql/to-")
    assert one != SqlOptions("select 2", "to", "here").place()
    assert SqlOptions("select 1", "to", "here", checkpoint="/mine").place() == "/mine"


class Endless:
    """A query that keeps running."""

    isActive = True
    stopped = False
    recentProgress: ClassVar = [{"batchId": 0, "numInputRows": 3}, {"batchId": 1, "numInputRows": 4}]

    def stop(self) -> None:
        self.stopped = True


def test_a_query_is_stopped_on_request() -> None:
    query: Any = Endless()
    wanted = iter((False, True))
    assert follow(query, ProgressDisplay(silent=True), lambda seconds: next(wanted)) == (7, 2)
    assert query.stopped


def test_a_wrong_query_is_one_line_and_starts_nothing(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    empty, target, plain = make_topic(), make_topic(), make_topic()
    produce(plain, 0, [Record(-1, 1, None, b"no json")])

    def refused(query: str, to: str = target, schemas: dict[str, str] | None = None) -> str:
        with pytest.raises(PipelineError) as failure:
            start(spark, SqlOptions(query, to, bootstrap, str(tmp_path / "checkpoint"), schemas or {}, once=True))
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
