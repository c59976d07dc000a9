"""The clients of a cluster under faults: those of the single-node soaks, spread over all nodes, with a send pulse.

Kafka clients know every node. Each SQS client knows one node and uses only that one. Every acknowledged send is also a
beat: the longest time without one is how long sends were refused.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, Producer, TopicPartition

from soak import queue_load
from soak.cluster import Cluster, wait_until
from soak.fates import Book
from soak.history import History, Place
from soak.load import Load
from soak.queue_load import LEASE_SECONDS, ORDERED, PLAIN, QueueWorker
from soak.reckoning import reckon

PACE: Final = 0.08  # Slow enough for two cores with three nodes, a ZooKeeper and all clients.
PAUSE_SECONDS: Final = 0.05
QUIET_SECONDS: Final = LEASE_SECONDS + queue_load.DELAY_SECONDS_MAX + 4.0
WAIT_SECONDS: Final = 120.0
# A client gives up a paused leader after its own time-out, by default a minute. It may learn of the new leader earlier,
# but refreshes its metadata only every five minutes by default; see docs/cluster.md.
PATIENCE: Final = {"socket.timeout.ms": 4_000, "topic.metadata.refresh.interval.ms": 1_000}
KAFKA, SQS = "Kafka", "SQS"
EARLY: Final = [f"{number}".encode() * 50 for number in range(50)]


class Pulse:
    """The times of acknowledged sends, by kind of client."""

    def __init__(self) -> None:
        self._beats: dict[str, list[float]] = {KAFKA: [], SQS: []}
        self._lock = threading.Lock()

    def beat(self, kind: str) -> None:
        with self._lock:
            self._beats[kind].append(time.monotonic())

    def beats(self, kind: str) -> list[float]:
        with self._lock:
            return list(self._beats[kind])

    def longest_gap(self, kind: str, since: float) -> float:
        """The longest time without a beat that ended after `since`."""
        with self._lock:
            beats = self._beats[kind]
            late = beats[max(bisect_left(beats, since) - 1, 0) :]
        return max((after - before for before, after in pairwise(late)), default=0.0)

    def wait_for_more(self, explain: Callable[[], str]) -> None:
        """Wait until every kind of client has had an acknowledgement from now on."""
        now = time.monotonic()
        wait_until(lambda: all(beats and beats[-1] > now for beats in self._beats.values()), "sends succeed", explain)


class BeatingHistory(History):
    """A history that records beats as well."""

    def __init__(self, pulse: Pulse) -> None:
        super().__init__()
        self._pulse = pulse

    def acknowledged(self, place: Place, offset: int, value: bytes) -> None:
        super().acknowledged(place, offset, value)
        self._pulse.beat(KAFKA)


class BeatingBook(Book):
    """A book that records beats as well."""

    def __init__(self, pulse: Pulse) -> None:
        super().__init__()
        self._pulse = pulse

    def acknowledged(self, queue: str, key: str, message_id: str) -> None:
        super().acknowledged(queue, key, message_id)
        self._pulse.beat(SQS)


class ClusterLoad:
    """All clients, what was acknowledged to them, and the checks of it."""

    def __init__(self, cluster: Cluster, *, wings: bool = False) -> None:
        """With `wings`, everything that can be placed in wings is placed there."""
        self.pulse = Pulse()
        self.history = BeatingHistory(self.pulse)
        self.book = BeatingBook(self.pulse)
        self.hung: list[str] = []
        self._cluster = cluster
        self._wings = wings
        placement = "parts" if wings else "hall"
        self._kafka = Load(cluster.bootstrap, self.history, pace=PACE, settings=PATIENCE, placement=placement)
        self._queues: list[QueueWorker] = []
        self._urls: dict[int, dict[str, str]] = {}

    def start(self) -> None:
        self._kafka.start()
        self._make_queues()
        kinds: list[tuple[str, int, Callable[[str, str, dict[str, str], Book], QueueWorker]]] = [
            ("s1", 1, queue_load.Sender),
            ("s2", 2, queue_load.Sender),
            ("r1", 3, queue_load.Receiver),
            ("r2", 1, queue_load.Receiver),
            ("o1", 2, queue_load.OrderedSender),
            ("o2", 3, queue_load.OrderedSender),
            ("q1", 1, queue_load.OrderedReceiver),
            ("q2", 2, queue_load.OrderedReceiver),
        ]
        for name, number, kind in kinds:
            worker = kind(name, f"http://{self._cluster.nodes[number].sqs}", self._urls[number], self.book)
            worker.pause_seconds = PAUSE_SECONDS
            worker.start()
            self._queues.append(worker)
        self.wait_for_more()

    def _make_queues(self) -> None:
        client = queue_load.new_client(f"http://{self._cluster.nodes[1].sqs}")
        lease = {"VisibilityTimeout": str(LEASE_SECONDS)}
        plain, ordered = lease, {**lease, "FifoQueue": "true"}
        if self._wings:
            plain = {**plain, "LonghallPlacement": "any-host"}
            ordered = {**ordered, "LonghallPlacement": "parts", "DeduplicationScope": "messageGroup"}
        for name, attributes in ((PLAIN, plain), (ORDERED, ordered)):
            url: str = client.create_queue(QueueName=f"soak-{name}", Attributes=attributes)["QueueUrl"]
            for number, node in self._cluster.nodes.items():
                there = url.replace(self._cluster.nodes[1].sqs, node.sqs)
                self._urls.setdefault(number, {})[name] = there

    def wait_for_more(self) -> None:
        self.pulse.wait_for_more(lambda: "\n".join([*self.failures(), self._cluster.log_tails()]))

    def failures(self) -> list[str]:
        """Violations known without reading the data."""
        died = [f"{worker.name} died: {worker.failure!r}" for worker in self._queues if worker.failure is not None]
        return [*self._kafka.failures(), *died, *self.book.complaints]

    def reckon(self, *, at_rest: bool = False) -> list[str]:
        """Read all topics and compare them with the earlier acknowledgements."""
        _, complaints = reckon(self._cluster.bootstrap, self.history.snapshot(), at_rest=at_rest)
        return complaints

    def finish(self) -> list[str]:
        """Stop all clients; returns every violation in the final state."""
        for worker in self._queues:
            worker.stopping.set()
        self._kafka.finish(self.hung)
        for worker in self._queues:
            worker.finish()
        complaints = [*self.failures(), *self.reckon(at_rest=True)]
        found = self._drain(next(iter(self._urls)))
        for queue, keys in found.items():
            complaints += self.book.missing(queue, set(keys)) + self.book.resurrected(queue, set(keys))
            twice = sorted(key for key in set(keys) if keys.count(key) > 1) if len(set(keys)) < len(keys) else []
            complaints += [f"{queue}: {key} was in the queue more than once at the end" for key in twice[:5]]
        return complaints

    def stop(self) -> None:
        """Stop all clients without any check."""
        for worker in self._queues:
            worker.stopping.set()
        self._kafka.stop()

    def _drain(self, number: int) -> dict[str, list[str]]:
        """Receive and settle until nothing was received for longer than any message may be hidden."""
        urls = self._urls[number]
        client = queue_load.new_client(f"http://{self._cluster.nodes[number].sqs}")
        found: dict[str, list[str]] = {queue: [] for queue in urls}
        quiet_since = time.monotonic()
        deadline = quiet_since + 2 * WAIT_SECONDS
        while time.monotonic() - quiet_since < QUIET_SECONDS:
            assert time.monotonic() < deadline, "the queues were not empty in time"
            for queue, url in urls.items():
                for message in _receive(client, url):
                    found[queue].append(message["Body"])
                    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                    quiet_since = time.monotonic()
        return found

    def counts(self) -> Mapping[str, int]:
        told = self.history.snapshot()
        queues = self.book.counts()
        return {
            "records": told.count(),
            "transactions": len(told.transactions),
            "queue messages": queues["acknowledged"],
            "settled": queues["settled"],
        }


def send_early(bootstrap: str) -> None:
    """Send a few messages before the cluster exists."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in EARLY:
        producer.produce("early", value)
    assert producer.flush(WAIT_SECONDS) == 0


def read_early(cluster: Cluster) -> list[bytes | None]:
    """Read those messages again."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "early", "enable.auto.commit": False})
    consumer.assign([TopicPartition("early", 0, 0)])
    found = [message.value() for message in consumer.consume(len(EARLY), WAIT_SECONDS)]
    consumer.close()
    return found


def _receive(client: Any, url: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    except (BotoCoreError, ClientError):
        return []  # The caller asks again.
    return found
