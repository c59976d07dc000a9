"""Creates, deletes and measures topics through the same client."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_SECONDS = 60.0
_TOPICS_A_REQUEST = 1000


def _settings(address: str) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": address, "log_level": 2}


def create(address: str, topic: str, *, partitions: int = 1, replicas: int = 1) -> None:
    """Create a topic and wait until every partition has a leader."""
    admin = AdminClient(_settings(address))
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas)
    admin.create_topics([new], operation_timeout=_TIMEOUT_SECONDS)[topic].result(_TIMEOUT_SECONDS)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        known = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if len(known) == partitions and all(each.leader >= 0 for each in known.values()):
            return
        time.sleep(0.05)
    raise TimeoutError(f"{topic}: not every partition had a leader after {_TIMEOUT_SECONDS:.0f} s")


def create_many(address: str, names: list[str], *, replicas: int) -> None:
    """Create topics of one partition each, a thousand in each request."""
    admin = AdminClient(_settings(address))
    for at in range(0, len(names), _TOPICS_A_REQUEST):
        new = [
            NewTopic(name, num_partitions=1, replication_factor=replicas) for name in names[at : at + _TOPICS_A_REQUEST]
        ]
        for made in admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS).values():
            made.result(_TIMEOUT_SECONDS)


def leader(address: str, topic: str) -> int:
    """The number of the node that leads the first partition; -1 if there is no leader."""
    found = AdminClient(_settings(address)).list_topics(topic, timeout=10).topics[topic].partitions
    return int(found[0].leader) if found else -1


def delete(address: str, *topics: str) -> None:
    admin = AdminClient(_settings(address))
    for future in admin.delete_topics(list(topics), operation_timeout=_TIMEOUT_SECONDS).values():
        future.result(_TIMEOUT_SECONDS)


def end_offset(address: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({**_settings(address), "group.id": "bench-offsets"})
    try:
        offsets = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10, cached=False)
        assert offsets is not None, f"{topic}: no answer about its end"
        return int(offsets[1])
    finally:
        consumer.close()
