"""A node at an address that others can reach: secure from its first start with TLS, and refused without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from soak.node import Node, NodeFailed
from tests.clients.test_tls import curl

DOORS = ("kafka", "sqs", "amqp", "stomp", "stomp_websocket", "management", "http")


def test_a_node_with_made_certificates_has_an_administrator_and_nobody_else(tmp_path: Path) -> None:
    made = tmp_path / "certificates"
    command = [sys.executable, "-m", "longhall.cli", "certificates", "make", str(made), "--client", "bob"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "--tls-certificate" in done.stderr
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in made.glob("*.key"))
    assert sorted(path.name for path in made.glob("*.crt")) == ["bob.crt", "ca.crt", "server.crt"]
    options = ["--tls-certificate", f"{made}/server.crt", "--tls-key", f"{made}/server.key"]
    doors = dict.fromkeys(DOORS, "0.0.0.0:0")
    with Node(tmp_path / "data", options=[*options, "--advertised-kafka", "127.0.0.1:0"], doors=doors) as node:
        password = (tmp_path / "data" / "administrator.secret").read_text().strip()
        assert password not in node.log_tail()
        ca, port = ("--cacert", f"{made}/ca.crt"), node.http.rpartition(":")[2]
        queues = f"https://127.0.0.1:{port}/api/v1/queues"
        assert "unauthorized" in curl(*ca, queues)[1]
        assert '"queues"' in curl(*ca, "-u", f"admin:{password}", queues)[1]
        kafka = {
            "bootstrap.servers": f"127.0.0.1:{node.bootstrap.rpartition(':')[2]}",
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": f"{made}/ca.crt",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "log_level": 0,
        }
        assert AdminClient(kafka | {"sasl.password": password}).list_topics(timeout=20).brokers
        with pytest.raises(KafkaException):
            AdminClient(kafka | {"sasl.password": "wrong", "error_cb": lambda error: None}).list_topics(timeout=2)


@pytest.mark.parametrize("door", DOORS)
def test_a_node_without_tls_does_not_start(tmp_path: Path, door: str) -> None:
    node = Node(tmp_path / "data", doors={door: "0.0.0.0:0"}, options=["--advertised-kafka", "127.0.0.1:9"])
    with pytest.raises(NodeFailed, match=f"{door} = .* there is no TLS: --tls-certificate FILE --tls-key FILE"):
        node.start()
    assert not (tmp_path / "data").exists()


def test_a_client_that_begins_tls_at_a_port_without_it_is_disconnected_with_a_line_in_the_log(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        for door in ("kafka", "sqs", "amqp", "stomp", "http"):
            assert curl("-k", "--max-time", "5", f"https://{node.ready[door]}/")[0] == 35
        log = node.log_tail()
        for door in ("kafka", "http", "amqp", "stomp"):
            assert f"TLS at a port without it door={door}" in log
