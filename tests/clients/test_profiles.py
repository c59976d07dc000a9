"""Profiles, as the producer of the command line and unmodified clients see them."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from confluent_kafka import TopicPartition

from longhall.client.batching import with_profile
from longhall.client.hall import Hall
from longhall.client.producer import Options
from longhall.world.real.network import RealNetwork
from tests.clients.conftest import FreshName, MakeTopic
from tests.clients.librdkafka import new_consumer, new_producer

MESSAGES = 60


@pytest.mark.parametrize(
    ("config", "linger_ms", "batch_bytes_max"),
    [
        ({}, 5, 512 * 1024),
        ({"longhall.profile": "latency"}, 0, 64 * 1024),
        ({"longhall.profile": "throughput"}, 50, 960 * 1024),
        ({"longhall.profile": "throughput", "longhall.producer.linger.ms": "7"}, 7, 960 * 1024),
        ({"longhall.profile": "throughput", "longhall.producer.batch.bytes": "1"}, 50, 1),
    ],
)
def test_the_profile_of_the_topic_sets_the_producers_batching(
    bootstrap: str, make_topic: MakeTopic, config: dict[str, str], linger_ms: int, batch_bytes_max: int
) -> None:
    topic = make_topic(config=config)

    async def ask() -> Options:
        hall = await Hall.connect(RealNetwork(), bootstrap, client_id="profiles")
        found = await with_profile(hall, topic, Options())
        hall.close()
        return found

    found = asyncio.run(ask())
    assert (found.linger_ms, found.batch_bytes_max) == (linger_ms, batch_bytes_max)


def test_a_kafka_consumer_gets_fuller_replies_from_a_throughput_topic(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    replies: dict[str, int] = {}
    for profile in ("latency", "throughput"):
        topic = make_topic(config={"longhall.profile": profile})

        def write(topic: str = topic) -> None:
            producer = new_producer(bootstrap, linger_ms=0)
            for number in range(MESSAGES):
                producer.produce(topic, b"%d" % number)
                producer.poll(0)
                time.sleep(0.004)
            producer.flush(30)

        consumer = new_consumer(bootstrap, fresh_name("group"))
        consumer.assign([TopicPartition(topic, 0, 0)])
        writing = threading.Thread(target=write)
        writing.start()
        got = 0
        bursts = 0
        while got < MESSAGES:
            found = consumer.consume(MESSAGES, 0.003)
            got += len(found)
            bursts += bool(found)
        writing.join()
        consumer.close()
        replies[profile] = bursts
    assert replies["throughput"] < replies["latency"]
