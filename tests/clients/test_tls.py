"""Unmodified clients of every door over TLS: with passwords and signatures, with certificates, and without either."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aio_pika
import boto3
import pika
import pytest
import stomp
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from longhall.client.security import security_of_environment
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataResponse
from longhall.pipeline.api_client import ApiClient
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.broker_connection import BrokerConnection
from soak.node import Node
from tests.clients.accounts import PASSWORD, ROOT, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import Served
from tests.front.certificates import TestAuthority

WAIT_S = 30.0
KEYS = "[test]\naws_access_key_id = TESTKEY\naws_secret_access_key = testsecret\n"

_kept: list[Any] = []  # Clients that could not log in call back while they are collected.


class Secured(NamedTuple):
    """A node with TLS, users, and a test authority."""

    node: Node
    authority: TestAuthority
    administrator: Administrator

    def files(self, name: str) -> tuple[str, str]:
        return self.authority.path(f"{name}.crt"), self.authority.path(f"{name}.key")

    def kafka(self, name: str = "", **more: Any) -> dict[str, Any]:
        """Settings of librdkafka."""
        settings = {
            "bootstrap.servers": self.node.bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": self.authority.path("ca.crt"),
            "log_level": 0,
            "error_cb": lambda error: None,
        }
        if name:
            certificate, key = self.files(name)
            settings |= {"ssl.certificate.location": certificate, "ssl.key.location": key}
        return settings | more


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("tls")
    authority = TestAuthority(home / "authority")
    for name in ("alice", "mallory"):
        authority.issue_client(name)
    keys = home / "keys"
    keys.touch(mode=0o600)
    keys.write_text(KEYS)
    options = authority.options(
        client_ca=authority.path("ca.crt"), client_authentication="optional", user_name="common_name"
    )
    with Served(home / "data", options=[*options, "--credentials", str(keys)]) as node:
        administrator = Administrator(node.http, authority.client_context())
        administrator._header = "Basic VEVTVEtFWTp0ZXN0c2VjcmV0"  # The access key of the file: an administrator.
        administrator.ask("POST", "users", {"name": ROOT, "password": ROOT_PASSWORD, "administrator": True})
        administrator.add_user("alice", administrator=True)
        yield Secured(node, authority, administrator)


def curl(*arguments: str) -> tuple[int, str]:
    """Exit code and output of curl."""
    done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


# Kafka


def exchange(settings: dict[str, Any], topic: str) -> list[bytes]:
    """Produce ten messages and consume them."""
    producer = Producer(settings)
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(got) < 10 and time.monotonic() < deadline:
        got += [message.value() or b"" for message in consumer.consume(10, 0.5) if message.error() is None]
    consumer.close()
    return got


def test_librdkafka_is_known_by_its_certificate(secured: Secured) -> None:
    assert exchange(secured.kafka("alice"), "by-certificate") == [b"%d" % number for number in range(10)]


def test_librdkafka_logs_in_over_tls(secured: Secured) -> None:
    sasl = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": PASSWORD}
    settings = secured.kafka(**sasl) | {"security.protocol": "sasl_ssl"}
    assert len(exchange(settings, "by-password")) == 10


@pytest.mark.parametrize("name", ["", "mallory"])
def test_librdkafka_is_refused_without_a_certificate_of_a_user(secured: Secured, name: str) -> None:
    admin = AdminClient(secured.kafka(name))
    _kept.append(admin)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)


def test_a_client_is_cut_off_when_the_user_of_its_certificate_is_disabled(secured: Secured) -> None:
    secured.authority.issue_client("carol")
    secured.administrator.add_user("carol", administrator=True)
    connection = amqp(secured, "carol", pika.credentials.ExternalCredentials())
    admin = AdminClient(secured.kafka("carol"))
    _kept.append(admin)
    assert admin.list_topics(timeout=WAIT_S).brokers
    secured.administrator.ask("PATCH", "users/carol", {"enabled": False})
    with pytest.raises(pika.exceptions.ConnectionClosed, match="CONNECTION_FORCED"):
        connection.process_data_events(WAIT_S)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        amqp(secured, "carol", pika.credentials.ExternalCredentials())


def test_kafka_python_and_aiokafka_speak_tls(secured: Secured) -> None:
    certificate, key = secured.files("alice")
    tls = {
        "bootstrap_servers": secured.node.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": secured.authority.path("ca.crt"),
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }
    producer = KafkaProducer(**tls)
    assert producer.send("from-kafka-python", b"hello").get(WAIT_S).offset == 0
    producer.close()
    consumer = KafkaConsumer("from-kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **tls)
    assert next(iter(consumer)).value == b"hello"
    consumer.close()

    async def both() -> bytes:
        more = {"bootstrap_servers": secured.node.bootstrap, "security_protocol": "SSL",
                "ssl_context": secured.authority.client_context("alice")}  # fmt: skip
        async with AIOKafkaProducer(**more) as sender:
            await sender.send_and_wait("from-aiokafka", b"hello")
        async with AIOKafkaConsumer("from-aiokafka", auto_offset_reset="earliest", **more) as receiver:
            return bytes((await asyncio.wait_for(receiver.getone(), WAIT_S)).value)

    assert asyncio.run(both()) == b"hello"


# SQS


def test_boto3_uses_https_and_gets_https_addresses(secured: Secured) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"https://{secured.node.sqs}",
        region_name="eu-west-1",
        aws_access_key_id="TESTKEY",
        aws_secret_access_key="testsecret",
        verify=secured.authority.path("ca.crt"),
    )
    url = sqs.create_queue(QueueName="over-tls")["QueueUrl"]
    assert url.startswith(f"https://{secured.node.sqs}/")
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "hello"


@pytest.mark.parametrize("name", ["alice", "mallory"])
def test_boto3_without_a_signature_is_known_by_its_certificate(secured: Secured, name: str) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"https://{secured.node.sqs}",
        region_name="eu-west-1",
        verify=secured.authority.path("ca.crt"),
        config=Config(signature_version=UNSIGNED, client_cert=secured.files(name)),
    )
    if name == "alice":
        assert "ResponseMetadata" in sqs.list_queues()
    else:
        with pytest.raises(ClientError) as refused:
            sqs.list_queues()
        assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"


# AMQP


def amqp(secured: Secured, name: str | None, credentials: Any) -> pika.BlockingConnection:
    host, _, port = secured.node.amqp.partition(":")
    context = secured.authority.client_context(name)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host, int(port), credentials=credentials, ssl_options=pika.SSLOptions(context, host), socket_timeout=20
        )
    )


def test_pika_logs_in_with_external_and_with_plain(secured: Secured) -> None:
    for name, credentials in (
        ("alice", pika.credentials.ExternalCredentials()),
        (None, pika.PlainCredentials("alice", PASSWORD)),
    ):
        connection = amqp(secured, name, credentials)
        channel = connection.channel()
        channel.queue_declare("over-amqps")
        channel.confirm_delivery()
        channel.basic_publish("", "over-amqps", b"hello" * 10_000)
        assert channel.basic_get("over-amqps", auto_ack=True)[2] == b"hello" * 10_000
        header = ("-u", f"alice:{PASSWORD}", "--cacert", secured.authority.path("ca.crt"))
        listed = json.loads(curl(*header, f"https://{secured.node.management}/api/connections")[1])
        shown = {(one["user"], one["auth_mechanism"], one["ssl"]) for one in listed}
        assert ("alice", "EXTERNAL" if name else "PLAIN", True) in shown
        connection.close()


def test_pika_is_refused_with_a_certificate_of_nobody(secured: Secured) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        amqp(secured, "mallory", pika.credentials.ExternalCredentials())
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        amqp(secured, None, pika.credentials.ExternalCredentials())  # It is not even offered without a certificate.


def test_aio_pika_speaks_amqps(secured: Secured) -> None:
    async def talk() -> bytes:
        host, _, port = secured.node.amqp.partition(":")
        connection = await aio_pika.connect(
            host=host, port=int(port), login="alice", password=PASSWORD, ssl=True,
            ssl_context=secured.authority.client_context(),
        )  # fmt: skip
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio")
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "aio")
            message = await queue.get(timeout=WAIT_S)
            await message.ack()
            return message.body

    assert asyncio.run(talk()) == b"hello"


# STOMP


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.errors: list[str] = []

    def on_message(self, frame: Any) -> None:
        self.bodies.append(frame.body)

    def on_error(self, frame: Any) -> None:
        self.errors.append(frame.body)


@pytest.mark.parametrize("name", ["alice", "mallory"])
def test_stomp_py_speaks_tls_and_is_known_by_its_certificate(secured: Secured, name: str) -> None:
    host, _, port = secured.node.stomp.partition(":")
    certificate, key = secured.files(name)
    connection = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1)
    connection.set_ssl(
        [(host, int(port))], key_file=key, cert_file=certificate, ca_certs=secured.authority.path("ca.crt")
    )
    heard = Listener()
    connection.set_listener("", heard)
    if name == "alice":
        connection.connect(wait=True)
        connection.subscribe("/queue/over-stomps", id=1)
        connection.send("/queue/over-stomps", "hello")
        eventually(lambda: heard.bodies == ["hello"], "the message comes")
        connection.disconnect()
    else:
        with pytest.raises(stomp.exception.ConnectFailedException):
            connection.connect(wait=True)
        eventually(lambda: len(heard.errors) == 1, "the error comes")  # The thread of the client tells it afterwards.
        assert "Access refused for user 'mallory'" in heard.errors[0]


# HTTP


def test_curl_reaches_every_http_door_over_tls_and_none_without(secured: Secured) -> None:
    node, ca = secured.node, ("--cacert", secured.authority.path("ca.crt"))
    certificate, key = secured.files("alice")
    alice = (*ca, "--cert", certificate, "--key", key)
    assert curl(*ca, f"https://{node.http}/healthz") == (0, "ok\n")
    assert "longhall_tls_certificate_expiry_timestamp_seconds" in curl(*ca, f"https://{node.http}/metrics")[1]
    assert "rabbitmq_" in curl(*ca, f"https://{node.prometheus}/metrics")[1]
    assert "unauthorized" in curl(*ca, f"https://{node.http}/api/v1/queues")[1]
    assert '"queues"' in curl(*alice, f"https://{node.http}/api/v1/queues")[1]
    assert "rabbitmq_version" in curl(*alice, f"https://{node.management}/api/overview")[1]
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13",
               "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "--max-time", "1")  # fmt: skip
    assert "101 Switching" in curl(*ca, "-i", *upgrade, f"https://{node.stomp_websocket}/ws")[1]
    assert "begin the address with https://" in curl(f"http://{node.http}/healthz")[1]
    counted = r'longhall_connections_not_admitted_total\{.*door="http",reason="no TLS".*\} 1'
    assert re.search(counted, curl(*ca, f"https://{node.http}/metrics")[1])
    code, said = curl(f"https://{node.http}/healthz")
    assert code == 60, said  # The authority is not known.


def test_a_client_learns_why_its_certificate_is_refused(secured: Secured, tmp_path: Path) -> None:
    certificate, key = TestAuthority(tmp_path / "other").issue_client("alice")
    ca = secured.authority.path("ca.crt")
    code, said = curl("--cacert", ca, "--cert", certificate, "--key", key, f"https://{secured.node.http}/healthz")
    assert code != 0
    assert "unknown ca" in said


def test_the_command_line_speaks_tls(secured: Secured) -> None:
    certificate, key = secured.files("alice")
    tls = ("--ca", secured.authority.path("ca.crt"), "--certificate", certificate, "--key", key)

    def longhall(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "longhall.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    assert longhall(*tls, "queue", "create", "from-the-cli", "-a", f"https://{secured.node.http}")[0] == 0
    assert "from-the-cli" in longhall(*tls, "queue", "list", "-a", secured.node.http)[1]
    assert longhall(*tls, "topic", "create", "cli-topic", "-a", secured.node.bootstrap)[0] == 0
    assert "cli-topic" in longhall(*tls, "topic", "list", "-a", secured.node.bootstrap)[1]
    code, said = longhall("queue", "list", "-a", f"https://{secured.node.http}")
    assert code == 1
    assert "--ca FILE" in said


def test_the_clients_of_the_pipeline_speak_tls(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = secured.files("alice")
    monkeypatch.setenv("LONGHALL_CA", secured.authority.path("ca.crt"))
    monkeypatch.setenv("LONGHALL_CLIENT_CERTIFICATE", certificate)
    monkeypatch.setenv("LONGHALL_CLIENT_KEY", key)
    exchange(secured.kafka("alice"), "for-the-pipeline")
    with BlockingClient(secured.node.bootstrap) as client:
        assert client.ask(lambda hall: hall.controller()) > 0
    host, _, port = secured.node.bootstrap.partition(":")
    with BrokerConnection.open(host, int(port), security_of_environment()) as line:
        described = line.call(MetadataRequest(topics=None), MetadataResponse)
    assert "for-the-pipeline" in {topic.name for topic in described.topics}
    assert "queues" in ApiClient(secured.node.http).ask("GET", "queues")


# Certificates that change


def serial(address: str, context: ssl.SSLContext) -> str:
    host, _, port = address.partition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plug,
        context.wrap_socket(plug, server_hostname=host) as one,
    ):
        certificate = one.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def _has_changed(address: str, context: ssl.SSLContext, before: str) -> bool:
    return serial(address, context) != before


@pytest.mark.parametrize("tell", [False, True])
def test_new_certificates_are_used_without_a_stop_and_under_load(secured: Secured, tell: bool) -> None:
    failures: list[Any] = []
    delivered = [0]
    stop = threading.Event()

    def count(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)
        else:
            delivered[0] += 1

    def load() -> None:
        producer = Producer(secured.kafka("alice"))
        while not stop.is_set():
            producer.produce("under-load", b"x" * 100, on_delivery=count)
            producer.poll(0)
            time.sleep(0.002)
        producer.flush(WAIT_S)

    context = secured.authority.client_context()
    before = {door: serial(str(secured.node.ready[door]), context) for door in ("kafka", "sqs", "amqp", "http")}
    assert len(set(before.values())) == 1
    thread = threading.Thread(target=load)
    thread.start()
    try:
        eventually(lambda: delivered[0] > 50, "messages are delivered")
        secured.authority.issue_server()
        if tell:
            os.kill(secured.node.pid, signal.SIGHUP)
        for door, old in before.items():
            address = str(secured.node.ready[door])
            eventually(partial(_has_changed, address, context, old), f"{door} has the new certificate")
        then = delivered[0]
        eventually(lambda: delivered[0] > then + 50, "messages are delivered on the old connection")
    finally:
        stop.set()
        thread.join()
    assert failures == []
