"""The same key goes to the same partition, whichever client sent it."""

from __future__ import annotations

from collections import defaultdict

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from tests.clients.conftest import MakeTopic
from tests.clients.librdkafka import new_producer, read_all, send

KEYS = [f"key-{number}".encode() for number in range(60)] + [b"\x00\xff", "schlüssel".encode()]


async def test_python_clients_agree(bootstrap: str, make_topic: MakeTopic) -> None:
    """librdkafka told to hash as Java does, kafka-python and aiokafka; test_java holds Java to the same table."""
    topic = make_topic(partitions=3)
    producer = new_producer(bootstrap, partitioner="murmur2_random")
    for key in KEYS:
        send(producer, topic, [b"librdkafka"], key=key)
    with_python = KafkaProducer(bootstrap_servers=bootstrap)
    for key in KEYS:
        with_python.send(topic, b"kafka-python", key=key)
    with_python.close(timeout=10)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as with_asyncio:
        for key in KEYS:
            await with_asyncio.send_and_wait(topic, b"aiokafka", key)

    places: dict[bytes, set[int]] = defaultdict(set)
    for message in read_all(bootstrap, topic, 3):
        places[message.key()].add(message.partition())
    assert set(places) == set(KEYS)
    assert all(len(partitions) == 1 for partitions in places.values())
    assert {place for partitions in places.values() for place in partitions} == {0, 1, 2}
