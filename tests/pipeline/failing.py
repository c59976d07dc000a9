"""A data source that writes as Longhall's does, and fails once in a task and once behind a commit, on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from longhall.pipeline.sink import LonghallStreamWriter, Written
from longhall.pipeline.sink_options import read_sink_options
from longhall.pipeline.source import LonghallSource


def first_time(marks: str, name: str) -> bool:
    """True for the first failure of its kind."""
    try:
        (Path(marks) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class FailingSource(LonghallSource):
    @classmethod
    def name(cls) -> str:
        return "longhall-failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = read_sink_options(self.options, streaming=True, overwrite=overwrite)
        return FailingWriter(options, schema, self.options["marks"])


class FailingWriter(LonghallStreamWriter):
    def __init__(self, options: Any, schema: StructType, marks: str) -> None:
        super().__init__(options, schema)
        self._marks = marks

    def write(self, iterator: Iterator[Any]) -> Written:
        written = super().write(iterator)
        if first_time(self._marks, "task"):
            raise RuntimeError("a task fails on purpose")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        if first_time(self._marks, "commit"):
            raise RuntimeError("a commit fails on purpose")
