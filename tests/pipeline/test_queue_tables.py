"""A real queue as tables, while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longhall.pipeline.queue_tables import QueueTables, redrive
from longhall.pipeline.refusals import PipelineError, one_line_reason
from soak.node import Node
from tests.pipeline.conftest import FreshName
from tests.pipeline.shop import Shop, open_shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shop(node: Node, fresh_name: FreshName) -> Shop:
    return open_shop(node, fresh_name("shop"))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, node: Node, shop: Shop) -> QueueTables:
    return QueueTables(spark, shop.name, bootstrap=node.bootstrap, http=node.http).register(prefix="shop_")


def test_state_and_past_can_be_queried(spark: SparkSession, tables: QueueTables) -> None:
    def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query).collect()]

    assert rows("select body, state, offset from shop_messages order by offset") == [
        ("Rome 3", "leased", 3),
        ("Bern 4", "waiting", 4),
        ("Bern 5", "waiting", 5),
    ]
    assert rows("select offset, attempts, until > current_timestamp() from shop_leases") == [(3, 1, True)]
    assert rows("select body, reason, attributes['city'] from shop_dead_letters order by body") == [
        ("Oslo 2", "attempts", "Oslo"),
        ("Rome 1", "attempts", "Rome"),
    ]
    assert rows("select offset, attempt from shop_deliveries order by offset") == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert rows("select kind, count(*) from shop_settlements group by kind order by kind") == [
        ("died", 2),
        ("settled", 1),
    ]


def test_a_query_selects_what_is_redriven(spark: SparkSession, tables: QueueTables, shop: Shop, node: Node) -> None:
    chosen = spark.sql("select message_id from shop_dead_letters where body like 'Oslo%'")
    assert list(redrive(tables, chosen)) == [1]
    assert [row.body for row in tables.dead_letters.collect()] == ["Rome 1"]
    assert "Oslo 2" in {row.body for row in tables.messages.collect()}
    with pytest.raises(PipelineError, match="must give a column message_id; it gives body"):
        list(redrive(tables, spark.sql("select body from shop_dead_letters")))


def test_a_missing_queue_is_one_line(spark: SparkSession, node: Node) -> None:
    tables = QueueTables(spark, "no-such-queue", bootstrap=node.bootstrap, http=node.http)
    with pytest.raises(Exception, match="no-such-queue") as failure:
        tables.messages.collect()
    assert (
        one_line_reason(failure.value) == "there is no queue 'no-such-queue'; `longhall queue list` shows what there is"
    )
