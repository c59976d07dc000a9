"""Batches to their partitions: in order, each once, many partitions in one request.

    send ----> waits for its turn ----> a round: the first batch of every partition, one request a leader ----> placed

A batch keeps its sequence numbers however often it is sent, so the hall recognises it if a response was lost. Within a
transaction every partition is added before its first batch. After a failure nothing further is sent: the owner of the
transaction or attempt ends it, which decides the fate of the batches. The waiting bytes are bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple, final

from longhall.client.connection import REQUEST_TIMEOUT_MS
from longhall.client.groups import Place
from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable, check
from longhall.client.transactions import Identity
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.schema import NO_ID
from longhall.errors import LonghallError
from longhall.records.batch import parse_header, with_producer

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
PATIENCE_MS: Final = 120_000
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_BY_NAME_VERSION_MAX: Final = 12
_EXPLICIT_VERSION_MAX: Final = 11  # From the next Produce on, partitions join a transaction by being written to.


class _Stamped(NamedTuple):
    place: Place
    batch: bytes


@final
class Delivery:
    """The batches of one producer, on one loop."""

    def __init__(self, hall: Hall, identity: Identity, transactional_id: str | None = None) -> None:
        self._hall = hall
        self._identity = identity
        self._transactional_id = transactional_id
        self._waiting: dict[Place, deque[bytes]] = {}
        self._waiting_bytes = 0
        self._sequences: dict[Place, int] = {}
        self._joined: set[Place] = set()
        self._room = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._failure: LonghallError | None = None

    async def send(self, place: Place, batch: bytes) -> None:
        """Queue a batch, and wait while too many bytes are queued. Raises the failure of an earlier batch."""
        while self._waiting_bytes > WAITING_BYTES_MAX and self._failure is None:
            self._room.clear()
            await self._room.wait()
        self._check()
        self._waiting.setdefault(place, deque()).append(batch)
        self._waiting_bytes += len(batch)
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._drain())

    async def flush(self) -> None:
        """Wait until every batch is acknowledged. Raises Refused or Unreachable."""
        if self._sender is not None:
            await self._sender
        self._check()

    async def give_up(self) -> None:
        """Send nothing more."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._round()
                self._room.set()
        except LonghallError as failure:
            self._failure = failure
        finally:
            self._sender = None
            self._room.set()

    async def _round(self) -> None:
        """Send one batch of each partition that has one, up to the request limit. Those that did not fit are first in
        the next round.
        """
        stamped: list[_Stamped] = []
        size = 0
        for place in list(self._waiting):
            queue = self._waiting[place]
            if stamped and size + len(queue[0]) > REQUEST_BYTES_MAX:
                break
            batch = queue.popleft()
            size += len(batch)
            stamped.append(self._stamp(place, batch))
            del self._waiting[place]
            if queue:
                self._waiting[place] = queue  # Behind the others.
        await self._join([each.place for each in stamped])
        left = stamped

        async def attempt() -> None:
            nonlocal left
            left, failure = await self._try(left)
            if failure is not None:
                raise failure

        await self._hall.persist(attempt, patience_ms=PATIENCE_MS)
        self._waiting_bytes -= size

    def _stamp(self, place: Place, batch: bytes) -> _Stamped:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + parse_header(batch, 0).record_count) & _SEQUENCE_MASK
        transactional = self._transactional_id is not None
        return _Stamped(
            place, with_producer(batch, self._identity.producer_id, self._identity.epoch, sequence, transactional)
        )

    async def _join(self, places: list[Place]) -> None:
        fresh = [place for place in places if place not in self._joined]
        if fresh and self._transactional_id is not None:
            for topic in {topic for topic, _ in fresh}:
                await self._know(topic)
            await self._hall.transactions.add_partitions(self._transactional_id, self._identity, fresh)
            self._joined.update(fresh)

    async def _know(self, topic: str) -> None:
        """Raise for a topic that does not exist: a transaction would wait for it to appear."""
        await self._hall.persist(lambda: self._hall.topic(topic))

    async def _try(self, stamped: list[_Stamped]) -> tuple[list[_Stamped], Refused | Unreachable | None]:
        """Send all of them once; returns those that failed, and the reason of the first."""
        by_leader: dict[int, list[_Stamped]] = {}
        for each in stamped:
            by_leader.setdefault(await self._hall.leader_of(*each.place), []).append(each)
        outcomes = await asyncio.gather(*(self._ask(leader, each) for leader, each in by_leader.items()))
        left = [each for rest, _ in outcomes for each in rest]
        failures = [failure for _, failure in outcomes if failure is not None]
        for each in left:
            self._hall.forget(each.place[0])
        failures.sort(key=lambda failure: failure.retriable)  # What cannot be mended by trying again comes first.
        return left, failures[0] if failures else None

    async def _ask(self, leader: int, stamped: list[_Stamped]) -> tuple[list[_Stamped], Refused | Unreachable | None]:
        topics: dict[str, data.ProduceRequestTopic] = {}
        for (topic, partition), batch in stamped:
            if topic not in topics:
                topic_id = (await self._hall.topic(topic)).topic_id
                topics[topic] = data.ProduceRequestTopic(name=topic, topic_id=topic_id)
            topics[topic].partition_data.append(data.ProduceRequestPartition(index=partition, records=batch))
        ids = {row.topic_id: name for name, row in topics.items()}
        request = data.ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=list(topics.values()),
        )
        version_max = _BY_NAME_VERSION_MAX if NO_ID in ids else None
        if self._transactional_id is not None:
            version_max = _EXPLICIT_VERSION_MAX
        try:
            connection = await self._hall.connection(leader)
            answer = await connection.call(
                request, data.ProduceResponse, version_max=version_max, timeout_ms=REQUEST_TIMEOUT_MS + 1000
            )
        except (Refused, Unreachable) as failure:
            return stamped, failure
        left: dict[Place, Refused] = {}
        for row in answer.responses:
            topic = row.name or ids[row.topic_id]
            for part in row.partition_responses:
                try:
                    check(part.error_code, part.error_message or f"{topic}-{part.index}")
                except Refused as refusal:
                    if (
                        refusal.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER
                    ):  # It is there, from a try whose answer was lost.
                        left[topic, part.index] = refusal
        failures = sorted(left.values(), key=lambda refusal: refusal.retriable)
        return [each for each in stamped if each.place in left], failures[0] if failures else None
