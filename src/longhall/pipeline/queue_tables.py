"""The state and the past of a queue as tables: frames, and views of Spark SQL by one call.

    tables = QueueTables(spark, "orders", bootstrap="127.0.0.1:9092", http="127.0.0.1:8080").register()
    spark.sql("select reason, count(*) from orders_dead_letters group by reason")
    redrive(tables, spark.sql("select message_id from orders_dead_letters where body like '%Oslo%'"))

`messages`, `leases` and `dead_letters` are looked at anew by every query; `deliveries`, `settlements` and `audit` are
what the queue's audit topic says, live or out of an archive.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, final

from longhall.pipeline.api_client import DEFAULT_HTTP, ApiClient, queue_path
from longhall.pipeline.audit_frames import audit_of, audit_topic, deliveries_of, read_live, settlements_of
from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIVE: Final = ("messages", "leases", "dead_letters")
PAST: Final = ("deliveries", "settlements", "audit")
CHOSEN_MAX: Final = 1000  # Messages that one move of the node can name.
LOOK_AGAIN_S: Final = 0.2
_ENDED: Final = {"COMPLETED", "CANCELLED", "FAILED"}


@final
class QueueTables:
    """The tables of one queue as DataFrames. `records` replaces the audit topic by records from an archive."""

    def __init__(
        self,
        spark: SparkSession,
        queue: str,
        *,
        bootstrap: str = "127.0.0.1:9092",
        http: str = DEFAULT_HTTP,
        access_key: str = "",
        secret: str = "",
        records: DataFrame | None = None,
    ) -> None:
        from longhall.pipeline.queue_source import QueueSource
        from longhall.pipeline.spark import register

        register(spark)
        spark.dataSource.register(QueueSource)
        self.queue = queue
        self._http = {"http": http, "accessKey": access_key, "secret": secret}
        self._spark = spark
        self._bootstrap = bootstrap
        self._records = records
        self._letters = ""

    @property
    def messages(self) -> DataFrame:
        """The messages of the queue, with the state of each: waiting, leased or delayed."""
        return self._live("messages", self.queue)

    @property
    def leases(self) -> DataFrame:
        """The leased messages, with their consumers and the end of each lease."""
        return self._live("leases", self.queue)

    @property
    def dead_letters(self) -> DataFrame:
        """The dead letters of the queue; for a dead-letter queue, all of its messages."""
        letters = self._live("dead_letters", self.letters_queue)
        return letters if self.letters_queue == self.queue else letters.where(letters["source"] == self.queue)

    @property
    def letters_queue(self) -> str:
        """The queue of its dead letters: the queue itself if it is a dead-letter queue."""
        if not self._letters:
            desk = self.desk()
            described = desk.ask("GET", queue_path(self.queue))
            desk.close()
            target = described["settings"].get("dead_letters")
            own = bool(described["dead_letters_of"]) or not target
            self._letters = self.queue if own else str(target["queue"])
        return self._letters

    def desk(self) -> ApiClient:
        """The API of the node."""
        return ApiClient(self._http["http"], self._http["accessKey"], self._http["secret"])

    @property
    def audit(self) -> DataFrame:
        """Every event of the audit topic."""
        if self._records is None:
            return audit_of(read_live(self._spark, self._bootstrap, audit_topic(self.queue)))
        return audit_of(self._records)

    @property
    def deliveries(self) -> DataFrame:
        return deliveries_of(self.audit)

    @property
    def settlements(self) -> DataFrame:
        return settlements_of(self.audit)

    def register(self, prefix: str | None = None, names: Sequence[str] = (*LIVE, *PAST)) -> Self:
        """Create views of the tables: `orders_messages` and so on. A character that cannot be in a name becomes an
        underscore.
        """
        start = (re.sub(r"\W", "_", self.queue, flags=re.ASCII) + "_") if prefix is None else prefix
        for name in names:
            frame: DataFrame = getattr(self, name)
            frame.createOrReplaceTempView(start + name)
        return self

    def _live(self, table: str, queue: str) -> DataFrame:
        reader = self._spark.read.format("longhall-queue").options(**self._http)
        return reader.option("queue", queue).option("table", table).load()


def redrive(
    tables: QueueTables, chosen: DataFrame, *, target: str = "", rate_max: int = 0, patience_s: float = 3600.0
) -> Iterator[int]:
    """Move the dead letters that a query chose; yields after each move how many have been moved so far.

    The result of the query must have a column `message_id`. An empty target moves each letter to its source queue.
    Letters that are gone or leased are skipped. Raises PipelineError.
    """
    if "message_id" not in chosen.columns:
        raise PipelineError(f"the query must give a column message_id; it gives {', '.join(chosen.columns)}")
    ids = [str(row[0]) for row in chosen.select("message_id").where("message_id is not null").distinct().collect()]
    desk = tables.desk()
    moved = 0
    for at in range(0, len(ids), CHOSEN_MAX):
        request = {"target": target, "rate_max": rate_max, "ids": ids[at : at + CHOSEN_MAX]}
        move = desk.ask("POST", queue_path(tables.letters_queue, "moves"), request)
        move = _wait(desk, tables.letters_queue, move, patience_s)
        moved += int(move["moved"])
        yield moved
        if move["state"] != "COMPLETED":
            raise PipelineError(
                f"the move {move['state'].lower()} after {moved} messages: {move['failure'] or 'stopped'}"
            )
    desk.close()


def run_query(spark: SparkSession, tables: QueueTables, query: str) -> DataFrame:
    """Run a query over registered tables. Raises PipelineError with the first line of Spark's message."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        result = spark.sql(query)
        _ = result.schema
        return result
    except (AnalysisException, ParseException) as failure:
        said = next(line.strip() for line in str(failure).splitlines() if line.strip())
        raise PipelineError(f"the query about {tables.queue} is not understood: {said}") from None


def _wait(desk: ApiClient, queue: str, move: dict[str, Any], patience_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + patience_s
    while move["state"] not in _ENDED:
        if time.monotonic() > deadline:
            raise PipelineError(f"the move goes on by itself; `longhall dlq moves {queue}` shows how far")
        time.sleep(LOOK_AGAIN_S)
        found = [
            each for each in desk.ask("GET", queue_path(queue, "moves"))["moves"] if each["task_id"] == move["task_id"]
        ]
        if not found:
            raise PipelineError("the node does not know the move any more")
        move = found[0]
    return move
