"""The console of a running node, scraped as Prometheus does it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from soak.node import Node

pytestmark = pytest.mark.clients

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    home: Path = tmp_path_factory.mktemp("console")
    with Node(home / "data") as running:
        yield running


def answer(node: Node, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{node.http}{path}", timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def scraped(node: Node) -> Samples:
    status, text = answer(node, "/metrics")
    assert status == 200
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, key
            samples[key] = sample.value
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[(name, frozenset(labels.items()))]


def test_alive_and_ready(node: Node) -> None:
    assert answer(node, "/healthz") == (200, "ok\n")
    assert answer(node, "/readyz") == (200, "ok\n")
    assert answer(node, "/")[0] == 404


def test_traffic_and_lag_are_what_clients_did(node: Node) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
    for number in range(10):
        producer.produce("orders", str(number))
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    consumer.close()

    samples = scraped(node)
    assert value(samples, "longhall_ready") == 1
    assert value(samples, "kafka_topic_partition_current_offset", topic="orders", partition="0") == 10
    assert value(samples, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 10
    assert value(samples, "kafka_server_brokertopicmetrics_messagesin_total") >= 10
    group = {"consumergroup": "readers", "topic": "orders", "partition": "0"}
    assert value(samples, "kafka_consumergroup_lag", **group) == 6
    assert 0 <= value(samples, "kafka_consumergroup_lag_seconds", **group) < 600
    assert value(samples, "kafka_network_requestmetrics_totaltimems_count", request="Produce") >= 1
    assert value(samples, "longhall_sync_seconds_count") >= 1
    assert value(samples, "longhall_damaged_ranges") == 0
    again = scraped(node)
    assert all(again[key] >= count for key, count in samples.items() if key[0].endswith("_total"))


def test_a_stopped_node_leaves_no_ready_file(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        assert node.stop() == 0
        assert not node.ready_file.exists()


def test_a_queue_is_counted(node: Node) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"http://{node.sqs}",
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    url = sqs.create_queue(QueueName="counted")["QueueUrl"]
    for number in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=600)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("counted", b"from elsewhere")
    producer.flush(10)
    taken = sqs.receive_message(QueueUrl=url, VisibilityTimeout=600)["Messages"]
    samples = scraped(node)
    assert value(samples, "longhall_queue_messages_ready", queue="counted") == 3
    assert value(samples, "longhall_queue_messages_in_flight", queue="counted") == 1
    assert value(samples, "longhall_queue_messages_delayed", queue="counted") == 1
    assert value(samples, "longhall_queue_messages_sent_total", queue="counted") == 5
    assert value(samples, "longhall_queue_deliveries_total", queue="counted") == 1
    assert 0 < value(samples, "longhall_queue_oldest_message_age_seconds", queue="counted") < 60
    sqs.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
    for _ in range(3):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=600)
    samples = scraped(node)
    assert value(samples, "longhall_queue_messages_ready", queue="counted") == 0
    assert value(samples, "longhall_queue_oldest_message_age_seconds", queue="counted") == 0
