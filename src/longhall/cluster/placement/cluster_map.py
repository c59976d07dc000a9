"""The cluster map: for every partition of every topic and queue its replication group, leader, replicas and size.

The leader of the hall makes it from its catalogue, from the records of all groups, and from sizes that it asks of their
leaders. A group that does not answer in time has no sizes in the map; the rest is complete.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, final

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import IN_THE_HALL, PLACEMENT
from longhall.broker.hall import Hall
from longhall.broker.leadership import Leadership
from longhall.cluster.placement.group_directory import GroupDirectory
from longhall.cluster.placement.group_measures import sizes_of
from longhall.cluster.placement.topic_operations import MeasureTopics, PartitionSize
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD

PAGE_TOPICS_MAX: Final = 1000
PAGE_ROWS_MAX: Final = 10_000  # A page ends with the topic that reaches it.
SIZES_S_MAX: Final = 3.0

Sizes = dict[str, dict[int, PartitionSize]]


class MappedPartition(msgspec.Struct, kw_only=True):
    """One partition. Hosts are node numbers; the leader is 0 if there is none. Sizes are null if they are unknown."""

    name: str
    kind: str  # "queue" or "topic".
    partition: int
    placement: str
    group: str  # "hall" for the main replication group.
    leader: int
    replicas: list[int]
    in_sync: list[int]
    size_bytes: int | None = None
    messages: int | None = None


class MapPage(msgspec.Struct, kw_only=True):
    """A page of the map, by name. `next` is the last name of the page if there are more, else empty."""

    partitions: list[MappedPartition]
    next: str = ""


@final
class ClusterMap:
    """The map at the leader of the hall."""

    def __init__(self, hall: Hall, leadership: Leadership, groups: GroupDirectory) -> None:
        self._hall = hall
        self._leadership = leadership
        self._groups = groups

    async def page(self, prefix: str, after: str, limit: int) -> MapPage:
        """Up to `limit` topics and queues whose names begin with `prefix`, in the order of their names."""
        names = sorted(name for name in self._hall.catalogue.topics if name.startswith(prefix))
        first = bisect_right(names, after) if after else 0
        topics: list[Topic] = []
        rows = 0
        for name in names[first : first + limit]:
            topics.append(self._hall.catalogue.topics[name])
            rows += len(topics[-1].partitions)
            if rows >= PAGE_ROWS_MAX:
                break
        sizes = await self._sizes(topics)
        more = first + len(topics) < len(names)
        return MapPage(
            partitions=[row for topic in topics for row in self._rows(topic, sizes)],
            next=topics[-1].name if more and topics else "",
        )

    async def _sizes(self, topics: Iterable[Topic]) -> Sizes:
        by_group: dict[int, list[str]] = {}
        for topic in topics:
            for number in set(topic.options.wings or [0]):
                by_group.setdefault(number, []).append(topic.name)
        sizes: Sizes = {}
        answers = await asyncio.gather(*(self._ask(number, names) for number, names in by_group.items()))
        for answer in answers:
            for name, partitions in answer.items():
                sizes.setdefault(name, {}).update({one.number: one for one in partitions})
        return sizes

    async def _ask(self, number: int, names: list[str]) -> dict[str, list[PartitionSize]]:
        if number == 0:
            return sizes_of(self._hall, names)
        try:
            async with asyncio.timeout(SIZES_S_MAX):
                return await self._groups.call(number, MeasureTopics(names), now=True)
        except (LonghallError, TimeoutError):
            return {}

    def _rows(self, topic: Topic, sizes: Sizes) -> list[MappedPartition]:
        placed = topic.options.wings
        known = sizes.get(topic.name, {})
        kind = "queue" if topic.name in self._hall.catalogue.queues.by_name else "topic"
        rows: list[MappedPartition] = []
        for partition in range(len(topic.partitions)):
            number = placed[partition % len(placed)] if placed else 0
            name, group, leader = self._group(number)
            size = known.get(partition)
            row = MappedPartition(
                name=topic.name,
                kind=kind,
                partition=partition,
                placement=topic.configuration.get(PLACEMENT, IN_THE_HALL),
                group=name,
                leader=leader,
                replicas=group.replicas(CATALOGUE_SHARD) if group is not None else [],
                in_sync=group.in_sync(CATALOGUE_SHARD) if group is not None else [],
                size_bytes=size.size_bytes if size is not None else None,
                messages=size.messages if size is not None else None,
            )
            rows.append(row)
        return rows

    def _group(self, number: int) -> tuple[str, Leadership | None, int]:
        """The name, the record and the live leader of a group."""
        if number == 0:
            return IN_THE_HALL, self._leadership, self._leadership.leader_node(CATALOGUE_SHARD)
        name = next((one.name for one in self._groups.records.values() if one.number == number), str(number))
        client = self._groups.client(number)
        return name, client, client.state.leader if client is not None and client.is_led else 0
