"""A front end of a real cluster: clients of every door go through it, also while a storage node is killed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pika
import pytest
import stomp
from botocore.config import Config
from confluent_kafka import Consumer, Producer

from longhall.cli.cluster.status import ask
from longhall.console.cluster_view import HostView
from soak.cluster import Cluster
from soak.node import COMMAND, Node, NodeFailed
from tests.left_out import leave_out

FRONT = 9
BALANCER = "127.0.0.77"  # An address that no other test uses: the ports are the usual ones.
MARK = b"7e9c-marked-message-body"
SECONDS_MAX = 60.0

_T = TypeVar("_T")


@pytest.fixture(scope="module")
def front(whole: Cluster) -> Iterator[Node]:
    whole.wait_in_sync()
    node = whole.make(FRONT)
    node.options += ["--role", "front"]
    node.start()
    yield node
    node.stop()


def retried(attempt: Callable[[], _T]) -> _T:
    """The result of an attempt that is repeated while it fails, as an application does."""
    until = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return attempt()
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def sqs_client(url: str) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(retries={"max_attempts": 10}),
    )


def files_with_messages(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and MARK in path.read_bytes()]


def row_of(node: Node) -> HostView:
    return next(host for host in ask(node.http).hosts if host.node == FRONT)


def test_every_door_serves_while_a_storage_node_is_killed(cluster: Cluster, front: Node) -> None:
    sqs = sqs_client(f"http://{front.sqs}")
    queue = sqs.create_queue(QueueName="behind-front")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody=MARK.decode() + " before")
    producer = Producer({"bootstrap.servers": front.bootstrap, "acks": "all"})
    producer.produce("records-behind-front", MARK)
    assert producer.flush(30) == 0
    leader = cluster.leader()
    cluster.nodes[leader].kill()

    retried(lambda: sqs.send_message(QueueUrl=queue, MessageBody=MARK.decode() + " after"))
    bodies: set[str] = set()
    while len(bodies) < 2:
        received = retried(lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, MaxNumberOfMessages=10))
        bodies |= {message["Body"] for message in received.get("Messages", [])}
    assert bodies == {MARK.decode() + " before", MARK.decode() + " after"}

    producer.produce("records-behind-front", MARK)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": front.bootstrap, "group.id": "front", "auto.offset.reset": "earliest"})
    consumer.subscribe(["records-behind-front"])
    records = [record for record in consumer.consume(2, timeout=60) if record.error() is None]
    assert [record.value() for record in records] == [MARK, MARK]
    consumer.close()
    retried(lambda: _amqp(front.amqp))
    retried(lambda: _stomp(front.stomp))
    cluster.nodes[leader].start()
    cluster.wait_in_sync()
    assert files_with_messages(front.data) == []
    assert files_with_messages(cluster.nodes[leader].data)  # The search finds what is there.


def _amqp(address: str) -> None:
    host, port = address.rsplit(":", 1)
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.queue_declare("amqp-behind-front", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "amqp-behind-front", MARK)
        for _, _, body in channel.consume("amqp-behind-front", auto_ack=True, inactivity_timeout=20):
            assert body == MARK
            return


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.bodies: list[str] = []

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.bodies.append(frame.body)


def _stomp(address: str) -> None:
    host, port = address.rsplit(":", 1)
    connection = stomp.Connection([(host, int(port))])
    listener = _Listener()
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    try:
        connection.subscribe("/queue/stomp-behind-front", id="1", ack="auto")
        connection.send("/queue/stomp-behind-front", MARK.decode())
        until = time.monotonic() + 20
        while not listener.bodies:
            assert time.monotonic() < until, "the message did not come back"
            time.sleep(0.05)
        assert listener.bodies[0] == MARK.decode()
    finally:
        connection.disconnect()


def test_a_balancer_goes_around_a_front_end_that_dies(cluster: Cluster, front: Node, tmp_path: Path) -> None:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        leave_out("HAProxy is not installed; on Debian: apt-get install haproxy")
    command = [*COMMAND, "balancer", "haproxy", "--address", front.http, "--bind", BALANCER]
    alone = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [line.split()[1] for line in alone.splitlines() if line.startswith("    server ")] == [f"node_{FRONT}"] * 7
    every = subprocess.run([*command, "--every-node"], capture_output=True, text=True, timeout=60, check=True).stdout
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(every)
    balancer = subprocess.Popen([program, "-db", "-f", str(configuration)], stderr=subprocess.DEVNULL)
    try:
        assert balancer.poll() is None
        sqs = sqs_client(f"http://{BALANCER}:9324")
        queue = retried(lambda: sqs.create_queue(QueueName="behind-balancer"))["QueueUrl"]
        for number in range(20):
            if number == 10:
                front.kill()
            retried(lambda: sqs.send_message(QueueUrl=queue, MessageBody="one"))
        counted = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])
        assert int(counted["Attributes"]["ApproximateNumberOfMessages"]) >= 20
        retried(lambda: _amqp(f"{BALANCER}:5672"))
        retried(lambda: _stomp(f"{BALANCER}:61613"))
    finally:
        balancer.kill()
        balancer.wait()
        if not front.running:
            front.start()


def test_a_front_end_is_never_a_replica(cluster: Cluster, front: Node) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "cluster", *words, "--address", front.http]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    for refused in (("add", str(FRONT)), ("move", "1", str(FRONT)), ("move", "--leader", str(FRONT))):
        done = run(*refused)
        assert done.returncode != 0
        assert f"node {FRONT} is a front end" in done.stderr
    wing = run("wing", "add", "apart", "--hosts", f"1,{FRONT}")
    assert wing.returncode != 0
    assert f"node {FRONT} is a front end" in wing.stderr
    factor = run("factor", "4")
    assert factor.returncode != 0
    assert "there are 3 hosts to keep 4 copies" in factor.stderr
    shown = run("status")
    line = next(line for line in shown.stdout.splitlines() if line.split()[:1] == [str(FRONT)])
    assert line.split()[1] == "front"
    row = row_of(cluster.nodes[1])
    assert (row.role, row.keeps, row.manages, row.leads) == ("front", False, False, False)


def test_a_front_end_starts_again_on_its_directory_and_no_storage_directory_is_taken(
    cluster: Cluster, front: Node
) -> None:
    front.stop()
    front.start()
    assert row_of(front).role == "front"
    follower = cluster.nodes[cluster.followers()[0]]
    follower.stop()
    follower.options += ["--role", "front"]
    try:
        with pytest.raises(NodeFailed, match="is that of a node that stores messages"):
            follower.start()
    finally:
        del follower.options[-2:]
        follower.start()
    cluster.wait_in_sync()
