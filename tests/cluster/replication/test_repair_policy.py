"""A follower of real processes whose disk does not answer: it is repaired, and nothing is lost when it leads."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND, Node
from tests.left_out import leave_out

PARTITIONS = 20
FAILING_READS = 2
WAIT_SECONDS = 60.0


@pytest.fixture
def hall(ensemble: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("LONGHALL_DIGEST_INTERVAL_MS", "500ms")
    cluster = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path="/repair")
    cluster.keep_doors()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Load:
    """An idempotent producer with acks=all that remembers what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[str] = []
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(WAIT_SECONDS)
        self._thread.start()
        wait_until(lambda: len(self.acknowledged) > 10 * PARTITIONS, "messages are acknowledged")

    def stop(self) -> None:
        self._over.set()
        self._thread.join(WAIT_SECONDS)

    def _produce(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 2, "socket.timeout.ms": 4000, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, **settings})
        number = 0
        while not self._over.is_set():
            for _ in range(PARTITIONS):
                producer.produce("t", str(number), partition=number % PARTITIONS, on_delivery=self._told)
                number += 1
            producer.poll(0)
            time.sleep(0.02)
        if producer.flush(WAIT_SECONDS):
            self.failures.append("not everything was answered")

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[int(message.value())] = (message.partition(), message.offset())

    def lost(self) -> list[int]:
        """What was acknowledged and cannot be read where it was said to be."""
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, "group.id": "g", "log_level": 0})
        parts = [TopicPartition("t", number, 0) for number in range(PARTITIONS)]
        ends = {part.partition: consumer.get_watermark_offsets(part, timeout=WAIT_SECONDS)[1] for part in parts}
        consumer.assign(parts)
        found: dict[int, tuple[int, int]] = {}
        deadline = time.monotonic() + WAIT_SECONDS
        while any(end for end in ends.values()) and time.monotonic() < deadline:
            batch: list[Any] = consumer.consume(1000, 0.5)
            for message in batch:
                if message.error() is None:
                    found[int(message.value())] = (message.partition(), message.offset())
                    if message.offset() + 1 >= ends[message.partition()]:
                        ends[message.partition()] = 0
        consumer.close()
        return [number for number, place in self.acknowledged.items() if found.get(number) != place]


def failing_reads(node: Node) -> list[str]:
    """strace before a node: the first reads of its segments and indexes fail with EIO."""
    found = shutil.which("strace")
    if found is None:
        leave_out("strace is not installed")
    files = [word for file in sorted((node.data / "partitions").rglob("*.*")) for word in ("-P", str(file))]
    inject = f"inject=pread64:error=EIO:when=1..{FAILING_READS}"
    return [found, "-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64", *files, "-e", inject]


def run(*words: str) -> tuple[int, str]:
    """A command: its exit code, and what it printed."""
    ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    return ended.returncode, ended.stdout


def metric(node: Node, name: str) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=WAIT_SECONDS) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition(" ")[0] == name)


def test_a_follower_whose_reads_fail_is_repaired_before_it_leads(hall: Cluster) -> None:
    load = Load(hall)
    load.start()
    number = hall.followers()[0]
    node = hall.nodes[number]
    assert node.stop() == 0
    node.prefix = failing_reads(node)
    node.launch()
    node.wait_ready(WAIT_SECONDS)

    def repaired() -> bool:
        failed = metric(node, "longhall_replica_apply_failures_total")
        return failed >= FAILING_READS and not metric(node, "longhall_replica_out_of_service")

    wait_until(lambda: _quietly(repaired), "the follower is repaired", hall.log_tails)
    hall.wait_in_sync()
    assert run("cluster", "move", "--leader", str(number), "--http", node.http)[0] == 0
    wait_until(lambda: hall.leader() == number, "the follower leads", hall.log_tails)
    load.stop()
    hall.wait_in_sync()
    wait_until(lambda: metric(node, "longhall_replica_comparisons_total") > 0, "states are compared", hall.log_tails)
    assert [metric(one, "longhall_replica_divergences_total") for one in hall.nodes.values()] == [0, 0, 0]
    assert load.failures == []
    assert load.lost() == []
    for one in hall.nodes.values():
        assert one.stop() == 0
    directories = [str(one.data) for one in hall.nodes.values()]
    code, told = run("doctor", *directories, "-o", "json")
    assert code == 0, told
    assert json.loads(told)["agree"] == [[1, 2, 3]]
    assert {row["partitions"] for row in json.loads(told)["copies"]} == {PARTITIONS}
    _alter(hall.nodes[number].data)
    code, told = run("doctor", *directories, "-o", "json")
    assert code == 1, told
    assert "messages of t-" in json.loads(told)["differences"][0]["what"]


def _alter(data: Path) -> None:
    """Another message of the same size in place of one, with a checksum that fits."""
    from longhall.records.batch import CRC_COVERS_FROM, parse_header
    from longhall.records.crc import crc_of

    segment = next(file for file in sorted(data.glob("partitions/*/*.log")) if file.stat().st_size)
    content = bytearray(segment.read_bytes())
    header = parse_header(bytes(content), 0)
    content[header.size_bytes - 2] ^= 1
    crc = crc_of(bytes(content[: header.size_bytes]), CRC_COVERS_FROM, header.size_bytes)
    content[17:21] = crc.to_bytes(4, "big")
    segment.write_bytes(bytes(content))


def _quietly(holds: Any) -> bool:
    """False while the node starts anew."""
    try:
        return bool(holds())
    except OSError:
        return False
