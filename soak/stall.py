"""Measures the memory and log of a leader that cannot commit under acks=1 load.

An in-sync follower and ZooKeeper are stopped, so that the leader can neither commit nor remove the follower from the
in-sync set. Meanwhile it acknowledges what is on its own disk. Memory is the resident size of the leader's process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psutil
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from soak.cluster import Cluster

TOPIC: Final = "stalled"
VALUE_BYTES: Final = 10_000
SETTINGS: Final = {
    "acks": 1,
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 32 * 1024,
    "message.timeout.ms": 300_000,
    "socket.timeout.ms": 10_000,
}
LOOK_S: Final = 0.2
MEMORY_SHARE: Final = 1.25  # Fraction of `memory_bytes` that may be resident beyond the initial size.


class Stalled(NamedTuple):
    """The measured sizes."""

    leader: int
    before_bytes: int  # Resident at the leader before the load began.
    peak_bytes: int
    log_bytes: int  # Growth of its log during the stall.
    acknowledged: int

    @property
    def grown_bytes(self) -> int:
        return self.peak_bytes - self.before_bytes


class _Load:
    """A producer in a thread."""

    def __init__(self, bootstrap: str, bytes_a_second: int) -> None:
        self.acknowledged = 0
        self._producer = Producer({**SETTINGS, "bootstrap.servers": bootstrap})
        self._rate = bytes_a_second / VALUE_BYTES
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall-load")
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        value = os.urandom(VALUE_BYTES)
        while not self._ended.is_set():
            if sent > (time.monotonic() - began) * self._rate:
                self._producer.poll(0.005)
                continue
            try:
                self._producer.produce(TOPIC, value, on_delivery=self._delivered)
                sent += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
        self._producer.purge()
        self._producer.flush(10)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.acknowledged += error is None


def make_topic(cluster: Cluster) -> None:
    """Make the load's topic, unless it exists."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, 4, -1)])[TOPIC].result()


def stall(cluster: Cluster, seconds: float, bytes_a_second: int) -> Stalled:
    """Stall the commit for so many seconds under this load."""
    make_topic(cluster)
    leader = cluster.leader()
    node = cluster.nodes[leader]
    process = psutil.Process(node.pid)
    before = peak = process.memory_info().rss
    log_before = _log_bytes(cluster, leader)
    load = _Load(node.bootstrap, bytes_a_second)
    try:
        with stopped(cluster, next(one for one in cluster.nodes if one != leader)):
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                time.sleep(LOOK_S)
                peak = max(peak, process.memory_info().rss)
            grown = _log_bytes(cluster, leader) - log_before
    finally:
        load.stop()
    return Stalled(leader, before, peak, grown, load.acknowledged)


@contextmanager
def stopped(cluster: Cluster, follower: int) -> Iterator[None]:
    """Pause this node and ZooKeeper inside the `with` block."""
    servers = [server.pid for server in cluster.zookeeper.servers if server.pid]
    cluster.asleep.add(follower)
    cluster.nodes[follower].suspend()
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
        cluster.nodes[follower].resume()
        cluster.asleep.discard(follower)


def _log_bytes(cluster: Cluster, number: int) -> int:
    return sum(one.stat().st_size for one in (cluster.nodes[number].data / "wal").glob("*.wal"))
