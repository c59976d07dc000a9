"""A file system without free inodes: messages are refused as on a full disk, none is stored twice, and the node
recovers.
"""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.librdkafka import new_consumer, new_producer
from tests.crash.conftest import Mount, NewNode

TOPICS = [f"t{number}" for number in range(60)]  # Enough that their tails are written by the helper process.
BODY_BYTES = 30_000
ROUNDS = 4


def test_messages_are_refused_and_none_is_stored_twice(new_node: NewNode, mount: Mount) -> None:
    place = mount("-t", "tmpfs", "-o", "size=400m,nr_inodes=60", "tmpfs")
    node = new_node(place / "data", options=["--set", "disk_reserve_bytes=0", "--set", "checkpoint_bytes=4MiB"])
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
        future.result(30)

    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    acknowledged: list[bytes | None] = []
    for number in range(ROUNDS):
        for name in TOPICS:
            producer.produce(
                name, _body(name, number), on_delivery=lambda error, message: acknowledged.append(message.value())
            )
            producer.poll(0)
    _wait(lambda: _metric(node, "longhall_disk_full") == 1, producer)
    status, reason = _ready(node)
    assert status == 503
    assert "disk" in reason
    assert _refusal(node) == "KAFKA_STORAGE_ERROR"
    assert _metric(node, "longhall_checkpoint_age_seconds") > 0

    subprocess.run(["mount", "-o", "remount,nr_inodes=5000", str(place)], check=True)
    assert producer.flush(60) == 0
    _wait(lambda: _ready(node)[0] == 200 and _metric(node, "longhall_checkpoints_total") > 0, producer)
    assert "Traceback" not in node.log_text()
    stored = _stored(node)
    for name in TOPICS:
        sent = [value for value in stored[name] if value.startswith(name.encode())]
        assert sent == [_body(name, number) for number in range(ROUNDS)]
    assert len(acknowledged) == ROUNDS * len(TOPICS)


def _body(name: str, number: int) -> bytes:
    return f"{name}-{number}".encode().ljust(BODY_BYTES, b".")


def _stored(node: Node) -> dict[str, list[bytes]]:
    """The stored values of each topic."""
    consumer = new_consumer(node.bootstrap, "readers", enable_partition_eof=True)
    consumer.assign([TopicPartition(name, 0, 0) for name in TOPICS])
    found: dict[str, list[bytes]] = {name: [] for name in TOPICS}
    ended: set[str] = set()
    deadline = time.monotonic() + 60
    while len(ended) < len(TOPICS):
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, topic, value = message.error(), message.topic(), message.value()
        assert topic is not None
        if error is None:
            found[topic].append(value or b"")
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(topic)
    consumer.close()
    return found


def _refusal(node: Node) -> str:
    """The error that a producer without retries gets."""
    answers: list[str] = []

    def done(error: Any, message: Any) -> None:
        answers.append("taken" if error is None else error.name())

    producer = new_producer(node.bootstrap, enable_idempotence=False, retries=0, linger_ms=0)
    producer.produce(TOPICS[0], b"refused", on_delivery=done)
    assert producer.flush(30) == 0
    return answers[0]


def _ready(node: Node) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _metric(node: Node, name: str) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def _wait(holds: Any, producer: Producer) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        producer.poll(0.1)


def test_a_data_directory_that_is_removed_ends_the_node(new_node: NewNode, tmp_path: Path) -> None:
    node = new_node(tmp_path / "data")
    node.start()
    subprocess.run(["rm", "-rf", str(node.data)], check=True)
    assert node.wait_end() == 5
    assert "the data directory was removed or replaced while the node was running" in node.log_text()
