"""The tables of usage: what `longhall pipeline usage` has made of the usage topic so far, run by run.

    runs/00000001.json           a run: the offsets of the topic that it has read, and the time up to which it knows
    records/run=00000001/        the rows of its records, without those that an earlier run has
    minute|hour|month/run=.../   sums of these rows, with FOCUS columns

A run that has no file in `runs` did not end, and counts for nothing: the next one takes its number, and writes its
tables again. So every record is in the tables once. A window that had ended when an earlier run ended is closed, and
what comes for it later is a row of its own, with the charge class Correction; nothing that was written is changed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.billing.usage_frames import WINDOWS, once, rows_of, windowed
from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = "records"


class Run(NamedTuple):
    """One run over the topic."""

    number: int
    from_offset: int
    until_offset: int
    records: int  # Without repetitions.
    repeated: int
    known_ms: int  # The end of the newest record: windows that ended before it are closed.

    def facts(self) -> dict[str, int]:
        """For output and storage."""
        return self._asdict()


@final
class UsageTables:
    """The tables below one directory or URL."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._storage = Storage(url)
        self._url = url.rstrip("/")

    def runs(self) -> list[Run]:
        """The runs that ended, in order."""
        found = [self._storage.read(f"runs/{name}") for name in self._names("runs")]
        return [Run(**json.loads(bytes(each))) for each in found]

    def next_offset(self) -> int:
        """Where the next run begins."""
        runs = self.runs()
        return runs[-1].until_offset if runs else 0

    def add(self, records: DataFrame, until_offset: int | None = None) -> Run | None:
        """Add the records of the topic from the end of the last run on; None if there are none."""
        from pyspark.sql import functions as f

        runs = self.runs()
        from_offset = runs[-1].until_offset if runs else 0
        closed_ms = max((run.known_ms for run in runs), default=0)
        new = records.where(f.col("offset") >= from_offset)
        if until_offset is not None:
            new = new.where(f.col("offset") < until_offset)
        every = rows_of(new).persist()
        try:
            rows = once(every)
            if runs:
                known = self.records(runs).select("id").distinct()
                rows = rows.join(known, "id", "left_anti")
            rows = rows.persist()
            try:
                return self._write(every, rows, len(runs) + 1, from_offset, closed_ms)
            finally:
                rows.unpersist()
        finally:
            every.unpersist()

    def _write(self, every: DataFrame, rows: DataFrame, number: int, from_offset: int, closed_ms: int) -> Run | None:
        from pyspark.sql import functions as f

        seen = every.agg(f.max("offset"), f.count_distinct("offset"), f.max("end_ms")).first()
        if seen is None or seen[0] is None:
            return None
        kept = rows.select(f.count_distinct("id")).first()
        count = int(kept[0]) if kept is not None else 0
        rows.write.mode("overwrite").parquet(self._place(RECORDS, number))
        for window in WINDOWS:
            windowed(rows, window, closed_ms).coalesce(1).write.mode("overwrite").parquet(self._place(window, number))
        known_ms = max(closed_ms, int(seen[2]))
        run = Run(number, from_offset, int(seen[0]) + 1, count, int(seen[1]) - count, known_ms)
        if not self._storage.put_if_absent(f"runs/{number:08d}.json", json.dumps(run.facts()).encode()):
            raise PipelineError(f"another job has written run {number} of {self._url} meanwhile; start this one again")
        return run

    def records(self, runs: list[Run]) -> DataFrame:
        """The rows of these runs."""
        return self._read(RECORDS, runs)

    def windows(self, window: str, runs: list[Run]) -> DataFrame:
        """The sums of these runs by window; the column `run` says of which."""
        return self._read(window, runs)

    def _read(self, table: str, runs: list[Run]) -> DataFrame:
        paths = [self._place(table, run.number) for run in runs]
        return self._spark.read.option("basePath", f"{self._url}/{table}").parquet(*paths)

    def _place(self, table: str, number: int) -> str:
        return f"{self._url}/{table}/run={number:08d}"

    # Invoices that were made

    def invoices(self) -> dict[str, dict[str, Any]]:
        """By month: up to which run the invoices of the month know the usage, and with which plan."""
        names = self._names("invoices")
        return {name.removesuffix(".json"): json.loads(bytes(self._storage.read(f"invoices/{name}"))) for name in names}

    def note_invoice(self, month: str, facts: dict[str, Any]) -> None:
        """The invoices of a month are made."""
        self._storage.put_if_absent(f"invoices/{month}.json", json.dumps(facts, sort_keys=True).encode())

    def _names(self, directory: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self._storage.list(directory) if name.endswith(".json"))
