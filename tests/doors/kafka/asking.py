"""Requests to a node's Kafka door, one at a time, as decoded messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from longhall.doors.kafka.wire.apis import API, decode_response, encode_request
from longhall.doors.kafka.wire.messages import data
from longhall.doors.kafka.wire.schema import Message
from longhall.node.assembly import Node
from longhall.records.batch import Record, build_batch

Place = tuple[str | bytes, int]  # A topic by name or by id, and a partition.


async def ask(node: Node, message: Message, version: int) -> Any:
    """The response of a listening node; ConnectionError if it closes the connection instead."""
    api = next(row for row in API.values() if row.request is type(message))
    frame = encode_request(1, "test", version, message)
    reader, writer = await asyncio.open_connection(node.kafka.host, node.kafka.port)
    try:
        writer.write(frame)
        async with asyncio.timeout(20):
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionError("it hung up") from None
    finally:
        writer.close()
    return decode_response(api.key, version, answer)[1]


def batch(
    value: bytes = b"x", producer_id: int = -1, sequence: int = 0, transactional: bool = False, epoch: int = 0
) -> bytes:
    """One message as a producer sends it."""
    known = producer_id >= 0
    return build_batch(
        [Record(-1, 1_700_000_000_000, None, value, ())],
        producer_id=producer_id,
        producer_epoch=epoch if known else -1,
        base_sequence=sequence if known else -1,
        transactional=transactional,
    )


def produce_request(
    places: Sequence[Place], records: bytes, acks: int = -1, transactional_id: str | None = None
) -> data.ProduceRequest:
    request = data.ProduceRequest(acks=acks, timeout_ms=1000, transactional_id=transactional_id)
    for topic, number in places:
        row = data.ProduceRequestTopic(partition_data=[data.ProduceRequestPartition(index=number, records=records)])
        if isinstance(topic, bytes):
            row.topic_id = topic
        else:
            row.name = topic
        request.topic_data.append(row)
    return request


async def produce(
    node: Node, *places: Place, version: int = 9, records: bytes = b"", transactional_id: str | None = None
) -> list[int]:
    """Send one batch to each of these places; the errors, in the same order."""
    request = produce_request(places, records or batch(), transactional_id=transactional_id)
    answer = await ask(node, request, version)
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]


async def fetch(node: Node, *places: Place, version: int = 11, wait_ms: int = 0) -> list[tuple[int, int, int]]:
    """Read these places from the beginning: error, high watermark and size of what was found, in the same order."""
    request = data.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20)
    for topic, number in places:
        part = data.FetchRequestPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        row = data.FetchRequestTopic(partitions=[part])
        if isinstance(topic, bytes):
            row.topic_id = topic
        else:
            row.topic = topic
        request.topics.append(row)
    answer = await ask(node, request, version)
    return [
        (part.error_code, part.high_watermark, len(part.records or b""))
        for topic in answer.responses
        for part in topic.partitions
    ]
