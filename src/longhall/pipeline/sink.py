"""Writing with `format("longhall")`: the classes that Spark calls, on executors (`write`) and on the driver (`commit`,
`abort`).

Spark passes pickled copies of these objects around and creates new ones: they hold options and names, never a
connection. Exactly once, the default: an attempt of a task stages its rows (`stage`), and the driver commits all of
them at once (`sink_commit`). At least once: an attempt writes to the topics themselves, and there is nothing to commit.

`abort` need not undo anything. If no commit began, the hall has only a stage that is never read. If one began and
failed, it has cleaned up as far as it could. If one succeeded and Spark did not notice, the rows must stay. The rest is
removed by the next commit, or by retention.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_columns import Layout, layout_of
from longhall.pipeline.sink_commit import Batch, Step, commit_batch, no_step
from longhall.pipeline.sink_options import EXACTLY_ONCE, STAGE_PREFIX, SinkOptions
from longhall.pipeline.stage import Staged, remove
from longhall.pipeline.stage_cleanup import is_cleanup_due, remove_orphans, run_name
from longhall.pipeline.task_writer import Outlet, direct_outlet, stage_outlet, write_rows

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
PATIENCE_MS: Final = 120_000
ABORT_PATIENCE_MS: Final = 5_000


@dataclass
class Written(WriterCommitMessage):
    """The report of a task's attempt to the driver. `staged` is None if there is nothing to commit."""

    query: str
    batch: int
    rows: int
    staged: Staged | None


class LonghallWriter(DataSourceArrowWriter):
    """One batch write: all of it becomes visible at once, or none."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._layout = layout_of(schema, options.topic, options.keep_timestamps)
        self._run = run_name(_now_ms())  # Runs under one name have a stage each; a run under none is its own sink.

    def write(self, iterator: Iterator[Any]) -> Written:
        stage = f"{STAGE_PREFIX}{self._run}"
        rows, staged = write_task(self._options, self._layout, stage, iterator)
        return Written("", self._options.batch_id or 0, rows, staged)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = staged_of(messages)
        if staged:
            options = self._options
            commit(options, Batch(options.sink or self._run, "", options.batch_id, keeps_stage=False), staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the stage, which belongs to this run alone."""
        if self._options.delivery != EXACTLY_ONCE:
            return
        stage = f"{STAGE_PREFIX}{self._run}"
        with (
            suppress(PipelineError),
            client_of(self._options, ABORT_PATIENCE_MS) as client,
        ):
            client.ask(lambda hall: remove(hall, stage))


class LonghallStreamWriter(DataSourceStreamArrowWriter):
    """A stream: each of its batches becomes visible at once, and exactly once."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._layout = layout_of(schema, options.topic, options.keep_timestamps)

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context is not None else None
        batch = context.getLocalProperty(_BATCH) if context is not None else None
        if query is None or batch is None:
            raise PipelineError("Spark does not say which batch of which query this is")
        stage = STAGE_PREFIX + (self._options.sink or query)
        rows, staged = write_task(self._options, self._layout, stage, iterator)
        return Written(query, int(batch), rows, staged)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        told = [each for each in messages if isinstance(each, Written)]
        staged = staged_of(messages)
        if staged:
            query = told[0].query
            if any(each.batch != batchId for each in told):
                raise PipelineError(f"tasks of another batch answered for batch {batchId}; run it again")
            commit(self._options, Batch(self._options.sink or query, query, batchId), staged, self._step)

    def _step(self, name: str) -> None:
        """Called after each step of a commit; tests override it."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: the stage is used by the next attempt of the batch."""


def staged_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """The staged batches to commit. Raises PipelineError if a task has not reported."""
    if any(each is None for each in messages):
        raise PipelineError("not all tasks have written; the batch must be run again")
    return [each.staged for each in messages if isinstance(each, Written) and each.staged is not None]


def commit(options: SinkOptions, batch: Batch, staged: Sequence[Staged], step: Step = no_step) -> bool:
    async def sealing(hall: Hall) -> bool:
        committed = await commit_batch(hall, batch, staged, _now_ms(), step)
        if is_cleanup_due(batch.number):
            await remove_orphans(hall, _now_ms())
        return committed

    with client_of(options) as client:
        return client.ask(sealing)


def write_task(options: SinkOptions, layout: Layout, stage: str, batches: Iterator[Any]) -> tuple[int, Staged | None]:
    """Write the rows of one attempt of a task."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0

    async def outlet(hall: Hall) -> Outlet:
        if options.delivery == EXACTLY_ONCE:
            return await stage_outlet(hall, stage, task)
        return await direct_outlet(hall)

    with client_of(options) as client:
        return write_rows(client, outlet, layout, options.compression, task, batches)


def client_of(options: SinkOptions, patience_ms: int = PATIENCE_MS) -> BlockingClient:
    """A client with the addresses and the security of a sink."""
    return BlockingClient(
        options.bootstrap, security=options.security, client_id="longhall-spark-sink", patience_ms=patience_ms
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
