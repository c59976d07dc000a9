"""Streams of `format("longhall")`: the offsets of a query, the end of its next batch, and the lag of its group.

Offsets are `{"topic":{"0":123}}`, as Spark's Kafka source has them, beside the ids of the topics: a topic that was
deleted and created again is another topic. With `groupId` the finished offsets of a query are committed for that
consumer group, so that any tool shows its lag; they are published and never read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from longhall.client.groups import Committed
from longhall.client.hall import Hall
from longhall.errors import LonghallError
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.filters import FilterWanted
from longhall.pipeline.options import Offsets, SourceOptions
from longhall.pipeline.plan import from_json, limit_bytes, limit_rows, ranges_between, split, to_json
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.source import check_begin, read_task, tasks
from longhall.pipeline.subscription_metadata import SubscriptionMetadata, Topic


class LonghallStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query, in a process of its own for as long as the query; only `read` runs on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._client: BlockingClient | None = None
        self._target: Offsets | None = None  # With Trigger.AvailableNow: what there was when it began.
        self._published: Offsets = {}
        self._began = time.monotonic()  # When the batch before was let through.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    # What Spark calls.

    def initialOffset(self) -> dict[str, Any]:
        survey = self._survey()
        topics = survey.topics()
        return to_json(survey.resolve(self._options.starting, topics, is_end=False), _ids(topics))

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.rows_max is not None:
            return ReadMaxRows(options.rows_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        return ReadAllAvailable() if options.rows_min is None else ReadMinRows(options.rows_min)

    def prepareForTriggerAvailableNow(self) -> None:
        survey = self._survey()
        self._target = survey.latest(survey.topics())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        survey = self._survey()
        topics = survey.topics()
        begin = self._begin(start, topics, survey)
        self._publish(from_json(start)[0])
        end = self._forward(begin, self._available(survey, topics))
        if not isinstance(limit, ReadAllAvailable):
            if self._waits_for_more(begin, end):
                return start
            if self._options.rows_max is not None:
                end = limit_rows(begin, end, self._options.rows_max)
            if self._options.bytes_max is not None:
                end = limit_bytes(begin, end, self._options.bytes_max, survey.row_bytes(topics))
        self._began = time.monotonic()
        return to_json(end, _ids(topics))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        survey = self._survey()
        topics = survey.topics()
        return to_json(survey.latest(topics), _ids(topics))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        survey = self._survey()
        topics = survey.topics()
        begin = self._begin(start, topics, survey)
        until, _ = from_json(end)
        until = {topic: parts for topic, parts in until.items() if topic in topics}
        pieces = split(ranges_between(begin, until), self._options.partitions_min, self._options.partition_rows_max)
        return tasks(pieces, topics, self._options, self._columns, FilterWanted())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._publish(from_json(end)[0])

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # What they are made of.

    def _survey(self) -> SubscriptionMetadata:
        if self._client is None:
            self._client = BlockingClient(self._options.bootstrap, security=self._options.security)
        return SubscriptionMetadata(self._client, self._options.subscription, self._options.read_committed)

    def _begin(self, start: dict[str, Any], topics: dict[str, Topic], survey: SubscriptionMetadata) -> Offsets:
        """The start of the next batch: the offsets that were read, and the beginning of partitions that are new."""
        begin, ids = from_json(start)
        earliest = survey.earliest(topics)
        for name, topic in topics.items():
            if ids.get(name, topic.id.hex()) != topic.id.hex():
                self._lost(f"topic {name} was deleted and made anew since it was read")
                begin[name] = {}
            known = begin.setdefault(name, {})
            for part in topic.leaders:
                known.setdefault(part, earliest[name][part])
        for name in [name for name in begin if name not in topics]:
            self._lost(f"topic {name} is not there any more")
            del begin[name]
        check_begin(begin, earliest, self._options.fail_on_data_loss)
        return begin

    def _available(self, survey: SubscriptionMetadata, topics: dict[str, Topic]) -> Offsets:
        latest = survey.latest(topics)
        if self._target is None:
            return latest
        return {
            topic: {part: min(offset, self._target.get(topic, {}).get(part, 0)) for part, offset in parts.items()}
            for topic, parts in latest.items()
        }

    def _forward(self, begin: Offsets, available: Offsets) -> Offsets:
        """Keep an end from moving back: an end before the start means that messages were deleted which were read
        already.
        """
        end: Offsets = {}
        for topic, parts in available.items():
            end[topic] = {}
            for part, offset in parts.items():
                first = begin[topic][part]
                if offset < first and self._target is None:
                    self._lost(f"{topic}-{part} ends at {offset} and was read to {first} already")
                end[topic][part] = max(offset, first)
        return end

    def _lost(self, words: str) -> None:
        if self._options.fail_on_data_loss:
            raise PipelineError(f"{words}; set the option failOnDataLoss to false to go on")

    def _waits_for_more(self, begin: Offsets, end: Offsets) -> bool:
        """With minOffsetsPerTrigger: true if there is so little that the next batch can wait."""
        rows_min = self._options.rows_min
        if rows_min is None or self._target is not None:
            return False
        late = (time.monotonic() - self._began) * 1000 > self._options.trigger_delay_max_ms
        return not late and sum(each.size for each in ranges_between(begin, end)) < rows_min

    def _publish(self, offsets: Offsets) -> None:
        """Commit the offsets for the group. A failure does not stop the query."""
        group_id = self._options.group_id
        if not group_id or offsets == self._published or self._client is None:
            return
        places = {
            (topic, part): Committed(offset) for topic, parts in offsets.items() for part, offset in parts.items()
        }

        async def commit(hall: Hall) -> None:
            await hall.groups.commit(group_id, places)

        try:
            self._client.try_to(commit)
            self._published = offsets
        except LonghallError:
            pass


def _ids(topics: dict[str, Topic]) -> dict[str, str]:
    return {name: topic.id.hex() for name, topic in topics.items()}
