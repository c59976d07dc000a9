"""A node that is told to stop: balancers are told at once, and clients are served until the delay is over."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest

from longhall.node.agent_check import REASON_CHARACTERS_MAX, line_of
from soak.node import Node
from tests.clients.conftest import eventually

DELAY = "drain_delay_ms=5s"


def agent_line(node: Node) -> str:
    host, port = str(node.ready["agent_check"]).rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        return connection.makefile().read()


def readiness(node: Node) -> int:
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_balancers_are_told_at_once_and_clients_are_served_until_the_delay_is_over(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", options=["--agent-check", "127.0.0.1:0", "--set", DELAY])
    with node:
        assert (readiness(node), agent_line(node)) == (200, "ready up\n")
        sqs = boto3.client(
            "sqs",
            endpoint_url=f"http://{node.sqs}",
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        os.kill(node.pid, signal.SIGTERM)
        eventually(lambda: readiness(node) == 503, "readiness ends")
        assert agent_line(node) == "drain\n"
        queue = sqs.create_queue(QueueName="late")["QueueUrl"]  # Over a connection that is opened now.
        assert sqs.send_message(QueueUrl=queue, MessageBody="late")["MessageId"]
        assert node.wait_end() == 0


@pytest.mark.parametrize(
    ("draining", "trouble", "line"),
    [
        (False, None, "ready up"),
        (True, None, "drain"),
        (True, "the disk failed", "drain"),
        (False, "no node leads\nat the moment", "down#no node leads?at the moment"),
        (False, "x" * 999, "down#" + "x" * REASON_CHARACTERS_MAX),
    ],
)
def test_the_agent_says_a_line_that_haproxy_understands(draining: bool, trouble: str | None, line: str) -> None:
    assert line_of(draining=draining, trouble=trouble) == line
