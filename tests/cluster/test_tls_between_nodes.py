"""A cluster whose nodes speak TLS with each other: it serves, elects, and lets nobody in without a certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from longhall.coordination.ensemble import Ensemble
from longhall.world.tls_files import client_context
from soak.cluster import Cluster, wait_until
from tests.front.certificates import TestAuthority

MESSAGES = 200


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path / "authority")


@pytest.fixture
def cluster(ensemble: Ensemble, tmp_path: Path, authority: TestAuthority) -> Iterator[Cluster]:
    tls = {
        "tls.peers_ca": authority.path("ca.crt"),
        "tls.peers_certificate": authority.path("server.crt"),
        "tls.peers_key": authority.path("server.key"),
    }
    home = tmp_path / "cluster"
    home.mkdir()
    made = Cluster(home, session_ms=3000, zookeeper=ensemble, path="/tls-between-nodes", settings=tls)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def produce(cluster: Cluster, text: bytes) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 60_000})
    for number in range(MESSAGES):
        producer.produce(
            "t", text + b"%d" % number, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert failures == []


def answer(address: tuple[str, int], context: ssl.SSLContext | None) -> bytes:
    """What a stranger gets who connects; the error of TLS as text."""
    try:
        with socket.create_connection(address, 10) as plug:
            if context is None:
                plug.sendall(b"\x00\x00\x00\x10 who is there? ")
                return plug.recv(1000)
            with context.wrap_socket(plug, server_hostname=address[0]) as secured:
                return secured.recv(1000)
    except (ssl.SSLError, ConnectionError) as error:
        return str(error).encode()


@pytest.mark.timeout(400)
def test_a_running_cluster_changes_to_tls(ensemble: Ensemble, authority: TestAuthority, tmp_path: Path) -> None:
    """Each node starts again three times, one after the other, and the cluster serves all the time."""
    home = tmp_path / "changing"
    home.mkdir()
    cluster = Cluster(home, session_ms=3000, zookeeper=ensemble, path="/changes-to-tls")
    files = {"ca": "ca.crt", "certificate": "server.crt", "key": "server.key"}
    try:
        cluster.start()
        produce(cluster, b"clear")
        clear = {number: list(node.options) for number, node in cluster.nodes.items()}
        for mode in ("accept", "both", "required"):
            settings = {"mode": mode} | {name: authority.path(file) for name, file in files.items()}
            for number, node in cluster.nodes.items():
                node.stop()
                words = [word for name, value in settings.items() for word in ("--set", f"tls.peers_{name}={value}")]
                node.options = [*clear[number], *words]
                node.start()
                cluster.wait_in_sync()
                produce(cluster, mode.encode())
        host, _, port = str(cluster.nodes[cluster.leader()].ready["peers"]).partition(":")
        assert answer((host, int(port)), None) == b"", "at last nobody is let in without TLS"
    finally:
        cluster.stop()


def test_a_cluster_with_tls_between_its_nodes(cluster: Cluster, authority: TestAuthority, tmp_path: Path) -> None:
    produce(cluster, b"before")
    leader = cluster.leader()
    host, _, port = str(cluster.nodes[leader].ready["peers"]).partition(":")
    address = (host, int(port))
    assert answer(address, None) == b""
    assert b"certificate required" in answer(address, authority.client_context()).lower()
    other = TestAuthority(tmp_path / "other").issue_client("node")
    assert b"unknown ca" in answer(address, client_context(authority.path("ca.crt"), *other)).lower()
    authority.issue_server()  # All nodes read it again by themselves.
    cluster.nodes[leader].kill()
    wait_until(lambda: cluster.leader(besides=leader) not in (0, leader), "another node leads")
    produce(cluster, b"after")
    cluster.nodes[leader].start()
    cluster.wait_in_sync()
