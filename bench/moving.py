"""Throughput while a host is added and another drained: a step of the cluster's bench.

Three nodes have replicas of a filled topic; a fourth has none. librdkafka produces as fast as it is answered (acks=all,
idempotent) while the fourth node is added and does a full sync, and while the leader is drained. Acknowledgements are
counted by the second; a failed message ends the measurement.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from soak.cluster import Cluster

TOPIC: Final = "moving"
PARTITIONS: Final = 4
RECORD_BYTES: Final = 1024
BATCH_BYTES: Final = 64 * 1024
WAIT_SECONDS: Final = 60.0

Figures = dict[str, float]


class Load:
    """One producer that is never idle; `acknowledged` grows with every answer."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.failures: list[str] = []
        self.longest_s = 0.0  # The longest time without any answer.
        self._answered_s = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, args=(bootstrap,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(WAIT_SECONDS)

    def rate(self, seconds: float) -> float:
        """Messages a second during the next `seconds`."""
        before, began = self.acknowledged, time.monotonic()
        time.sleep(seconds)
        return (self.acknowledged - before) / (time.monotonic() - began)

    def _produce(self, bootstrap: str) -> None:
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "batch.size": BATCH_BYTES}
        bounds = {"queue.buffering.max.messages": 20_000, "message.timeout.ms": 60_000}
        producer = Producer({"bootstrap.servers": bootstrap, **settings, **bounds})
        body = bytes(RECORD_BYTES)
        while not self._over.is_set():
            try:
                producer.produce(TOPIC, body, on_delivery=self._told)
                producer.poll(0)
            except BufferError:
                producer.poll(0.01)
        producer.flush(WAIT_SECONDS)

    def _told(self, error: Any, message: Any) -> None:
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._answered_s)
        self._answered_s = now_s
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged += 1


def measure_moving(home: Path, *, fill_messages: int = 500_000, seconds: float = 10.0) -> Figures:
    """Messages a second before, while a fourth host does a full sync, while the first is drained, and after."""
    cluster = Cluster(home)
    cluster.start()
    fourth = cluster.make(4)
    load = None
    try:
        fourth.launch()
        fourth.wait_ready(WAIT_SECONDS)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(WAIT_SECONDS)
        load = Load(cluster.bootstrap)
        load.start()
        _until(lambda: load.acknowledged >= fill_messages)
        figures = {"before": load.rate(seconds)}
        http = fourth.http
        first, before, began = cluster.leader(), load.acknowledged, time.monotonic()
        load.longest_s = 0.0
        figures |= _during(load, "adding", ["add", "4", "--http", http])
        figures |= _during(load, "draining", ["drain", str(first), "--wait", "--http", http])
        took_s = time.monotonic() - began
        moving = (load.acknowledged - before) / took_s
        figures |= {"moving": moving, "moving_s": took_s, "after": load.rate(seconds)}
        load.stop()
        if load.failures:
            raise RuntimeError(f"{len(load.failures)} messages failed: {load.failures[0]}")
        figures["longest_without_answer_s"] = load.longest_s
        return {**figures, "share_while_moving": moving / figures["before"]}
    finally:
        if load is not None:
            load.stop()
        fourth.kill()
        cluster.stop()


def _during(load: Load, name: str, words: list[str]) -> Figures:
    before, began = load.acknowledged, time.monotonic()
    subprocess.run([sys.executable, "-m", "longhall.cli", "cluster", *words], check=True)
    took_s = time.monotonic() - began
    return {name: (load.acknowledged - before) / took_s, f"{name}_s": took_s}


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 10 * WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("the topic could not be filled")
        time.sleep(0.1)


def main(words: list[str]) -> None:
    """`python -m bench.moving DIRECTORY`: run this step alone."""
    for name, value in measure_moving(Path(words[0])).items():
        print(f"{name:28} {value:12.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
