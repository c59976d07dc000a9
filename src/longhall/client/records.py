"""Requests on single partitions: produce, fetch, and offsets by time.

Batches are bytes here, as they are stored. Most callers use `producer` and `reader` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

from longhall.client.connection import REQUEST_TIMEOUT_MS
from longhall.client.refusals import Refused, Unreachable, check
from longhall.doors.kafka.wire.messages import data, offsets
from longhall.doors.kafka.wire.schema import NO_ID

if TYPE_CHECKING:
    from longhall.client.hall import Hall

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

FETCH_BYTES_MAX: Final = 50 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
RACK_PREFIX: Final = "longhall.filter="  # The field by which the Kafka door gets a filter.
_BY_NAME_VERSION_MAX: Final = 12  # From the next one on, Produce and Fetch know topics by id alone.
_EXPLICIT_VERSION_MAX: Final = 11  # From the next Produce on, partitions join a transaction by being written to.


class Placed(NamedTuple):
    """The place of a batch. The offset is -1 if no acknowledgement was requested."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Fetched(NamedTuple):
    """The content of a partition. `records` are whole batches, the last of which may be cut off."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]  # (producer id, first offset)
    records: bytes


class FetchWanted(NamedTuple):
    """A partition to fetch, and from which offset."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = PARTITION_BYTES_MAX


class Found(NamedTuple):
    """An offset by time; -1 if there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@final
class Records:
    """Requests on partitions, reached as `hall.records`. Each method tries once; `Hall.persist` retries."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def produce(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        acks: int = -1,
        transactional_id: str | None = None,
        joins_by_writing: bool = False,
        create: bool = True,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Placed:
        """Append one batch. Raises Refused or Unreachable; after the latter the batch may be there."""
        try:
            return await self._produce(
                topic, partition, batch, acks, transactional_id, joins_by_writing, create, timeout_ms
            )
        except (Refused, Unreachable):
            self._hall.forget(topic)
            raise

    async def _produce(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        acks: int,
        transactional_id: str | None,
        joins_by_writing: bool,
        create: bool,
        timeout_ms: int,
    ) -> Placed:
        leader = await self._hall.leader_of(topic, partition, create=create)
        topic_id = (await self._hall.topic(topic)).topic_id
        request = data.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                data.ProduceRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partition_data=[data.ProduceRequestPartition(index=partition, records=batch)],
                )
            ],
        )
        version_max = _BY_NAME_VERSION_MAX if topic_id == NO_ID else None
        if transactional_id is not None and not joins_by_writing:
            version_max = _EXPLICIT_VERSION_MAX
        connection = await self._hall.connection(leader)
        if acks == 0:
            await connection.tell(request, version_max=version_max)
            return Placed(-1, -1, -1)
        answer = await connection.call(
            request, data.ProduceResponse, version_max=version_max, timeout_ms=timeout_ms + 1000
        )
        part = answer.responses[0].partition_responses[0]
        check(part.error_code, part.error_message or f"{topic}-{partition}")
        return Placed(part.base_offset, part.log_append_time_ms, part.log_start_offset)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = PARTITION_BYTES_MAX,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        isolation_level: int = READ_COMMITTED,
    ) -> Fetched:
        """Fetch from one partition. Raises Refused for its error."""
        try:
            leader = await self._hall.leader_of(topic, partition)
            wanted = [FetchWanted(topic, partition, offset, max_bytes)]
            fetched = (await self.fetch_from(leader, wanted, max_wait_ms, min_bytes, max_bytes, isolation_level))[0]
            check(fetched.error_code, f"{topic}-{partition} at {offset}")
        except (Refused, Unreachable):
            self._hall.forget(topic)
            raise
        return fetched

    async def fetch_from(
        self,
        node_id: int,
        wanted: list[FetchWanted],
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = FETCH_BYTES_MAX,
        isolation_level: int = READ_COMMITTED,
        line: str = "",
        filter: str = "",
    ) -> list[Fetched]:
        """Fetch from many partitions that one broker leads; each result has its own error.

        Longhall leaves out what does not match the filter; other brokers take it for the name of a rack.
        """
        topics: dict[str, data.FetchRequestTopic] = {}
        names: dict[bytes, str] = {}
        for want in wanted:
            if want.topic not in topics:
                topic_id = (await self._hall.topic(want.topic)).topic_id
                topics[want.topic] = data.FetchRequestTopic(topic=want.topic, topic_id=topic_id)
                names[topic_id] = want.topic
            topics[want.topic].partitions.append(
                data.FetchRequestPartition(
                    partition=want.partition, fetch_offset=want.offset, partition_max_bytes=want.max_bytes
                )
            )
        request = data.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=list(topics.values()),
            rack_id=RACK_PREFIX + filter if filter else "",
        )
        answer = await self._hall.ask(
            node_id,
            request,
            data.FetchResponse,
            version_max=_BY_NAME_VERSION_MAX if NO_ID in names else None,
            timeout_ms=REQUEST_TIMEOUT_MS + max_wait_ms,
            line=line,
        )
        check(answer.error_code)
        return [
            _fetched(topic.topic or names.get(topic.topic_id, ""), part)
            for topic in answer.responses
            for part in topic.partitions
        ]

    async def list_offsets(
        self, topic: str, timestamps_ms: dict[int, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[int, Found]:
        """Offsets by partition: the first that is not older than a time, or EARLIEST, LATEST, MAX_TIMESTAMP."""
        try:
            by_leader: dict[int, list[int]] = {}
            for partition in timestamps_ms:
                by_leader.setdefault(await self._hall.leader_of(topic, partition), []).append(partition)
            found: dict[int, Found] = {}
            for leader, partitions in by_leader.items():
                found.update(await self._list_offsets(leader, topic, partitions, timestamps_ms, isolation_level))
        except (Refused, Unreachable):
            self._hall.forget(topic)
            raise
        return found

    async def _list_offsets(
        self, leader: int, topic: str, partitions: list[int], timestamps_ms: dict[int, int], isolation_level: int
    ) -> dict[int, Found]:
        rows = [
            offsets.ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamps_ms[partition])
            for partition in partitions
        ]
        request = offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[offsets.ListOffsetsRequestTopic(name=topic, partitions=rows)],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        answer = await self._hall.ask(leader, request, offsets.ListOffsetsResponse)
        found: dict[int, Found] = {}
        for part in answer.topics[0].partitions:
            check(part.error_code, f"{topic}-{part.partition_index}")
            found[part.partition_index] = Found(part.offset, part.timestamp, part.leader_epoch)
        return found


def _fetched(topic: str, part: data.FetchResponsePartition) -> Fetched:
    aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or []]
    return Fetched(
        topic,
        part.partition_index,
        part.error_code,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        aborted,
        part.records or b"",
    )
