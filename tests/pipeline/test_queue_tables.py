"""A real queue as tables, while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longhall.pipeline.desk import Desk, of_queue
from longhall.pipeline.queue_tables import QueueTables, redrive
from longhall.pipeline.refusals import PipelineError, clear_line
from soak.node import Node
from tests.pipeline.conftest import FreshName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)


class Shop:
    """A queue with dead letters and an audit, and what one does with it."""

    def __init__(self, node: Node, name: str) -> None:
        self.desk = Desk(node.http)
        self.name = name
        self.desk.ask("POST", "queues", {"name": f"{name}-dead"})
        settings = {"audit": "deliveries", "dead_letters": {"queue": f"{name}-dead", "attempts_max": 1}}
        self.desk.ask("POST", "queues", {"name": name, "settings": settings})

    def send(self, *bodies: str) -> list[str]:
        messages = [{"body": body, "attributes": {"city": body[:4]}} for body in bodies]
        return [each["message_id"] for each in self._do("messages", {"messages": messages})["messages"]]

    def receive(self, count: int) -> list[dict[str, Any]]:
        received: list[dict[str, Any]] = self._do("receive", {"count": count, "lease_ms": 600_000})["messages"]
        return received

    def settle(self, *receipts: str) -> None:
        self._do("settle", {"receipts": list(receipts)})

    def give_back(self, *receipts: str) -> None:
        self._do("leases", {"changes": [{"receipt": receipt, "lease_ms": 0} for receipt in receipts]})

    def _do(self, verb: str, value: object) -> Any:
        return self.desk.ask("POST", of_queue(self.name, verb), value)


@pytest.fixture(scope="module")
def shop(node: Node, fresh_name: FreshName) -> Shop:
    """Six messages: one settled, two dead, one leased, two waiting."""
    shop = Shop(node, fresh_name("shop"))
    shop.send("Oslo 0", "Rome 1", "Oslo 2", "Rome 3", "Bern 4", "Bern 5")
    first, *others = shop.receive(3)
    shop.settle(first["receipt"])
    shop.give_back(*(each["receipt"] for each in others))
    assert [each["body"] for each in shop.receive(1)] == ["Rome 3"]
    return shop


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


def test_a_query_chooses_what_is_sent_back_to_work(
    spark: SparkSession, tables: QueueTables, shop: Shop, node: Node
) -> None:
    chosen = spark.sql("select message_id from shop_dead_letters where body like 'Oslo%'")
    assert list(redrive(tables, chosen)) == [1]
    assert [row.body for row in tables.dead_letters.collect()] == ["Rome 1"]
    assert "Oslo 2" in {row.body for row in tables.messages.collect()}
    with pytest.raises(PipelineError, match="must give a column message_id; it gives body"):
        list(redrive(tables, spark.sql("select body from shop_dead_letters")))


def test_a_queue_that_is_not_there_is_one_line(spark: SparkSession, node: Node) -> None:
    tables = QueueTables(spark, "no-such-queue", bootstrap=node.bootstrap, http=node.http)
    with pytest.raises(Exception, match="no-such-queue") as failure:
        tables.messages.collect()
    assert clear_line(failure.value) == "there is no queue 'no-such-queue'; `longhall queue list` shows what there is"
