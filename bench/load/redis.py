"""Loads Redis streams, and creates the consumer groups that the load uses."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from bench.load import text
from bench.load.amqp import Run
from bench.load.generator import LoadFailed
from bench.load.program import Option

GROUP = "bench"


def run(mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
    """Run the client to its end."""
    return text.run("redis", mode, address, names, **options)


def consume(address: str, names: Sequence[str]) -> None:
    """Create the consumer group of each stream, at its beginning."""
    for name in names:
        ask(address, "XGROUP", "CREATE", name, GROUP, "0")


def delete(address: str, names: Sequence[str]) -> None:
    """Delete the streams with their groups."""
    ask(address, "DEL", *names)


def ask(address: str, *words: str) -> str:
    """One command; its answer without the line's end."""
    host, _, port = address.rpartition(":")
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request.encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            more = connection.recv(4096)
            if not more:
                raise LoadFailed("Redis closed the connection")
            answer += more
    if answer.startswith(b"-"):
        raise LoadFailed(f"Redis refused {' '.join(words)}: {answer.decode().strip()}")
    return answer.decode().strip()
