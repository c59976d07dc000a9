"""Rate limits, at every door in its own dialect: the limited tenant waits, and another one does not notice."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import pika
import pytest
import stomp
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Producer

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.serving import served

RATE = 20
LOUD, QUIET = "loud", "quiet"  # Two tenants, each with a user of its name.


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    with served(tmp_path_factory.mktemp("limits") / "data") as node:
        administrator = Administrator(node.http)
        for name in (LOUD, QUIET):
            administrator.ask("POST", "tenants", {"name": name})
            administrator.add_user(name, tenant=name)
            administrator.ask("POST", "queues", {"name": name})
        yield node, administrator


@pytest.fixture(autouse=True)
def limited(hall: tuple[Node, Administrator]) -> Iterator[None]:
    """The loud tenant has a limit in each test."""
    _, administrator = hall
    administrator.ask("PUT", "limits", {"tenant": LOUD, "requests_a_second": RATE})
    yield
    for limit in administrator.ask("GET", "limits"):
        administrator.ask("DELETE", f"limits/{limit['id']}")


def throttled(node: Node, door: str, operation: str) -> float:
    """How many requests the node has refused or held back."""
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    found = [line for line in lines if line.startswith("longhall_rate_limited_total{")]
    return sum(float(line.split()[-1]) for line in found if f'"{door}"' in line and f'"{operation}"' in line)


def test_http_answers_429_and_says_when_to_come_back(hall: tuple[Node, Administrator]) -> None:
    node, _ = hall
    before = throttled(node, "http", "send")

    def send(user: str) -> tuple[int, dict[str, str]]:
        shown = b64encode(f"{user}:{PASSWORD}".encode()).decode()
        headers = {"Content-Type": "application/json", "Authorization": f"Basic {shown}"}
        body = json.dumps({"messages": [{"body": "x"}]}).encode()
        url = f"http://{node.http}/api/v1/queues/{user}/messages"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
                return response.status, dict(response.headers)
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers)

    loud = [send(LOUD) for _ in range(10 * RATE)]
    statuses = {status for status, _ in loud}
    assert statuses == {200, 429}
    taken = next(headers for status, headers in loud if status == 200)
    assert taken["RateLimit-Policy"] == f'"requests_a_second tenant={LOUD}";q={RATE};w=1'
    assert taken["RateLimit"].startswith(f'"requests_a_second tenant={LOUD}";r=')
    refused = next(headers for status, headers in loud if status == 429)
    assert int(refused["Retry-After"]) >= 1
    assert refused["RateLimit"].split(";")[1] == "r=0"
    quiet = [send(QUIET) for _ in range(10 * RATE)]
    assert {status for status, _ in quiet} == {200}
    assert all("RateLimit" not in headers for _, headers in quiet)
    assert throttled(node, "http", "send") > before


def sqs_client(node: Node, administrator: Administrator, user: str, attempts: int) -> Any:
    made = administrator.ask("POST", f"users/{user}/access-keys", {})
    return boto3.client(
        "sqs",
        endpoint_url=f"http://{node.sqs}",
        region_name="us-east-1",
        aws_access_key_id=made["access_key"],
        aws_secret_access_key=made["secret"],
        config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}),
    )


def test_sqs_answers_request_throttled_and_a_client_that_waits_is_served(hall: tuple[Node, Administrator]) -> None:
    node, administrator = hall
    loud, quiet = sqs_client(node, administrator, LOUD, 1), sqs_client(node, administrator, QUIET, 1)
    url = loud.get_queue_url(QueueName=LOUD)["QueueUrl"]
    errors: list[dict[str, Any]] = []
    for _ in range(10 * RATE):
        try:
            loud.send_message(QueueUrl=url, MessageBody="x")
        except ClientError as error:
            errors.append(error.response)
    assert 0 < len(errors) < 10 * RATE
    assert {error["Error"]["Code"] for error in errors} == {"RequestThrottled"}
    assert all(int(error["ResponseMetadata"]["HTTPHeaders"]["x-amz-retry-after"]) > 0 for error in errors)
    url = quiet.get_queue_url(QueueName=QUIET)["QueueUrl"]
    for _ in range(10 * RATE):
        quiet.send_message(QueueUrl=url, MessageBody="x")
    assert throttled(node, "sqs", "send") == len(errors)


def test_messages_that_sqs_receives_count(hall: tuple[Node, Administrator]) -> None:
    node, administrator = hall
    administrator.ask("PUT", "limits", {"tenant": LOUD, "operation": "receive", "messages_a_second": 1})
    administrator.ask("POST", f"queues/{LOUD}/messages", {"messages": [{"body": "x"} for _ in range(50)]})
    patient, hasty = sqs_client(node, administrator, LOUD, 8), sqs_client(node, administrator, LOUD, 1)
    url = patient.get_queue_url(QueueName=LOUD)["QueueUrl"]  # Its tenant may still be in debt.
    assert len(patient.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]) > 1
    with pytest.raises(ClientError, match="RequestThrottled"):
        hasty.receive_message(QueueUrl=url, MaxNumberOfMessages=10)


def pika_channel(node: Node, user: str) -> tuple[Any, Any]:
    host, port = node.amqp.rsplit(":", 1)
    credentials = pika.PlainCredentials(user, PASSWORD)
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=credentials))
    return connection, connection.channel()


def test_an_amqp_publisher_is_held_back_and_loses_nothing(hall: tuple[Node, Administrator]) -> None:
    node, _ = hall
    before = throttled(node, "amqp", "send")
    for user in (QUIET, LOUD):
        connection, channel = pika_channel(node, user)
        queue = f"{user}.amqp"
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        for _ in range(2 * RATE):
            channel.basic_publish("", queue, b"x", mandatory=True)
        assert channel.queue_declare(queue, passive=True).method.message_count == 2 * RATE
        connection.close()
        assert (throttled(node, "amqp", "send") > before) == (user == LOUD)


def test_deliveries_to_an_amqp_consumer_are_held_back(hall: tuple[Node, Administrator]) -> None:
    node, administrator = hall
    connection, channel = pika_channel(node, QUIET)
    channel.queue_declare("shared.amqp", durable=True)
    for _ in range(4 * RATE):
        channel.basic_publish("", "shared.amqp", b"x" * 100)
    connection.close()
    administrator.ask("PUT", "limits", {"queue": "shared.amqp", "operation": "receive", "bytes_a_second": 1000})
    before = throttled(node, "amqp", "receive")
    connection, channel = pika_channel(node, QUIET)
    channel.basic_qos(prefetch_count=5)
    got = 0
    for method, _, body in channel.consume("shared.amqp"):
        assert body == b"x" * 100
        channel.basic_ack(method.delivery_tag)
        got += 1
        if got == RATE:
            break
    channel.cancel()
    while channel.basic_get("shared.amqp", auto_ack=True)[0] is not None and got < 2 * RATE:
        got += 1
    connection.close()
    assert got >= 2 * RATE
    assert throttled(node, "amqp", "receive") > before


def test_a_stomp_sender_is_held_back_and_loses_nothing(hall: tuple[Node, Administrator]) -> None:
    node, _ = hall
    before = throttled(node, "stomp", "send")
    host, port = node.stomp.rsplit(":", 1)
    for user in (QUIET, LOUD):
        connection = stomp.Connection12([(host, int(port))])
        receipts = stomp.listener.WaitingListener("last")
        connection.set_listener("receipts", receipts)
        connection.connect(user, PASSWORD, wait=True)
        for number in range(2 * RATE):
            more = {"receipt": "last"} if number == 2 * RATE - 1 else {}
            connection.send(f"/queue/{user}.stomp", "x", headers=more)
        receipts.wait_on_receipt()
        connection.disconnect()
        assert (throttled(node, "stomp", "send") > before) == (user == LOUD)


def _note_error(errors: list[Any], error: Any, message: Any) -> None:
    errors.append(error)


def _note_throttle(times: list[float], event: Any) -> None:
    times.append(event.throttle_time)


def test_a_kafka_producer_gets_a_throttle_time_by_its_tenant(hall: tuple[Node, Administrator]) -> None:
    node, administrator = hall
    administrator.ask("PUT", "limits", {"tenant": LOUD, "messages_a_second": 100})
    for user in (QUIET, LOUD):
        times: list[float] = []
        errors: list[Any] = []
        producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": PASSWORD,
                "throttle_cb": partial(_note_throttle, times),
            }
        )
        for number in range(300):
            producer.produce(user, b"x", on_delivery=partial(_note_error, errors))
            if number % 50 == 0:
                producer.flush(60)
        assert producer.flush(60) == 0
        producer.poll(0)
        assert errors == [None] * 300
        assert bool(times) == (user == LOUD)
    assert throttled(node, "kafka", "send") > 0


def test_limits_are_listed_and_what_means_nothing_is_refused(hall: tuple[Node, Administrator]) -> None:
    _, administrator = hall
    assert administrator.ask("GET", "limits") == [
        {"id": f"tenant={LOUD}", "tenant": LOUD, "requests_a_second": RATE},
    ]
    every = {"user": "*", "operation": "send", "bytes_a_second": 1 << 40}
    assert administrator.ask("PUT", "limits", every) == {**every, "id": "user=*,operation=send"}
    for wrong in ({}, {"tenant": LOUD}, {"tenant": "", "bytes_a_second": 1}, {"operation": "eat", "bytes_a_second": 1}):
        assert administrator.status("PUT", "limits", wrong) == 400
    assert administrator.status("DELETE", "limits/tenant=nobody") == 404
    assert len(administrator.ask("GET", "limits")) == 2
