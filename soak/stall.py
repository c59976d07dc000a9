"""A commit that cannot get on while a leader is sent to with acks=1: how much memory and log that costs.

A follower in sync and ZooKeeper are stopped, so that the leader can neither commit nor have the follower leave the
in-sync set. It acknowledges what it has on its own disk meanwhile. Memory is what the leader's process has resident.
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
MEMORY_SHARE: Final = 1.25  # Of `memory_bytes`: so much may be resident beyond what was at the beginning.


class Stalled(NamedTuple):
    """What was seen."""

    leader: int
    before_bytes: int  # Resident at the leader before the load began.
    peak_bytes: int
    log_bytes: int  # By how much its log grew while the commit stood.
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
    """The topic that the load is for, unless it is there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    if TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(TOPIC, 4, -1)])[TOPIC].result()


def stall(cluster: Cluster, seconds: float, bytes_a_second: int) -> Stalled:
    """Have the commit stand for so long under so much load."""
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
    """This node and ZooKeeper stand still."""
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
