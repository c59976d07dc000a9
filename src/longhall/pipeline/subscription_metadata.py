"""The metadata of a subscription: its topics with their partitions and leaders, and offsets by name and by time.

The driver asks; tasks get the result. A queue is a topic here, by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

from longhall.client.hall import Hall
from longhall.client.records import READ_COMMITTED, READ_UNCOMMITTED
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.options import EARLIEST, LATEST, Bound, Offsets, Subscription
from longhall.pipeline.refusals import PipelineError


class Topic(NamedTuple):
    """One topic as its brokers describe it: leaders by partition, None where there is none now."""

    name: str
    id: bytes
    leaders: dict[int, tuple[str, int] | None]


@final
class SubscriptionMetadata:
    """Metadata requests for one subscription. Raises PipelineError."""

    def __init__(self, client: BlockingClient, subscription: Subscription, read_committed: bool = False) -> None:
        self._client = client
        self._subscription = subscription
        self._isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED

    def topics(self) -> dict[str, Topic]:
        """The topics of the subscription as they are now. A topic that is named must exist."""
        wanted = self._subscription
        names = None if wanted.pattern else [*wanted.names, *wanted.assigned]

        async def ask(hall: Hall) -> dict[str, Topic]:
            answer = await hall.persist(lambda: hall.metadata(names))
            brokers = hall.brokers
            found: dict[str, Topic] = {}
            for topic in answer.topics:
                name = topic.name or ""
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and names is not None:
                    raise PipelineError(f"there is no topic {name}; `longhall topic list` shows what there is")
                if topic.error_code or not wanted.takes(name) or (wanted.pattern and topic.is_internal):
                    continue
                leaders = {part.partition_index: brokers.get(part.leader_id) for part in topic.partitions}
                found[name] = Topic(name, topic.topic_id, self._assigned(name, leaders))
            return found

        return self._client.ask(ask)

    def _assigned(self, name: str, leaders: dict[int, tuple[str, int] | None]) -> dict[int, tuple[str, int] | None]:
        asked = self._subscription.assigned.get(name)
        if asked is None:
            return leaders
        missing = [part for part in asked if part not in leaders]
        if missing:
            raise PipelineError(f"topic {name} has no partition {missing[0]}; it has {len(leaders)}")
        return {part: leaders[part] for part in asked}

    def earliest(self, topics: Mapping[str, Topic]) -> Offsets:
        return self._at(topics, EARLIEST)

    def latest(self, topics: Mapping[str, Topic]) -> Offsets:
        """The end of what may be read: for committed messages, the start of the oldest open transaction."""
        return self._at(topics, LATEST)

    def _at(self, topics: Mapping[str, Topic], when: int) -> Offsets:
        return self.by_time({name: dict.fromkeys(topic.leaders, when) for name, topic in topics.items()})

    def by_time(self, times_ms: Offsets) -> Offsets:
        """The first offset that is not older than a time; -1 if there is none."""

        async def ask(hall: Hall) -> Offsets:
            found: Offsets = {}
            for topic, times in times_ms.items():
                if times:
                    listed = await hall.persist(
                        lambda topic=topic, times=times: hall.records.list_offsets(  # type: ignore[misc]
                            topic, times, isolation_level=self._isolation
                        )
                    )
                    found[topic] = {part: each.offset for part, each in sorted(listed.items())}
            return found

        return self._client.ask(ask)

    def resolve(self, bound: Bound, topics: Mapping[str, Topic], *, is_end: bool) -> Offsets:
        """A bound as offsets of the existing partitions."""
        if bound.timestamp_ms is not None:
            times = {name: dict.fromkeys(topic.leaders, bound.timestamp_ms) for name, topic in topics.items()}
            return self._from_times(times, topics, bound)
        if bound.timestamps_ms is not None:
            _must_match(bound.timestamps_ms, topics, "OffsetsByTimestamp", is_end)
            return self._from_times(bound.timestamps_ms, topics, bound)
        if bound.offsets is None:
            return self._at(topics, bound.everywhere)
        _must_match(bound.offsets, topics, "Offsets", is_end)
        offsets = {topic: dict(parts) for topic, parts in bound.offsets.items()}
        for special in (EARLIEST, LATEST):
            asked = {
                topic: dict.fromkeys((part for part, offset in parts.items() if offset == special), special)
                for topic, parts in bound.offsets.items()
            }
            for topic, parts in self.by_time({topic: parts for topic, parts in asked.items() if parts}).items():
                offsets[topic].update(parts)
        return offsets

    def _from_times(self, times_ms: Offsets, topics: Mapping[str, Topic], bound: Bound) -> Offsets:
        found = self.by_time(times_ms)
        missing = [(topic, part) for topic, parts in found.items() for part, offset in parts.items() if offset < 0]
        if missing and not bound.missing_is_latest:
            topic, part = missing[0]
            raise PipelineError(
                f"{topic}-{part} has no message from {times_ms[topic][part]} on; "
                "set startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        if missing:
            ends = self.latest(topics)
            for topic, part in missing:
                found[topic][part] = ends[topic][part]
        return found

    def row_bytes(self, topics: Mapping[str, Topic]) -> dict[tuple[str, int], float]:
        """The average size of a message on disk, by partition."""

        async def ask(hall: Hall) -> dict[tuple[str, int], int]:
            return await hall.topics.sizes()

        sizes = self._client.ask(ask)
        first, last = self.earliest(topics), self.latest(topics)
        return {
            (name, part): sizes.get((name, part), 0) / max(1, last[name][part] - first[name][part])
            for name, topic in topics.items()
            for part in topic.leaders
        }


def _must_match(given: Offsets, topics: Mapping[str, Topic], what: str, is_end: bool) -> None:
    """Given offsets must cover exactly the partitions that are read, as Spark's Kafka source requires."""
    name = f"{'ending' if is_end else 'starting'}{what}"
    have = {(topic, part) for topic, each in topics.items() for part in each.leaders}
    listed = {(topic, part) for topic, parts in given.items() for part in parts}
    if have != listed:
        topic, part = sorted(have ^ listed)[0]
        words = "has no offset for it" if (topic, part) in have else "names it, and it is not read"
        raise PipelineError(f"{name} must list exactly the partitions that are read: {topic}-{part}: {name} {words}")
