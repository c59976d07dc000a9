"""Kafka clients log in, are refused, go on through a rotation, and are cut off when their user is disabled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# Clients that could not log in are kept, and try again: too many failures shut out the address.
SLOW = {"reconnect.backoff.ms": 10_000, "reconnect.backoff.max.ms": 60_000}

# Clients that could not log in call back while they are collected, in the midst of whatever runs then.
_kept: list[Any] = []


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    data = tmp_path_factory.mktemp("logins") / "data"
    with served(data, options=["--set", "kafka_session_ms_max=3s"]) as node:
        yield node, Administrator(node.http)


def sasl(node: Node, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": lambda error: None,
        "log_level": 0,
    }


def admin_of(settings: dict[str, Any]) -> AdminClient:
    client = AdminClient(settings)
    _kept.append(client)
    return client


def producer_of(settings: dict[str, Any]) -> Producer:
    producer = Producer(settings)
    _kept.append(producer)
    return producer


def create(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1)])[topic].result(20)


def produced(producer: Producer, topic: str, value: bytes) -> bool:
    """True if a message was acknowledged."""
    errors: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    deadline = time.monotonic() + 10
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    return bool(errors) and errors[0] is None


def consumed(node: Node, user: str, topic: str, count: int, mechanism: str) -> list[bytes]:
    settings = {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**sasl(node, user, mechanism=mechanism), **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(secured: tuple[Node, Administrator], mechanism: str) -> None:
    node, administrator = secured
    user = f"rd, {mechanism}=x"
    administrator.add_user(user)
    topic = f"rd-{mechanism}"
    create(admin_of(sasl(node, user, mechanism=mechanism)), topic)
    assert produced(producer_of(sasl(node, user, mechanism=mechanism)), topic, b"hello")
    assert consumed(node, user, topic, 1, mechanism) == [b"hello"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_is_refused_with_a_wrong_password_and_without_a_login(
    secured: tuple[Node, Administrator], mechanism: str
) -> None:
    node, administrator = secured
    administrator.add_user(f"refused-{mechanism}")
    errors: list[Any] = []
    settings = sasl(node, f"refused-{mechanism}", "wrong password", mechanism) | {"error_cb": errors.append} | SLOW
    wrong = admin_of(settings)
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=3)
    wrong.poll(0)
    assert any("AUTHENTICATION" in str(error) for error in errors), errors
    with pytest.raises(KafkaException):
        admin_of({"bootstrap.servers": node.bootstrap, "log_level": 0}).list_topics(timeout=3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in_and_is_refused(secured: tuple[Node, Administrator], mechanism: str) -> None:
    node, administrator = secured
    user = f"aio-{mechanism}"
    administrator.add_user(user)
    topic = f"aio-{mechanism}"
    create(admin_of(sasl(node, user)), topic)
    settings = {
        "bootstrap_servers": node.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
    }
    producer = AIOKafkaProducer(**settings, sasl_plain_password=PASSWORD)
    await producer.start()
    await producer.send_and_wait(topic, b"hello")
    await producer.stop()
    consumer = AIOKafkaConsumer(topic, **settings, sasl_plain_password=PASSWORD, auto_offset_reset="earliest")
    await consumer.start()
    assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"hello"
    await consumer.stop()
    wrong = AIOKafkaProducer(**settings, sasl_plain_password="wrong password")
    with pytest.raises(Exception, match=r"(?i)authenticat|connect"):
        await wrong.start()
    await wrong.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_and_is_refused(secured: tuple[Node, Administrator], mechanism: str) -> None:
    node, administrator = secured
    user = f"kp-{mechanism}"
    administrator.add_user(user)
    topic = f"kp-{mechanism}"
    create(admin_of(sasl(node, user)), topic)
    settings = {
        "bootstrap_servers": node.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**settings)
    producer.send(topic, b"hello").get(20)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    assert next(iter(consumer)).value == b"hello"
    consumer.close()
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(**settings | {"sasl_plain_password": "wrong password", "bootstrap_timeout_ms": 1000})


def test_a_rotation_overlaps_and_ends(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("rotated")
    create(admin_of(sasl(node, "rotated")), "rotated")
    open_before = producer_of(sasl(node, "rotated"))
    assert produced(open_before, "rotated", b"1")
    administrator.rotate("rotated", "a second password", overlap_ms=3_600_000)
    for mechanism in MECHANISMS:
        for password in (PASSWORD, "a second password"):
            assert produced(producer_of(sasl(node, "rotated", password, mechanism)), "rotated", b"2"), mechanism
    assert produced(open_before, "rotated", b"3")
    administrator.rotate("rotated", "a third password", overlap_ms=0)
    assert admin_of(sasl(node, "rotated", "a third password")).list_topics(timeout=10)
    for password in (PASSWORD, "a second password"):
        with pytest.raises(KafkaException):
            admin_of(sasl(node, "rotated", password) | SLOW).list_topics(timeout=2)


def test_a_disabled_user_is_cut_off_and_comes_back(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("disabled")
    admin = admin_of(sasl(node, "disabled"))
    create(admin, "disabled")
    producer = producer_of(sasl(node, "disabled") | {"message.timeout.ms": 1500, "reconnect.backoff.max.ms": 200})
    assert produced(producer, "disabled", b"1")
    administrator.ask("PATCH", "users/disabled", {"enabled": False})
    assert not produced(producer, "disabled", b"2"), "its open connection was closed, and it cannot log in"
    administrator.ask("PATCH", "users/disabled", {"enabled": True})
    eventually(lambda: produced(producer, "disabled", b"3"), "the same client sends again")
    administrator.ask("DELETE", "users/disabled")
    assert not produced(producer, "disabled", b"4")


@pytest.mark.slow
def test_sessions_are_renewed_on_the_same_connection(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("renewed")
    create(admin_of(sasl(node, "renewed")), "renewed")
    producer = producer_of(sasl(node, "renewed"))
    deadline = time.monotonic() + 8  # Sessions of this node end after 3 s.
    while time.monotonic() < deadline:
        assert produced(producer, "renewed", b"x")
        time.sleep(0.2)


def test_administrators_of_kafka_manage_scram_users(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("kafka-admin", administrator=True)
    admin = admin_of(sasl(node, "kafka-admin"))
    for mechanism, name in (
        (ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-256"),
        (ScramMechanism.SCRAM_SHA_512, "SCRAM-SHA-512"),
    ):
        info = ScramCredentialInfo(mechanism, 8192)
        short = b"salt"  # As short as Kafka has it.
        put = UserScramCredentialUpsertion("made-by-kafka", info, b"kafka password", short)
        admin.alter_user_scram_credentials([put])["made-by-kafka"].result(20)
        assert admin_of(sasl(node, "made-by-kafka", "kafka password", name)).list_topics(timeout=10)
    found = admin.describe_user_scram_credentials(["made-by-kafka"])["made-by-kafka"].result(20)
    assert {info.mechanism: info.iterations for info in found.scram_credential_infos} == {
        ScramMechanism.SCRAM_SHA_256: 8192,
        ScramMechanism.SCRAM_SHA_512: 8192,
    }
    with pytest.raises(KafkaException, match="does not exist"):
        admin.describe_user_scram_credentials(["nobody"])["nobody"].result(20)
    gone = UserScramCredentialDeletion("made-by-kafka", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([gone])["made-by-kafka"].result(20)
    with pytest.raises(KafkaException, match="does not exist"):
        admin.alter_user_scram_credentials([gone])["made-by-kafka"].result(20)
    with pytest.raises(KafkaException):
        admin_of(sasl(node, "made-by-kafka", "kafka password")).list_topics(timeout=2)
    few = UserScramCredentialUpsertion("made-by-kafka", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1000), b"x")
    with pytest.raises(KafkaException, match="Too few iterations"):
        admin.alter_user_scram_credentials([few])["made-by-kafka"].result(20)
