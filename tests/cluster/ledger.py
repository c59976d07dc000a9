"""One partition whose messages are counted, through a Kafka client: what was acknowledged must be readable."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from soak.cluster import Cluster

TOPIC = "ledger"
TRIES_MAX = 10
LEADER_CHANGES = (KafkaError._DESTROY_BROKER, KafkaError.NOT_LEADER_FOR_PARTITION)


def make_topic(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        made.result(30)


def acknowledged(cluster: Cluster, words: list[str]) -> None:
    """Send these, each once however often the client repeats, and wait until all in-sync replicas have them."""
    failed: list[object] = []

    def answered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for word in words:
        producer.produce(TOPIC, value=word, partition=0, on_delivery=answered)
    assert producer.flush(60) == 0
    assert not failed


def readable(bootstrap: str, topic: str = TOPIC) -> list[str]:
    """All messages that a new reader gets. librdkafka repeats no request for offsets while the leader changes."""
    for _ in range(TRIES_MAX):
        try:
            return _read(bootstrap, topic)
        except KafkaException as error:
            if error.args[0].code() not in LEADER_CHANGES:
                raise
            time.sleep(0.5)
    raise AssertionError("the leader changes all the time")


def _read(bootstrap: str, topic: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    place = TopicPartition(topic, 0, 0)
    try:
        _, high = consumer.get_watermark_offsets(place, timeout=60)
        consumer.assign([place])
        found: list[str] = []
        deadline = time.monotonic() + 60
        while len(found) < high and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                if message.error() is None:
                    found.append((message.value() or b"").decode())
        return found
    finally:
        consumer.close()
