"""`format("longhall-queue")`: the messages, leases or dead letters of a queue at the time of the query.

Options: `http` (the node's HTTP address), `queue`, `table`, and `accessKey` and `secret` if the node requires them. One
task reads all pages, because a page says where the next begins. Every query reads the current state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from longhall.pipeline.api_client import DEFAULT_HTTP, ApiClient, queue_path
from longhall.pipeline.queue_rows import TABLES, arrow_batch, spark_schema
from longhall.pipeline.refusals import PipelineError

NAME: Final = "longhall-queue"
_PATHS: Final = {"messages": "messages", "leases": "leases", "dead_letters": "letters"}
_PAGE: Final = {"messages": 1000, "leases": 1000, "dead_letters": 100}


class QueueSource(DataSource):
    """The data source that `longhall.pipeline.queue_tables` registers."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return spark_schema(self._table())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self.options
        queue = options.get("queue")
        if not queue:
            raise PipelineError("say which queue: the option queue is missing")
        desk = ApiClient(options.get("http") or DEFAULT_HTTP, options.get("accessKey", ""), options.get("secret", ""))
        return QueueReader(desk, queue, self._table())

    def _table(self) -> str:
        table = self.options.get("table", "messages")
        if table not in TABLES:
            raise PipelineError(f"there is no table {table}; there is {', '.join(TABLES)}")
        return table


class QueueReader(DataSourceReader):
    """One read of one table of a queue."""

    def __init__(self, desk: ApiClient, queue: str, table: str) -> None:
        self._desk = desk
        self._queue = queue
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        self._desk.ask(
            "GET", queue_path(self._queue)
        )  # A missing queue is reported here, before a task fails four times.
        self._desk.close()
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        path = queue_path(self._queue, _PATHS[self._table])
        field = _PATHS[self._table]
        for page in self._desk.pages(path, field, {"count": _PAGE[self._table]}):
            if page:
                yield arrow_batch(self._table, page)
        self._desk.close()
