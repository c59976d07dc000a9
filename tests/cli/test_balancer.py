"""Configurations of balancers: what they say, and that the real programs accept them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from longhall.cli.balancer_configuration import (
    PORTS,
    BalancedNode,
    HaproxyOptions,
    KeepalivedOptions,
    haproxy_configuration,
    keepalived_configuration,
)
from tests.left_out import leave_out

NODES = [
    BalancedNode(number, {door: f"10.0.0.{number}:{port}" for door, port in PORTS.items()}) for number in (1, 2, 3)
]
KEEPALIVED = KeepalivedOptions("10.0.0.100/24", "eth0", "10.0.0.11", ("10.0.0.12",))


def block(text: str, name: str) -> list[str]:
    """The lines of one section."""
    found = next(part for part in text.split("\n\n") if f"\n{name}\n" in f"\n{part}\n")
    return [line.strip() for line in found.splitlines()]


def test_every_door_of_every_node_is_behind_the_balancer() -> None:
    text = haproxy_configuration(NODES, HaproxyOptions(bind="10.0.0.100"))
    for door, port in PORTS.items():
        lines = block(text, f"listen {door}")
        assert f"bind 10.0.0.100:{port}" in lines
        servers = [line for line in lines if line.startswith("server ")]
        assert servers == [
            f"server node_{number} 10.0.0.{number}:{port} check addr 10.0.0.{number} port 8080" for number in (1, 2, 3)
        ]
    assert "option httpchk GET /readyz" in text


def test_a_node_without_a_door_is_not_behind_it() -> None:
    doors = {"sqs": "10.0.0.9:9324", "http": "10.0.0.9:8080"}
    text = haproxy_configuration([*NODES, BalancedNode(9, doors)], HaproxyOptions())
    assert "node_9" not in " ".join(block(text, "listen amqp"))
    assert "node_9" in " ".join(block(text, "listen sqs"))


def test_agents_drain_and_proxy_headers_introduce() -> None:
    text = haproxy_configuration(NODES, HaproxyOptions(agent_port=8090, sends_proxy=True, check_ca="/etc/ca.crt"))
    assert "option httpchk GET /healthz" in text  # A node that drains is not ready, and must not be cut off.
    (first, *_) = [line for line in block(text, "listen amqp") if line.startswith("server ")]
    assert "agent-check agent-addr 10.0.0.1 agent-port 8090" in first
    assert "send-proxy-v2 check-send-proxy" in first
    assert "check-ssl verify required ca-file /etc/ca.crt" in first


def test_kafka_clients_reach_each_node_by_a_port_or_by_a_name() -> None:
    ports = haproxy_configuration(NODES, HaproxyOptions(kafka_port=9101))
    assert "bind *:9103" in block(ports, "listen kafka_3")
    names = haproxy_configuration(NODES, HaproxyOptions(kafka_domain="hall.example.org"))
    assert "use_backend kafka_2 if { req_ssl_sni -i node-2.hall.example.org }" in block(names, "frontend kafka")
    assert "listen kafka" not in names


@pytest.mark.parametrize(
    "options",
    [
        HaproxyOptions(),
        HaproxyOptions(bind="127.0.0.1", agent_port=8090, sends_proxy=True),
        HaproxyOptions(kafka_port=9101),
        HaproxyOptions(kafka_domain="hall.example.org"),
    ],
)
def test_haproxy_accepts_it(options: HaproxyOptions, tmp_path: Path) -> None:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        leave_out("HAProxy is not installed; on Debian: apt-get install haproxy")
    file = tmp_path / "haproxy.cfg"
    file.write_text(haproxy_configuration(NODES, options))
    done = subprocess.run([program, "-c", "-f", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr


@pytest.mark.parametrize("asks_by_script", [False, True])
def test_keepalived_accepts_it(tmp_path: Path, asks_by_script: bool) -> None:
    program = shutil.which("keepalived") or shutil.which("keepalived", path="/usr/sbin")
    if program is None:
        leave_out("keepalived is not installed; on Debian: apt-get install keepalived")
    interfaces = sorted(name for _, name in socket.if_nameindex() if name != "lo")
    if not interfaces:
        leave_out("keepalived checks the interface, and this machine has none but loopback")
    file = tmp_path / "keepalived.conf"
    options = KEEPALIVED._replace(interface=interfaces[0], asks_by_script=asks_by_script)
    file.write_text(keepalived_configuration(options))
    done = subprocess.run([program, "-t", "-f", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_virtual_address_has_peers_that_take_over() -> None:
    text = keepalived_configuration(KEEPALIVED)
    for line in ("unicast_src_ip 10.0.0.11", "        10.0.0.12", "        10.0.0.100/24", "nopreempt", "priority 100"):
        assert line in text
