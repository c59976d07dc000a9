"""A reader of partitions from given offsets on, in order.

A reader belongs to no group and commits nothing. It has its positions in memory; a caller that wants to resume later
stores them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, final

from longhall.client.fetched_records import decode_fetched
from longhall.client.groups import Place
from longhall.client.records import (
    FETCH_BYTES_MAX,
    LATEST,
    PARTITION_BYTES_MAX,
    READ_COMMITTED,
    Fetched,
    FetchWanted,
)
from longhall.client.refusals import Refused, Unreachable
from longhall.records.batch import Record

if TYPE_CHECKING:
    from longhall.client.hall import Hall


class Consumed(NamedTuple):
    """A record and its place."""

    topic: str
    partition: int
    record: Record


@final
class Reader:
    """A reader of some partitions; `positions` has the next offset of each."""

    def __init__(
        self,
        hall: Hall,
        positions: dict[Place, int],
        *,
        isolation_level: int = READ_COMMITTED,
        max_wait_ms: int = 500,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        filter: str = "",
    ) -> None:
        self.positions = dict(positions)
        self.ends: dict[Place, int] = {}  # As far as one may read, when it was last asked.
        self._hall = hall
        self._line = hall.new_line()
        self._isolation_level = isolation_level
        self._max_wait_ms = max_wait_ms
        self._partition_bytes_max = partition_bytes_max
        self._filter = filter
        self._first = 0

    @classmethod
    async def open(
        cls,
        hall: Hall,
        topic: str,
        start: int,
        *,
        partitions: list[int] | None = None,
        isolation_level: int = READ_COMMITTED,
        max_wait_ms: int = 500,
    ) -> Reader:
        """Start at EARLIEST, at LATEST, or at a time in milliseconds; a time after the last record means the end."""
        if partitions is None:
            partitions = [part.partition_index for part in (await hall.topics.describe(topic)).partitions]
        found = await hall.persist(lambda: hall.records.list_offsets(topic, dict.fromkeys(partitions, start)))
        if any(each.offset < 0 for each in found.values()):
            ends = await hall.persist(lambda: hall.records.list_offsets(topic, dict.fromkeys(partitions, LATEST)))
            found = {part: each if each.offset >= 0 else ends[part] for part, each in found.items()}
        positions = {(topic, part): each.offset for part, each in found.items()}
        return cls(hall, positions, isolation_level=isolation_level, max_wait_ms=max_wait_ms)

    @property
    def at_end(self) -> bool:
        """True if everything is read that existed when the last poll returned."""
        return all(self.positions[place] >= self.ends.get(place, 1 << 62) for place in self.positions)

    def close(self) -> None:
        self._hall.close_line(self._line)

    async def poll(self) -> list[Consumed]:
        """The next records, or none within the wait time. Raises Refused if reading cannot continue."""
        if not self.positions:
            await asyncio.sleep(self._max_wait_ms / 1000)
            return []
        return await self._hall.persist(self._poll)

    async def _poll(self) -> list[Consumed]:
        try:
            by_leader = await self._by_leader()
            answers = await asyncio.gather(*(self._fetch(node_id, wanted) for node_id, wanted in by_leader.items()))
        except (Refused, Unreachable):
            self._forget()
            raise
        consumed: list[Consumed] = []
        for fetched in [each for answer in answers for each in answer]:
            if fetched.error_code != 0:
                if consumed:
                    break  # What is read is handed out; the error will be there again.
                self._forget()
                raise Refused(fetched.error_code, f"{fetched.topic}-{fetched.partition}")
            consumed += self._take(fetched)
        return consumed

    async def _by_leader(self) -> dict[int, list[FetchWanted]]:
        """All partitions, starting at another one each time, so that none starves behind a full response."""
        places = list(self.positions)
        self._first = (self._first + 1) % len(places)
        by_leader: dict[int, list[FetchWanted]] = {}
        for topic, partition in places[self._first :] + places[: self._first]:
            leader = await self._hall.leader_of(topic, partition)
            wanted = FetchWanted(topic, partition, self.positions[topic, partition], self._partition_bytes_max)
            by_leader.setdefault(leader, []).append(wanted)
        return by_leader

    async def _fetch(self, node_id: int, wanted: list[FetchWanted]) -> list[Fetched]:
        return await self._hall.records.fetch_from(
            node_id, wanted, self._max_wait_ms, 1, FETCH_BYTES_MAX, self._isolation_level, self._line, self._filter
        )

    def _take(self, fetched: Fetched) -> list[Consumed]:
        place = (fetched.topic, fetched.partition)
        if place not in self.positions:
            return []
        opened = decode_fetched(fetched, self.positions[place])
        committed_only = self._isolation_level == READ_COMMITTED
        self.ends[place] = fetched.last_stable_offset if committed_only else fetched.high_watermark
        self.positions[place] = opened.next_offset
        return [Consumed(fetched.topic, fetched.partition, record) for record in opened.records]

    def _forget(self) -> None:
        for topic, _ in self.positions:
            self._hall.forget(topic)
