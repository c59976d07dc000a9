"""What a door refuses has a line in the log, whichever door it is: operators see what their clients do wrong."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
import stomp
from botocore.exceptions import ClientError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.sqs.conftest import CREDENTIALS, REGION
from tests.console.api.asking import Asking

FULL = {"messages_max": 1, "when_full": "refuse"}


class Errors(stomp.ConnectionListener):  # type: ignore[misc]
    """Waits for an ERROR."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def on_error(self, frame: Any) -> None:
        self.came.set()


def kafka_refusals(node: Node) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [created] = admin.create_topics([NewTopic("two words", 1)]).values()
    with pytest.raises(KafkaException):
        created.result(30)


def sqs_refusals(node: Node) -> None:
    sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName="unheard-of")


def amqp_refusals(node: Node) -> None:
    host, _, port = node.amqp.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().basic_get("unheard-of")
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "full", b"one more")
    connection.close()


def stomp_refusals(node: Node) -> None:
    host, _, port = node.stomp.rpartition(":")
    connection = stomp.Connection([(host, int(port))])
    errors = Errors()
    connection.set_listener("errors", errors)
    connection.connect(wait=True)
    connection.send("/amq/queue/full", "one more")
    connection.send("/nowhere", "x")
    assert errors.came.wait(30)
    connection.disconnect()


def test_every_door_logs_what_it_refuses(tmp_path: Path) -> None:
    with Node(tmp_path / "data", options=["--log-format", "json"]) as node:
        ask = Asking(node.http)
        ask.good("POST", "queues", {"name": "full", "settings": FULL})
        ask.good("POST", "queues/full/messages", {"messages": [{"body": "first"}]})
        for refusals in (kafka_refusals, sqs_refusals, amqp_refusals, stomp_refusals):
            refusals(node)
        ask("GET", "queues/unheard-of")
        ask.close()
        node.stop()
        lines = [json.loads(line) for line in node.log_file.read_text().splitlines()]
    refused = [line for line in lines if line["event"] == "a request was refused"]
    assert all(line["reason"] for line in refused)
    assert {(line["door"], line["request"], line["error"]) for line in refused} >= {
        ("kafka", "CreateTopics", "invalid-name"),
        ("sqs", "GetQueueUrl", "AWS.SimpleQueueService.NonExistentQueue"),
        ("amqp", "basic.get", "NOT_FOUND"),
        ("amqp", "basic.publish", "queue-full"),
        ("stomp", "SEND", "Message refused"),
        ("stomp", "SEND", "Unknown destination"),
        ("http", "GET queues/*", "unknown-queue"),
    }
