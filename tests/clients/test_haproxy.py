"""A node behind Debian's HAProxy: it ends TLS, asks clients for certificates, and introduces them to the node."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

import pika
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from soak.node import Node
from tests.clients.accounts import PASSWORD, ROOT, ROOT_PASSWORD, Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import Served
from tests.clients.test_tls import curl
from tests.front.certificates import TestAuthority
from tests.left_out import leave_out

CLIENT = "127.0.0.9"  # The address of the client itself; that of the balancer is 127.0.0.2.
BALANCER = "127.0.0.2"
CONFIGURATION = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
"""
PROXY = """
listen {door}
    bind 127.0.0.1:{port} ssl crt {home}/both.pem ca-file {home}/ca.crt verify optional
    server node {address} source {balancer} {header}
"""


class Balanced(NamedTuple):
    """A node, and the ports of the balancer before it."""

    node: Node
    authority: TestAuthority
    ports: dict[str, int]


def free_ports(count: int) -> list[int]:
    plugs = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(plug.getsockname()[1]) for plug in plugs]
    for plug in plugs:
        plug.close()
    return ports


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        leave_out("haproxy is not installed")
    home = tmp_path_factory.mktemp("haproxy")
    authority = TestAuthority(home)
    authority.issue_client("alice")
    (home / "both.pem").write_text((home / "server.crt").read_text() + (home / "server.key").read_text())
    ports = dict(zip(("kafka", "amqp", "http", "sqs", "stomp"), free_ports(5), strict=True))
    options = ["--set", f"proxy.addresses={BALANCER}", "--set", "tls.user_name=common_name"]
    options += ["--advertised-kafka", f"localhost:{ports['kafka']}"]
    with Served(home / "data", options=options, workers=1) as node:
        Administrator(node.http).add_user("alice", administrator=True)
        text = CONFIGURATION
        for door, port in ports.items():
            header = "send-proxy" if door == "stomp" else "send-proxy-v2-ssl-cn"
            text += PROXY.format(door=door, port=port, home=home, address=node.ready[door], balancer=BALANCER,
                                 header=header)  # fmt: skip
        (home / "haproxy.cfg").write_text(text)
        log = (home / "haproxy.log").open("wb")
        process = subprocess.Popen([program, "-db", "-f", str(home / "haproxy.cfg")], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 20
            while curl("-k", f"https://127.0.0.1:{ports['http']}/healthz")[0] != 0:
                assert process.poll() is None, (home / "haproxy.log").read_text()
                assert time.monotonic() < deadline, (home / "haproxy.log").read_text()
                time.sleep(0.1)
            yield Balanced(node, authority, ports)
        finally:
            process.terminate()
            process.wait(20)
            log.close()


def test_the_node_sees_the_clients_certificate_and_address(balanced: Balanced) -> None:
    authority, ports = balanced.authority, balanced.ports
    ca = ("--cacert", authority.path("ca.crt"))
    alice = (*ca, "--cert", authority.path("alice.crt"), "--key", authority.path("alice.key"), "--interface", CLIENT)
    queues = f"https://localhost:{ports['http']}/api/v1/queues"
    assert "unauthorized" in curl(*ca, queues)[1]
    assert '"queues"' in curl(*alice, queues)[1]
    context = authority.client_context("alice")
    parameters = pika.ConnectionParameters(
        "localhost",
        ports["amqp"],
        credentials=pika.credentials.ExternalCredentials(),
        ssl_options=pika.SSLOptions(context, "localhost"),
    )
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_declare("behind-a-balancer")
        listed = json.loads(curl("-u", f"alice:{PASSWORD}", f"http://{balanced.node.management}/api/connections")[1])
        (one,) = listed
        assert (one["user"], one["ssl"], one["auth_mechanism"]) == ("alice", True, "EXTERNAL")
        assert one["peer_host"] == "127.0.0.1"  # And not the balancer's.


def test_kafka_clients_come_through_with_their_certificates(balanced: Balanced) -> None:
    authority = balanced.authority
    settings = {
        "bootstrap.servers": f"localhost:{balanced.ports['kafka']}",
        "security.protocol": "ssl",
        "ssl.ca.location": authority.path("ca.crt"),
        "ssl.certificate.location": authority.path("alice.crt"),
        "ssl.key.location": authority.path("alice.key"),
    }
    producer = Producer(settings)
    producer.produce("behind-a-balancer", b"hello")
    assert producer.flush(30) == 0
    assert "behind-a-balancer" in AdminClient(settings).list_topics(timeout=20).topics


def test_addresses_of_queues_are_those_that_the_client_reaches(balanced: Balanced) -> None:
    authority = balanced.authority
    said = curl(
        *("--cacert", authority.path("ca.crt"), "--cert", authority.path("alice.crt")),
        *("--key", authority.path("alice.key"), "-d", "Action=CreateQueue&QueueName=q"),
        f"https://localhost:{balanced.ports['sqs']}/",
    )[1]
    assert f"<QueueUrl>https://localhost:{balanced.ports['sqs']}/000000000000/q</QueueUrl>" in said


def test_version_1_carries_the_address(balanced: Balanced) -> None:
    context = balanced.authority.client_context()
    with (
        socket.create_connection(("127.0.0.1", balanced.ports["stomp"]), 10, source_address=(CLIENT, 0)) as plug,
        context.wrap_socket(plug, server_hostname="localhost") as secured,
    ):
        secured.sendall(f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{ROOT}\npasscode:wrong\n\n\0".encode())
        assert b"ERROR" in secured.recv(1000)
    eventually(lambda: f"peer={CLIENT}" in balanced.node.log_tail(), "the log has the client's address")
    assert ROOT_PASSWORD not in balanced.node.log_tail()


def test_a_client_that_is_no_balancer_introduces_nobody(balanced: Balanced) -> None:
    host, _, port = balanced.node.http.partition(":")
    with socket.create_connection((host, int(port)), 10) as plug:
        plug.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert plug.recv(1000).startswith(b"HTTP/1.1 400")
