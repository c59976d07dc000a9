"""Loads NATS JetStream, and creates the streams and consumers that the load uses."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from bench.load import text
from bench.load.amqp import Run
from bench.load.generator import LoadFailed
from bench.load.program import Option

STREAM = "bench"
DELIVER = "deliver"


def run(mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
    """Run the client to its end. A consumer of the whole stream needs no names."""
    return text.run("nats", mode, address, [DELIVER] if mode == "consume" else names, **options)


def create(address: str, subjects: Sequence[str]) -> None:
    """Create a stream on disk with these subjects."""
    ask(address, f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": list(subjects), "storage": "file"})


def consume(address: str, window: int) -> None:
    """Create a push consumer of the whole stream, whose acknowledgements hold for all messages before."""
    settings = {"deliver_subject": DELIVER, "ack_policy": "all", "max_ack_pending": window, "durable_name": "all"}
    ask(address, f"CONSUMER.DURABLE.CREATE.{STREAM}.all", {"stream_name": STREAM, "config": settings})


def delete(address: str) -> None:
    """Delete the stream with its consumers."""
    ask(address, f"STREAM.DELETE.{STREAM}", {})


def ask(address: str, what: str, request: dict[str, Any]) -> dict[str, Any]:
    """One request of the JetStream API."""
    host, _, port = address.rpartition(":")
    body = json.dumps(request).encode()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        head = b'CONNECT {"verbose":false}\r\nSUB answer 1\r\nPUB $JS.API.%s answer %d\r\n' % (what.encode(), len(body))
        connection.sendall(head + body + b"\r\n")
        received = b""
        while b"MSG answer" not in received or not received.endswith(b"}\r\n"):
            more = connection.recv(65536)
            if not more:
                raise LoadFailed("NATS closed the connection")
            received += more
    answer: dict[str, Any] = json.loads(received[received.index(b"MSG answer") :].split(b"\r\n", 1)[1])
    if "error" in answer:
        raise LoadFailed(f"NATS refused {what}: {answer['error']}")
    return answer
