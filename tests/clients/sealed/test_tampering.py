"""Somebody with access to the disks alters sealed records: swapped, moved, repeated and cut ones are refused.

Segments are changed between a clean stop and the next start, with checksums that are right again. Only the seal can
show what was done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.log.segment_rewrite import rebuild_batch
from longhall.records.batch import parse_header, read_records, scan_headers
from longhall.records.header import HEADER_BYTES
from longhall.records.record import Record
from longhall.records.seal import _with_records
from soak.node import Node
from tests.clients.sealed.conftest import sqs_at, write_keys
from tests.clients.sealed.test_doors import produce

Batches = list[bytes]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "data", options=["--keys", str(write_keys(tmp_path))]) as running:
        yield running


def segment_with(node: Node, mark: bytes) -> Path:
    """The one segment that has these bytes."""
    [segment] = [file for file in node.data.rglob("partitions/*/*.log") if mark in file.read_bytes()]
    return segment


def change(segment: Path, alter: Callable[[Batches], Batches]) -> None:
    """Alter the batches of a segment, while the node is stopped."""
    data = segment.read_bytes()
    batches, at = [], 0
    for header in scan_headers(data, 0, len(data)):
        batches.append(data[at : at + header.size_bytes])
        at += header.size_bytes
    altered = b"".join(alter(batches))
    assert len(altered) == len(data), "indexes stay right"
    assert altered != data
    segment.write_bytes(altered)


def with_records(batch: bytes, records: list[Record]) -> bytes:
    return rebuild_batch(parse_header(batch, 0), records, 0, -1)


def with_payload(batch: bytes, payload: bytes) -> bytes:
    header = parse_header(batch, 0)
    return _with_records(header, header.attributes, payload)


def swap_values(batches: Batches) -> Batches:
    """The bodies of two messages of one queue change places; ids and attributes stay."""
    first, second = (read_records(batch, 0)[0] for batch in batches)
    return [
        with_records(batches[0], [Record(first.offset, first.timestamp_ms, None, second.value, first.headers)]),
        with_records(batches[1], [Record(second.offset, second.timestamp_ms, None, first.value, second.headers)]),
    ]


def swap_messages_under_their_ids(batches: Batches) -> Batches:
    """The same together with their seals."""
    first, second = (read_records(batch, 0)[0] for batch in batches)

    def with_id_of(record: Record, other: Record) -> Record:
        ids = dict(other.headers)
        headers = tuple((name, ids[name] if name == "longhall.id" else value) for name, value in record.headers)
        return Record(other.offset, other.timestamp_ms, None, record.value, headers)

    return [
        with_records(batches[0], [with_id_of(second, first)]),
        with_records(batches[1], [with_id_of(first, second)]),
    ]


def flip(batches: Batches) -> Batches:
    """A bit of each body."""
    out = []
    for batch in batches:
        [record] = read_records(batch, 0)
        value = (record.value or b"")[:-1] + bytes([(record.value or b"")[-1] ^ 1])
        out.append(with_records(batch, [Record(record.offset, record.timestamp_ms, None, value, record.headers)]))
    return out


def repeat(batches: Batches) -> Batches:
    """The second batch is the first once more, at the second one's offset."""
    return [batches[0], batches[1][:8] + batches[0][8:], *batches[2:]]


def change_places(batches: Batches) -> Batches:
    """Two batches change places."""
    first, second = batches[0], batches[1]
    return [first[:8] + second[8:], second[:8] + first[8:], *batches[2:]]


def alter_payload(batches: Batches) -> Batches:
    """A byte of the ciphertext of the first batch."""
    payload = bytearray(batches[0][HEADER_BYTES:])
    payload[60] ^= 1
    return [with_payload(batches[0], bytes(payload)), *batches[1:]]


def cut(batches: Batches) -> Batches:
    """The first batch says that it has fewer records; the log is none the wiser."""
    header = parse_header(batches[0], 0)
    header.record_count -= 1
    return [_with_records(header, header.attributes, batches[0][HEADER_BYTES:]), *batches[1:]]


QUEUES = (swap_values, swap_messages_under_their_ids, flip)
TOPICS = (repeat, change_places, alter_payload, cut)


def test_queues(node: Node) -> None:
    sqs = sqs_at(node)
    names = [*(way.__name__ for way in QUEUES), "source", "target"]
    urls, marks = {}, {name: secrets.token_hex(8) for name in names}
    for name in names:
        urls[name] = sqs.create_queue(QueueName=name, Attributes={"KmsMasterKeyId": "alias/orders"})["QueueUrl"]
        for number in range(2):
            attribute = {"mark": {"DataType": "String", "StringValue": marks[name]}}
            sqs.send_message(QueueUrl=urls[name], MessageBody=f"message {number}", MessageAttributes=attribute)
    node.stop()
    for way in QUEUES:
        change(segment_with(node, marks[way.__name__].encode()), way)
    of_another = segment_with(node, marks["source"].encode()).read_bytes()
    segment_with(node, marks["target"].encode()).write_bytes(of_another)
    node.start()
    sqs = sqs_at(node)
    for name in names:
        url = f"http://{node.sqs}/000000000000/{name}"
        if name == "source":
            assert len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]) == 2
            continue
        with pytest.raises(ClientError, match="sealed message") as caught:
            sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        assert caught.value.response["Error"]["Code"] == "KMS.InvalidStateException", name


def test_topics(node: Node) -> None:
    names = [way.__name__ for way in TOPICS]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    config = {"longhall.sealed": "alias/orders"}
    for future in admin.create_topics([NewTopic(name, 1, config=config) for name in names]).values():
        future.result(10)
    ids = {}
    for name in names:
        ids[name] = admin.describe_topics(TopicCollection([name]))[name].result(10).topic_id
        for number in range(3):
            values = [f"batch {number} record {record}".encode() for record in range(3)]
            produce(node, name, *values, **{"linger.ms": 100})
    node.stop()
    for way in TOPICS:
        most, least = ids[way.__name__].get_most_significant_bits(), ids[way.__name__].get_least_significant_bits()
        topic_id = b"".join((bits % (1 << 64)).to_bytes(8, "big") for bits in (most, least))
        change(segment_with(node, topic_id), way)
    node.start()
    for name in names:
        error, values = read_until_error(node, name)
        assert error is not None
        assert error.code() in (KafkaError._BAD_MSG, KafkaError.INVALID_MSG), error
        assert len(values) <= 3, "at most what is before the place"


def read_until_error(node: Node, topic: str) -> tuple[KafkaError | None, list[bytes]]:
    consumer: Any = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "check.crcs": True}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        for _ in range(30):
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                return message.error(), values
            values.append(message.value())
        return None, values
    finally:
        consumer.close()
