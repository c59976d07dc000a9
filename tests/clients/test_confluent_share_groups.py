"""confluent-kafka: its share consumer."""

from __future__ import annotations

import time

from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.clients.conftest import WAIT_SECONDS, FreshName
from tests.clients.librdkafka import new_producer, send

LOCKS_MAX = 100


def test_the_locks_of_a_partition_are_bounded_within_a_batch_too(
    bootstrap: str, admin: AdminClient, topic: str, fresh_name: FreshName
) -> None:
    group = fresh_name("share")
    settings = {"share.partition.max.record.locks": str(LOCKS_MAX), "share.auto.offset.reset": "earliest"}
    entries = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in settings.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_SECONDS)
    send(new_producer(bootstrap, **{"linger.ms": 500}), topic, [b"%d" % number for number in range(2 * LOCKS_MAX)])
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 2 * LOCKS_MAX,
        }
    )
    consumer.subscribe([topic])
    counts: list[int] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(counts) < 2 * LOCKS_MAX and time.monotonic() < deadline:
        messages = consumer.poll(timeout=1.0)
        counts.append(len(messages))
        for message in messages:
            assert message.error() is None
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    consumer.close()
    assert sum(counts) == 2 * LOCKS_MAX
    assert max(counts) <= LOCKS_MAX
