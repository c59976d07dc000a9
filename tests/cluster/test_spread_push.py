"""AMQP and STOMP queues, and topics, without a placement in a real cluster: they are in the groups of the hosts, and
consumers go on when the host that leads such a group is killed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pika
import stomp
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from tests.cluster.test_spread import WAIT_S, _run, _wait_for_groups

MESSAGES = 30


def _connect(address: str) -> pika.BlockingConnection:
    host, port = address.rsplit(":", 1)
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=60))


class _PikaConsumer(threading.Thread):
    """Consumes with a prefetch, in a connection that stays open to the end."""

    def __init__(self, address: str, queue: str) -> None:
        super().__init__(daemon=True)
        self.bodies: list[str] = []
        self._connection = _connect(address)
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=5)
        self._channel.basic_consume(queue, self._take)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)

    def run(self) -> None:
        self._channel.start_consuming()

    def stop(self) -> None:
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self.join(30)
        self._connection.close()


class _StompConsumer(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self, address: str, queue: str) -> None:
        host, port = address.rsplit(":", 1)
        self.bodies: list[str] = []
        self.lost = False
        self.connection = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1)
        self.connection.set_listener("", self)
        self.connection.connect(wait=True)
        self.connection.subscribe(f"/queue/{queue}", id="1", ack="client-individual")

    def on_message(self, frame: Any) -> None:
        self.bodies.append(frame.body)
        self.connection.ack(frame.headers["ack"])

    def on_disconnected(self) -> None:
        self.lost = True


def _publish(address: str, queue: str, bodies: list[str]) -> None:
    """Publish with confirms; what was not confirmed is published again."""
    ends_s = time.monotonic() + WAIT_S
    left = list(bodies)
    while left:
        assert time.monotonic() < ends_s, f"{len(left)} were not confirmed"
        try:
            connection = _connect(address)
            channel = connection.channel()
            channel.confirm_delivery()
            while left:
                channel.basic_publish("", queue, left[0].encode(), pika.BasicProperties(delivery_mode=2))
                left.pop(0)
            connection.close()
        except pika.exceptions.AMQPError:
            time.sleep(0.3)


def test_consumers_go_on_when_the_host_that_leads_their_queue_dies(ensemble: Ensemble, tmp_path: Path) -> None:
    spread = {"default_placement": "spread"}
    cluster = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=spread)
    try:
        cluster.start()
        _wait_for_groups(cluster)
        declaring = _connect(cluster.nodes[1].amqp)
        channel = declaring.channel()
        channel.queue_declare("private", exclusive=True)
        for number in range(4):
            channel.queue_declare(f"q{number}", durable=True)
        admin = AdminClient({"bootstrap.servers": cluster.nodes[2].bootstrap})
        admin.create_topics([NewTopic("t", num_partitions=3)])["t"].result(30)

        rows = {row["name"]: row for row in _run(cluster, 1, "map") if row["kind"] == "queue"}
        assert rows["private"]["group"] == "hall", "it ends with its connection, which the hall knows"
        groups = {rows[f"q{number}"]["group"] for number in range(4)}
        assert groups <= {"host-1", "host-2", "host-3"}
        assert len(groups) > 1
        topic = [row["group"] for row in _run(cluster, 3, "map", "t") if row["name"] == "t"]
        assert sorted(topic) == ["host-1", "host-2", "host-3"]
        # A queue that node 2 leads, or node 3 if it leads none: clients are at the other two.
        name, dying = next((name, row["leader"]) for name, row in rows.items() if row["leader"] != 1 and name[0] == "q")
        declaring.close()

        near, far = (number for number in cluster.nodes if number != dying)
        consumers = [_PikaConsumer(cluster.nodes[near].amqp, name), _PikaConsumer(cluster.nodes[far].amqp, name)]
        for consumer in consumers:
            consumer.start()
        listener = _StompConsumer(cluster.nodes[far].stomp, name)
        bodies: list[str] = []

        def came() -> list[str]:
            return [*consumers[0].bodies, *consumers[1].bodies, *listener.bodies]

        for step in range(2):
            bodies = [f"{step}-{number}" for number in range(MESSAGES)]
            _publish(cluster.nodes[near].amqp, name, bodies)
            ends_s = time.monotonic() + WAIT_S
            while not set(bodies) <= set(came()):
                assert time.monotonic() < ends_s, f"{sorted(set(bodies) - set(came()))}\n{cluster.log_tails()}"
                time.sleep(0.1)
            if step == 0:
                assert max(Counter(came()).values()) == 1, "nothing came twice without a fault"
                cluster.nodes[dying].kill()
        assert all(consumer.is_alive() for consumer in consumers), "their connections were not closed"
        assert not listener.lost
        assert all(any(body.startswith("1-") for body in one.bodies) for one in (*consumers, listener))
        listener.connection.disconnect()
        for consumer in consumers:
            consumer.stop()
    finally:
        cluster.stop()
