"""Apache Kafka's own kafka-acls and kafka-configs administer users, rules and quotas, over TLS, as programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.kafka_shell import KafkaShell
from tests.clients.serving import Served
from tests.front.certificates import TestAuthority

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

_kept: list[Any] = []  # Clients that could not log in call back while they are collected.


class Secured(NamedTuple):
    """A node with TLS and users, and Kafka's programs as its administrator and as somebody without permissions."""

    node: Node
    authority: TestAuthority
    administrator: Administrator
    chief: KafkaShell
    nobody: KafkaShell

    def client(self, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": self.node.bootstrap,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": self.authority.path("ca.crt"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
            "error_cb": lambda error: None,
        }


def java_settings(authority: TestAuthority, user: str) -> dict[str, str]:
    """Settings of Kafka's Java programs: SCRAM over TLS."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.path("ca.crt"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{PASSWORD}";',
        "default.api.timeout.ms": "20000",
        "request.timeout.ms": "20000",
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("kafka-programs")
    authority = TestAuthority(home / "authority")
    with Served(home / "data", options=authority.options()) as node:
        administrator = Administrator(node.http, authority.client_context())
        administrator.add_user("chief")
        administrator.add_user("nobody", administrator=False)
        shells = [
            KafkaShell(node.bootstrap, java_settings(authority, user), home / user) for user in ("chief", "nobody")
        ]
        yield Secured(node, authority, administrator, *shells)


@pytest.fixture(scope="module")
def chief(secured: Secured) -> Callable[..., str]:
    """Run a program as the administrator; its output. It must succeed."""

    def run(program: str, *words: str) -> str:
        code, output = secured.chief.run(program, *words)
        assert code == 0, output
        return output

    return run


def produced(secured: Secured, user: str, topic: str) -> int:
    """The error with which a message is refused; 0 if it was acknowledged."""
    errors: list[Any] = []
    producer = Producer(secured.client(user) | {"message.timeout.ms": 10_000})
    _kept.append(producer)
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    eventually(lambda: producer.poll(0.1) > 0 or bool(errors), "the message is acknowledged or refused")
    return 0 if errors[0] is None else int(errors[0].code())


def test_kafka_acls_allows_lists_and_removes(secured: Secured, chief: Callable[..., str]) -> None:
    secured.administrator.add_user("writer", administrator=False)
    chief("kafka-topics", "--create", "--topic", "orders", "--partitions", "1")
    refused = produced(secured, "writer", "orders")
    assert refused == KafkaError.TOPIC_AUTHORIZATION_FAILED
    rule = ("--allow-principal", "User:writer", "--producer", "--topic", "orders")
    assert "Adding ACLs" in chief("kafka-acls", "--add", *rule)
    assert produced(secured, "writer", "orders") == 0
    listed = chief("kafka-acls", "--list", "--principal", "User:writer")
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"principal=User:writer, host=*, operation={operation}, permissionType=ALLOW" in listed
    denied = ("--deny-principal", "User:writer", "--operation", "Write", "--topic", "ord", "--resource-pattern-type")
    chief("kafka-acls", "--add", *denied, "prefixed")
    assert produced(secured, "writer", "orders") == refused
    chief("kafka-acls", "--remove", "--force", *denied, "prefixed")
    assert produced(secured, "writer", "orders") == 0
    chief("kafka-acls", "--remove", "--force", *rule)
    assert produced(secured, "writer", "orders") == refused
    assert "User:writer" not in chief("kafka-acls", "--list")


def test_kafka_acls_of_groups_and_the_cluster(secured: Secured, chief: Callable[..., str]) -> None:
    chief("kafka-acls", "--add", "--allow-principal", "User:nobody", "--consumer", "--topic", "orders", "--group", "g*")
    chief("kafka-acls", "--add", "--allow-principal", "User:nobody", "--operation", "Describe", "--cluster")
    assert "name=g*, patternType=LITERAL" in chief("kafka-acls", "--list", "--group", "g*")
    assert "operation=DESCRIBE" in chief("kafka-acls", "--list", "--cluster")
    rows = secured.administrator.ask("GET", "access/rules")["rules"]
    shown = {(row["action"], row["kind"], row["name"]) for row in rows if row["subject"] == "user:nobody"}
    topic, group = ("topic", "orders"), ("group", "g*")
    assert {("read", *topic), ("describe", *topic), ("read", *group), ("describe", "cluster", "kafka-cluster")} == shown
    chief(
        "kafka-acls", "--remove", "--force", "--allow-principal", "User:nobody", "--operation", "Describe", "--cluster"
    )
    removed = ("--allow-principal", "User:nobody", "--consumer", "--topic", "orders", "--group", "g*")
    chief("kafka-acls", "--remove", "--force", *removed)
    assert "User:nobody" not in chief("kafka-acls", "--list")


def test_kafka_configs_makes_rotates_and_removes_scram_users(secured: Secured, chief: Callable[..., str]) -> None:
    users = ("--entity-type", "users", "--entity-name", "made-by-kafka")

    def logs_in(password: str, mechanism: str) -> bool:
        client = AdminClient(secured.client("made-by-kafka", password, mechanism))
        _kept.append(client)
        try:
            return bool(client.list_topics(timeout=4).brokers)
        except KafkaException:
            return False

    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        chief("kafka-configs", "--alter", "--add-config", f"{mechanism}=[iterations=8192,password=first one]", *users)
        assert logs_in("first one", mechanism)
    described = chief("kafka-configs", "--describe", *users)
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=8192" in described
    chief("kafka-configs", "--alter", "--add-config", "SCRAM-SHA-256=[password=second one]", *users)
    assert logs_in("second one", "SCRAM-SHA-256")
    assert not logs_in("first one", "SCRAM-SHA-256")
    chief("kafka-configs", "--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512", *users)
    assert not logs_in("second one", "SCRAM-SHA-256")
    assert "SCRAM" not in chief("kafka-configs", "--describe", *users)


def test_kafka_configs_sets_and_removes_quotas(secured: Secured, chief: Callable[..., str]) -> None:
    both = ("--entity-type", "users", "--entity-name", "nobody", "--entity-type", "clients", "--entity-name", "batch")
    default = ("--entity-type", "users", "--entity-default")
    chief("kafka-configs", "--alter", "--add-config", "producer_byte_rate=5000,consumer_byte_rate=7000", *both)
    chief("kafka-configs", "--alter", "--add-config", "producer_byte_rate=90000000", *default)
    described = chief("kafka-configs", "--describe", *both)
    assert "producer_byte_rate=5000.0" in described
    assert "consumer_byte_rate=7000.0" in described
    assert "producer_byte_rate=9.0E7" in chief("kafka-configs", "--describe", *default)
    code, said = secured.chief.run("kafka-configs", "--alter", "--add-config", "request_percentage=50", *default)
    assert code != 0
    assert "event loop" in said
    chief("kafka-configs", "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *both)
    chief("kafka-configs", "--alter", "--delete-config", "producer_byte_rate", *default)
    assert "byte_rate" not in chief("kafka-configs", "--describe", *both)


ANYBODY = ("--entity-type", "users", "--entity-default")
SOMEBODY = ("--entity-type", "users", "--entity-name", "x")


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-acls", "--add", "--allow-principal", "User:nobody", "--operation", "All", "--topic", "*"),
        ("kafka-acls", "--list"),
        ("kafka-configs", "--alter", "--add-config", "SCRAM-SHA-256=[password=p]", *SOMEBODY),
        ("kafka-configs", "--alter", "--add-config", "producer_byte_rate=1", *ANYBODY),
    ],
)
def test_a_user_without_permission_administers_nothing(secured: Secured, words: tuple[str, ...]) -> None:
    _, said = secured.nobody.run(*words)
    assert "AuthorizationException" in said or "authoriz" in said.lower(), said
    assert secured.administrator.status("GET", "users/x") == 404


def test_programs_with_a_wrong_password_are_refused(secured: Secured, tmp_path: Path) -> None:
    settings = java_settings(secured.authority, "chief") | {
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="chief" password="wrong password";'
    }
    code, said = KafkaShell(secured.node.bootstrap, settings, tmp_path).run("kafka-acls", "--list")
    assert code != 0
    assert "Authentication" in said
