"""`format("longhall")`: the classes that Spark calls to plan and read batches. Streams are in `stream`.

Spark creates these objects in several processes and passes pickled copies around: they hold options and plans, never a
connection. The planner runs on the driver and `read` on executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from longhall.pipeline.arrow_table import SPARK_TYPES
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.filters import FilterWanted
from longhall.pipeline.options import Given, Offsets, SourceOptions, read_options
from longhall.pipeline.partition_reader import ReadTask, read
from longhall.pipeline.plan import Range, ranges_between, split
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_options import read_sink_options
from longhall.pipeline.subscription_metadata import SubscriptionMetadata, Topic
from longhall.records.varint import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class LonghallSource(DataSource):
    """The data source that `longhall.pipeline.register` registers."""

    @classmethod
    def name(cls) -> str:
        return "longhall"

    def schema(self) -> str:
        with_headers = Given(self.options).flag("includeHeaders", False)
        names = [name for name in SPARK_TYPES if with_headers or name != "headers"]
        return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in names)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, streaming=False)
        return (FilteringReader if options.push_down_filters else LonghallReader)(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from longhall.pipeline.stream import LonghallStreamReader

        return LonghallStreamReader(read_options(self.options, streaming=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from longhall.pipeline.sink import LonghallWriter

        return LonghallWriter(read_sink_options(self.options, streaming=False, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from longhall.pipeline.sink import LonghallStreamWriter

        return LonghallStreamWriter(read_sink_options(self.options, streaming=True, overwrite=overwrite), schema)


class LonghallReader(DataSourceReader):
    """One batch: the messages between the starting and the ending offsets."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._wanted = FilterWanted()

    def partitions(self) -> Sequence[InputPartition]:
        options, wanted = self._options, self._wanted
        with BlockingClient(options.bootstrap, security=options.security) as client:
            survey = SubscriptionMetadata(client, options.subscription, options.read_committed)
            topics = survey.topics()
            start = survey.resolve(options.starting, topics, is_end=False)
            end = survey.resolve(options.ending, topics, is_end=True)
            check_begin(start, survey.earliest(topics), options.fail_on_data_loss)
            ranges = self._filtered(survey, start, end)
        return tasks(
            split(ranges, options.partitions_min, options.partition_rows_max), topics, options, self._columns, wanted
        )

    def _filtered(self, survey: SubscriptionMetadata, start: Offsets, end: Offsets) -> list[Range]:
        wanted = self._wanted
        ranges = [
            each._replace(start=max(each.start, wanted.first_offset), end=min(each.end, wanted.end_offset))
            for each in ranges_between(start, end)
            if wanted.has(each.topic, each.partition)
        ]
        if wanted.first_ms != INT64_MIN and ranges:
            # Before the first message that is not older there is none: the index by time spares reading them.
            asked: Offsets = {}
            for each in ranges:
                asked.setdefault(each.topic, {})[each.partition] = max(wanted.first_ms, 0)
            found = survey.by_time(asked)
            ranges = [
                each._replace(start=max(each.start, offset)) if offset >= 0 else each._replace(start=each.end)
                for each in ranges
                for offset in [found[each.topic][each.partition]]
            ]
        return [each for each in ranges if each.size > 0]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition)


class FilteringReader(LonghallReader):
    """One batch that applies filters while it reads. It is opt-in.

    Spark keeps one plan for all queries on one DataFrame: a plan with a filter is used for the next query without one
    as well, and of two filters in one query the last applies to both. So it is safe only for a DataFrame that is used
    once.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return list(self._wanted.take(filters))


def read_task(partition: InputPartition) -> Iterator[Any]:
    """Read one task on an executor. Spark makes an empty task where there is nothing to read."""
    return iter(()) if partition.value is None else read(partition.value)


def tasks(
    ranges: Iterable[Range],
    topics: Mapping[str, Topic],
    options: SourceOptions,
    columns: tuple[str, ...],
    wanted: FilterWanted,
) -> list[InputPartition]:
    """Ranges as the tasks that Spark sends to executors."""
    return [
        InputPartition(
            ReadTask(
                bootstrap=options.bootstrap,
                topic=each.topic,
                topic_id=topics[each.topic].id,
                partition=each.partition,
                start=each.start,
                end=each.end,
                columns=columns,
                leader=topics[each.topic].leaders.get(each.partition),
                read_committed=options.read_committed,
                fail_on_data_loss=options.fail_on_data_loss,
                first_ms=wanted.first_ms,
                last_ms=wanted.last_ms,
                security=options.security,
            )
        )
        for each in ranges
    ]


def check_begin(start: Offsets, earliest: Offsets, fail_on_data_loss: bool) -> None:
    """Move offsets that are deleted to the first offset that exists, or raise PipelineError."""
    for topic, parts in start.items():
        for part, offset in parts.items():
            first = earliest.get(topic, {}).get(part, offset)
            if offset < first:
                if fail_on_data_loss:
                    raise PipelineError(
                        f"{topic}-{part}: offsets {offset} to {first - 1} were deleted before they were read; "
                        "set the option failOnDataLoss to false to go on without them"
                    )
                parts[part] = first


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema. Raises PipelineError for an unknown column or another type."""
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if SPARK_TYPES.get(field.name) != kind:
            there = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in SPARK_TYPES)
            raise PipelineError(f"there is no column {field.name} {kind}; there is {there}")
    return tuple(field.name for field in schema.fields)
