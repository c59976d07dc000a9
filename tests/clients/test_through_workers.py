"""A slice of the clients' tests against `serve --workers 2`, through the worker that leads nothing.

Every client with a process of its own (kafkajs, Java, the AWS command line) is left to `LONGHALL_TEST_WORKERS=2` before
`pytest tests/clients`, which has all of these tests meet two workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from aiokafka import AIOKafkaConsumer
from botocore.config import Config
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from soak.node import Node
from tests.clients import (
    test_confluent_admin,
    test_confluent_groups,
    test_confluent_records,
    test_confluent_transactions,
)
from tests.clients.conftest import FreshName, MakeTopic
from tests.clients.librdkafka import PROTOCOLS, new_producer, send
from tests.clients.serving import Served
from tests.clients.sqs import test_both_doors, test_messages, test_resource
from tests.clients.sqs.conftest import CREDENTIALS, REGION, endpoint_of, write_credentials
from tests.clients.sqs.refusals import WRONG_SIGNATURE, refusal

READ_MS_MAX = 30_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Workers that ask for signatures: each of them checks those of its own connections."""
    home = tmp_path_factory.mktemp("workers")
    write_credentials(home / "credentials")
    with Served(home / "data", options=["--credentials", os.fspath(home / "credentials")], workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(node: Node) -> str:
    return node.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture(scope="module")
def sqs(node: Node) -> Any:
    once = Config(retries={"total_max_attempts": 1}, read_timeout=40)
    return boto3.client("sqs", endpoint_url=endpoint_of(node), region_name=REGION, config=once, **CREDENTIALS)


@pytest.fixture
def queue(sqs: Any, fresh_name: FreshName) -> str:
    return str(sqs.create_queue(QueueName=fresh_name("queue"))["QueueUrl"])


def test_records(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    test_confluent_records.test_a_record_keeps_all_its_parts(bootstrap, topic)
    test_confluent_records.test_topics_are_made_on_first_use(bootstrap, fresh_name)


def test_groups_and_transactions(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    for protocol in PROTOCOLS:
        test_confluent_groups.test_a_group_continues_at_its_committed_offset(
            bootstrap, make_topic, fresh_name, protocol
        )
        test_confluent_transactions.test_consume_transform_produce(bootstrap, make_topic, fresh_name, protocol)


def test_administration(admin: AdminClient, fresh_name: FreshName) -> None:
    test_confluent_admin.test_a_topic_is_made_listed_described_and_deleted(admin, fresh_name)


async def test_other_clients_for_python_find_who_leads(bootstrap: str, topic: str) -> None:
    send(new_producer(bootstrap), topic, ["a", "b"])
    with_thread = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=READ_MS_MAX
    )
    assert [next(with_thread).value, next(with_thread).value] == [b"a", b"b"]
    with_thread.close()
    with_loop = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await with_loop.start()
    try:
        assert [(await with_loop.getone()).value, (await with_loop.getone()).value] == [b"a", b"b"]
    finally:
        await with_loop.stop()


def test_queues(sqs: Any, queue: str, node: Node, fresh_name: FreshName) -> None:
    test_messages.test_a_message_is_sent_received_and_deleted(sqs, queue)
    resource = boto3.resource("sqs", endpoint_url=endpoint_of(node), region_name=REGION, **CREDENTIALS)
    test_resource.test_an_ordinary_program(resource, fresh_name)
    stranger = boto3.client(
        "sqs",
        endpoint_url=endpoint_of(node),
        region_name=REGION,
        **{**CREDENTIALS, "aws_secret_access_key": "another"},
    )
    assert refusal(stranger.send_message, QueueUrl=queue, MessageBody="x") == WRONG_SIGNATURE


def test_a_queue_through_both_doors(sqs: Any, queue: str, bootstrap: str) -> None:
    test_both_doors.test_a_waiting_receiver_wakes_on_a_produced_record(sqs, queue, bootstrap)


def test_a_topic_through_both_doors(sqs: Any, queue: str, bootstrap: str) -> None:
    test_both_doors.test_sent_with_boto3_read_with_confluent_kafka(sqs, queue, bootstrap)
