"""Limits of users and client ids: set by Kafka's own requests, and felt by the limited client alone."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.serving import served

RATE = 50_000.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    with served(tmp_path_factory.mktemp("quotas") / "data") as node:
        administrator = Administrator(node.http)
        for name in ("chief", "slow", "free", "reader"):
            administrator.add_user(name)
        administrator.add_user("nobody", administrator=False)
        yield node, administrator


def settings(node: Node, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
        **more,
    }


class Quotas:
    """Kafka's requests for client quotas, by kafka-python's codecs."""

    def __init__(self, node: Node, user: str) -> None:
        self._client = KafkaAdminClient(
            bootstrap_servers=node.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=PASSWORD,
        )

    def alter(
        self, entity: dict[str, str | None], validate_only: bool = False, **rates: float | None
    ) -> tuple[int, str]:
        """Set rates, or remove those that are None; the error and its message."""
        entry = AlterClientQuotasRequest.EntryData
        request = AlterClientQuotasRequest(
            entries=[
                entry(
                    entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                    ops=[entry.OpData(key=key, value=rate or 0.0, remove=rate is None) for key, rate in rates.items()],
                )
            ],
            validate_only=validate_only,
        )
        (result,) = self._ask(request).entries
        return result.error_code, result.error_message

    def describe(self, strict: bool = False, **components: tuple[int, str | None]) -> list[tuple[Any, Any]]:
        """The entities that match, with their rates."""
        request = DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasRequest.ComponentData(
                    entity_type=kind.replace("_", "-"), match_type=match_type, match=match
                )
                for kind, (match_type, match) in components.items()
            ],
            strict=strict,
        )
        response = self._ask(request)
        assert response.error_code == 0, response.error_message
        return [
            ({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
            for entry in response.entries
        ]

    def _ask(self, request: Any) -> Any:
        return self._client._manager.run(self._client._manager.send, request)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def quotas(secured: tuple[Node, Administrator]) -> Iterator[Quotas]:
    client = Quotas(secured[0], "chief")
    yield client
    client.close()


def produce(node: Node, user: str, topic: str, messages: int, **more: Any) -> list[float]:
    """Send messages of 20 kB, each in its own request; the throttle times that the broker told."""
    told: list[float] = []
    producer = Producer(
        settings(node, user, **{"linger.ms": 0, "throttle_cb": lambda event: told.append(event.throttle_time), **more})
    )
    for _ in range(messages):
        producer.produce(topic, bytes(20_000))
        assert producer.flush(30) == 0
    producer.poll(0.1)
    return told


def test_limits_are_set_listed_and_removed(quotas: Quotas) -> None:
    assert quotas.alter({"user": "u", "client-id": None}, producer_byte_rate=5.0, consumer_byte_rate=6.0)[0] == 0
    assert quotas.alter({"user": "u"}, producer_byte_rate=7.0)[0] == 0
    both = ({"user": "u", "client-id": None}, {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0})
    alone = ({"user": "u"}, {"producer_byte_rate": 7.0})
    assert quotas.describe(user=(0, "u")) in ([alone, both], [both, alone])
    assert quotas.describe(strict=True, user=(2, None)) == [alone]
    assert quotas.describe(client_id=(1, None)) == [both]
    assert quotas.describe(ip=(2, None)) == []
    assert quotas.alter({"user": "u"}, validate_only=True, producer_byte_rate=None)[0] == 0
    assert alone in quotas.describe()
    assert quotas.alter({"user": "u", "client-id": None}, producer_byte_rate=None)[0] == 0
    assert quotas.describe(client_id=(2, None)) == [(both[0], {"consumer_byte_rate": 6.0})]
    assert quotas.alter({"user": "u", "client-id": None}, consumer_byte_rate=None)[0] == 0
    assert quotas.alter({"user": "u"}, producer_byte_rate=None)[0] == 0
    assert quotas.describe() == []


@pytest.mark.parametrize(
    ("entity", "key", "rate", "reason"),
    [
        ({"user": "u"}, "request_percentage", 50.0, "event loop"),
        ({"ip": "127.0.0.1"}, "connection_creation_rate", 5.0, "connections_per_address_max"),
        ({"user": "u"}, "speed", 5.0, "there is no limit 'speed'"),
        ({"user": "u"}, "producer_byte_rate", 0.5, "whole number"),
        ({"user": "u"}, "producer_byte_rate", float("inf"), "whole number"),
        ({"user": ""}, "producer_byte_rate", 5.0, "not empty"),
        ({"group": "g"}, "producer_byte_rate", 5.0, "not 'group'"),
    ],
)
def test_what_is_not_enforced_is_refused_with_the_reason(
    quotas: Quotas, entity: dict[str, str | None], key: str, rate: float, reason: str
) -> None:
    error, said = quotas.alter(entity, **{key: rate})
    assert error == 42  # INVALID_REQUEST
    assert reason in said
    assert quotas.describe() == []


def metric(node: Node, name: str) -> float:
    """The sum of a metric over the processes of all hosts."""
    hosts: Any = node.ready.get("nodes", [node.ready])
    lines: list[str] = []
    for host in hosts:
        with urllib.request.urlopen(f"http://{host['http']}/metrics", timeout=30) as response:
            lines += response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def test_a_limited_producer_waits_and_another_does_not(secured: tuple[Node, Administrator], quotas: Quotas) -> None:
    node, _ = secured
    assert quotas.alter({"user": "slow"}, producer_byte_rate=RATE)[0] == 0
    try:
        assert max(produce(node, "slow", "written", 5)) > 0
        assert produce(node, "free", "written", 5) == []
        assert metric(node, "longhall_client_throttles_total") > 0
        assert metric(node, "longhall_limited_clients") == 1
    finally:
        quotas.alter({"user": "slow"}, producer_byte_rate=None)
    assert produce(node, "slow", "written", 5) == []


def test_a_client_id_is_limited_whoever_uses_it(secured: tuple[Node, Administrator], quotas: Quotas) -> None:
    node, _ = secured
    assert quotas.alter({"client-id": "batch"}, producer_byte_rate=RATE)[0] == 0
    try:
        assert max(produce(node, "free", "written", 5, **{"client.id": "batch"})) > 0
        assert produce(node, "free", "written", 5, **{"client.id": "other"}) == []
    finally:
        quotas.alter({"client-id": "batch"}, producer_byte_rate=None)


def consume(node: Node, user: str, topic: str, messages: int) -> list[float]:
    told: list[float] = []
    consumer = Consumer(
        settings(
            node,
            user,
            **{
                "group.id": f"group of {user}",
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 30_000,
                "throttle_cb": lambda event: told.append(event.throttle_time),
            },
        )
    )
    consumer.subscribe([topic])
    found = 0
    while found < messages:
        message = consumer.poll(30)
        assert message is not None
        found += message.error() is None
    consumer.poll(0)
    consumer.close()
    return told


def test_a_limited_consumer_gets_everything_later(secured: tuple[Node, Administrator], quotas: Quotas) -> None:
    node, _ = secured
    produce(node, "free", "read", 8)
    assert quotas.alter({"user": "reader"}, consumer_byte_rate=RATE)[0] == 0
    try:
        assert max(consume(node, "reader", "read", 8)) > 0
        assert consume(node, "free", "read", 8) == []
    finally:
        quotas.alter({"user": "reader"}, consumer_byte_rate=None)


def test_only_those_who_may_alter_the_cluster_set_limits(secured: tuple[Node, Administrator], quotas: Quotas) -> None:
    client = Quotas(secured[0], "nobody")
    try:
        assert client.alter({"user": "nobody"}, producer_byte_rate=1e9)[0] == 31  # CLUSTER_AUTHORIZATION_FAILED
    finally:
        client.close()
    assert quotas.describe() == []
