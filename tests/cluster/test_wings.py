"""Topics and queues in wings of a real cluster: every host leads a share, and any of them may die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from tests.cluster.load import Load, sqs_client
from tests.cluster.wings import wings_of

DYING = 2


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_messages_in_wings_survive_the_loss_of_a_host(winged: Cluster) -> None:
    load = Load(winged, "winged", 1, fifo=True, placement="parts")
    load.start()
    wings = wings_of(winged)
    assert [(wing["wing"], wing["placed"]) for wing in wings] == [(f"host-{node}", 2) for node in (1, 2, 3)]
    assert all(wing["leader"] for wing in wings)

    # A message that one host accepted, which the other hosts have not seen.
    anyone = sqs_client(winged.nodes[DYING].sqs)
    anyone.create_queue(QueueName="anyone", Attributes={"LonghallPlacement": "any-host"})
    url = anyone.get_queue_url(QueueName="anyone")["QueueUrl"]
    sent = {anyone.send_message(QueueUrl=url, MessageBody=str(number))["MessageId"] for number in range(20)}

    winged.nodes[DYING].kill()
    load.wait_for_more()
    other = sqs_client(winged.nodes[3].sqs)
    url = other.get_queue_url(QueueName="anyone")["QueueUrl"]
    received: list[str] = []
    while len(received) < len(sent):
        answer = other.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        assert "Messages" in answer, f"{len(received)} of {len(sent)}\n{winged.log_tails()}"
        for message in answer["Messages"]:
            received.append(message["MessageId"])
            other.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sorted(received) == sorted(sent), "each came once"

    winged.nodes[DYING].start()
    winged.wait_in_sync()
    load.wait_for_more()
    load.stop()
    assert load.refusals == []
    load.check(DYING)


def _amqp(cluster: Cluster, number: int) -> pika.BlockingConnection:
    host, _, port = cluster.nodes[number].amqp.rpartition(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), blocked_connection_timeout=60))


def _in_flight(sqs: Any, url: str) -> int:
    name = "ApproximateNumberOfMessagesNotVisible"
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def test_an_amqp_consumer_of_a_placed_queue_survives_the_leader_of_its_wing(winged: Cluster) -> None:
    """The client keeps its connection and its consumer; what it had not acknowledged is delivered again."""
    sqs_client(winged.nodes[1].sqs).create_queue(QueueName="placed", Attributes={"LonghallPlacement": "any-host"})
    connection = _amqp(winged, 1)
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(30):
        channel.basic_publish("", "placed", b"%d" % number)
    other = sqs_client(winged.nodes[DYING].sqs)
    url = other.get_queue_url(QueueName="placed")["QueueUrl"]
    for number in range(30, 60):  # The wing of this host stores them.
        other.send_message(QueueUrl=url, MessageBody=str(number))
    channel.basic_qos(prefetch_count=90)
    first: dict[bytes, int] = {}
    again: set[bytes] = set()
    for method, _, body in channel.consume("placed", inactivity_timeout=60):
        assert body is not None, f"{len(first)} came\n{winged.log_tails()}"
        first[body] = method.delivery_tag
        if len(first) == 60:
            break
    kept = sorted(first, key=lambda body: first[body])[20:]
    for body in set(first) - set(kept):
        channel.basic_ack(first[body])
    connection.process_data_events(1)
    wait_until(lambda: _in_flight(other, url) == len(kept), "an acknowledgement has no reply: the queue tells of it")
    winged.nodes[DYING].kill()
    for method, _, body in channel.consume("placed", inactivity_timeout=60):
        assert body is not None, f"{len(again)} came again\n{winged.log_tails()}"
        assert method.redelivered
        again.add(body)
        channel.basic_ack(method.delivery_tag)
        if again >= {body for body in kept if int(body) >= 30}:
            break
    assert connection.is_open
    assert again <= set(kept), "nothing that was acknowledged comes again"
    connection.close()
