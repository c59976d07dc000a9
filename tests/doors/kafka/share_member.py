"""A member of a share group that speaks to a node in requests of its own, on the first partition of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from longhall.doors.kafka.wire.apis import API, decode_response, encode_request
from longhall.doors.kafka.wire.messages.share_records import (
    AcknowledgementBatch,
    AcquiredRecords,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
    ShareFetchRequest,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
)
from longhall.doors.kafka.wire.schema import Message
from longhall.node.assembly import Node

INVALID_RECORD_STATE = 121
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Ranges = list[tuple[int, int, int]]


class Member:
    """A share member with one connection and one partition."""

    def __init__(self, topic_id: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.topic_id = topic_id
        self.epoch = 0
        self._reader = reader
        self._writer = writer

    async def ask(self, message: Message, version: int = 2) -> Any:
        api = next(row for row in API.values() if row.request is type(message))
        self._writer.write(encode_request(1, "test", version, message))
        async with asyncio.timeout(20):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            answer = await self._reader.readexactly(size)
        return decode_response(api.key, version, answer)[1]

    async def fetch(self, *batches: AcknowledgementBatch, **fields: Any) -> Any:
        part = ShareFetchRequestPartition(partition_index=0, acknowledgement_batches=list(batches))
        wanted = {"max_records": 100, "max_bytes": 1 << 20, "batch_size": 100, "min_bytes": 1, **fields}
        topics = [ShareFetchRequestTopic(topic_id=self.topic_id, partitions=[part])]
        session = {"group_id": "g", "member_id": "m", "share_session_epoch": self.epoch}
        answer = await self.ask(ShareFetchRequest(topics=topics, **{**session, **wanted}))
        if not answer.error_code:
            self.epoch += 1
        return answer

    async def acquire(self, *batches: AcknowledgementBatch, **fields: Any) -> Ranges:
        """The acquired ranges: first, last, deliveries."""
        answer = await self.fetch(*batches, **fields)
        assert answer.error_code == 0
        return [
            range_of(one) for topic in answer.responses for part in topic.partitions for one in part.acquired_records
        ]

    async def acknowledge(self, *batches: AcknowledgementBatch, epoch: int | None = None, renew: bool = False) -> int:
        """The error of the partition, or of the request."""
        part = ShareAcknowledgeRequestPartition(partition_index=0, acknowledgement_batches=list(batches))
        request = ShareAcknowledgeRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renew,
            topics=[ShareAcknowledgeRequestTopic(topic_id=self.topic_id, partitions=[part])],
        )
        answer = await self.ask(request)
        if answer.error_code:
            return int(answer.error_code)
        self.epoch += 1
        return int(answer.responses[0].partitions[0].error_code)


def range_of(one: AcquiredRecords) -> tuple[int, int, int]:
    return one.first_offset, one.last_offset, one.delivery_count


@asynccontextmanager
async def member_of(node: Node, topic: str) -> AsyncIterator[Member]:
    reader, writer = await asyncio.open_connection(node.kafka.host, node.kafka.port)
    try:
        yield Member(node.hall.routes[topic][0].topic_id, reader, writer)
    finally:
        writer.close()
