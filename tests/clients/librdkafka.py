"""Helpers for tests with confluent-kafka: produce these values, read so many messages, poll until a condition holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.clients.conftest import SESSION_MS, WAIT_SECONDS

Settings = dict[str, Any]

CLASSIC_TIMES = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 300,
}  # The consumer protocol has the server's.
PROTOCOLS = ("classic", "consumer")  # Of groups.


def new_producer(bootstrap: str, **settings: Any) -> Producer:
    """A producer that waits for every acknowledgement; `_` in a setting's name stands for a dot."""
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **dotted(settings)})


def new_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer that starts at the beginning and commits only when told."""
    classic = {} if settings.get("group_protocol") == "consumer" else CLASSIC_TIMES
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 2000,
            **classic,
            **dotted(settings),
        }
    )


def dotted(settings: Settings) -> Settings:
    return {name.replace("_", "."): value for name, value in settings.items()}


def send(producer: Producer, topic: str, values: Iterable[bytes | str | None], **how: Any) -> list[Message]:
    """Produce the values, wait for all acknowledgements, and return the delivered messages in their order."""
    delivered: list[Message] = []

    def done(error: Any, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for value in values:
        producer.produce(topic, value, on_delivery=done, **how)
    assert producer.flush(WAIT_SECONDS) == 0
    return delivered


def send_refused(producer: Producer, topic: str, value: bytes, **how: Any) -> Any:
    """Produce one value that must be refused, and return the error."""
    errors: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _message: errors.append(error), **how)
    assert producer.flush(WAIT_SECONDS) == 0
    assert errors[0] is not None, "the broker took what it had to refuse"
    return errors[0]


def read(consumer: Consumer, count: int, seconds_max: float = WAIT_SECONDS) -> list[Message]:
    """Poll until `count` messages are there, or fail with those that came."""
    got: list[Message] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"only {len(got)} of {count} messages came: {[m.value() for m in got][:20]}"
        message = consumer.poll(min(left, 1.0))
        if message is not None:
            assert message.error() is None, message.error()
            got.append(message)
    return got


def read_all(bootstrap: str, topic: str, partitions: int = 1, **settings: Any) -> list[Message]:
    """Everything between the beginning and the end of a topic as this reader may see it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-without-commits",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **dotted(settings),
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        return _until_every_end(consumer, partitions)
    finally:
        consumer.close()


def _until_every_end(consumer: Consumer, partitions: int) -> list[Message]:
    got: list[Message] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"{len(ended)} of {partitions} partitions came to their end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            got.append(message)
        else:
            assert error.name() == "_PARTITION_EOF", error
            ended.add(message.partition())
    return got


def poll_until(consumers: Sequence[Consumer], reached: Callable[[], bool], got: list[Message] | None = None) -> None:
    """Keep all the consumers alive until the condition holds; what they read meanwhile is added to `got`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not reached():
        owned = [sorted((p.topic, p.partition) for p in consumer.assignment()) for consumer in consumers]
        assert time.monotonic() < deadline, f"it did not happen; the members own {owned}"
        for consumer in consumers:
            message = consumer.poll(0.02)
            if got is not None and message is not None and message.error() is None:
                got.append(message)


def owned_by(consumer: Consumer) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}
