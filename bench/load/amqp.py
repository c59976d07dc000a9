"""Runs the load generator of AMQP, `amqp.c`, and declares what it uses. All servers get the same bytes from it."""

from __future__ import annotations

import array
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pika

from bench.load.program import Option, Program

_SOURCE = Path(__file__).with_name("amqp.c")


@dataclass
class Run:
    """One run of one client process, which has a single thread."""

    client: str
    published: int  # And confirmed.
    delivered: int
    seconds: float
    cpu_seconds: float
    latencies_ns: array.array[int] = field(default_factory=lambda: array.array("q"))

    @property
    def messages(self) -> int:
        return max(self.published, self.delivered)

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


def run(mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
    """Run the client to its end. The options are those at the head of `amqp.c`."""
    report, samples = Program(_SOURCE, [mode, address, ",".join(names)], ("samples",), options).finish()
    return Run(**report, latencies_ns=samples["samples"])


@contextlib.contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    """So many open connections, each with a channel."""
    program = Program(_SOURCE, ["idle", address, "-"], (), {"connections": count})
    program.read_line()
    try:
        yield
    finally:
        program.abandon()


@contextlib.contextmanager
def channel(address: str) -> Iterator[Any]:
    """A channel of pika's, for declarations."""
    host, _, port = address.rpartition(":")
    settings = pika.ConnectionParameters(host, int(port), heartbeat=0, blocked_connection_timeout=60)
    connection = pika.BlockingConnection(settings)
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(address: str, names: Sequence[str], *, kind: str, exchange: str = "", routing: str = "") -> None:
    """Declare durable queues of this type; with an exchange, declare that too and bind them.

    `routing` is the type of the exchange. A queue of a topic exchange is bound by `NAME.#`.
    """
    with channel(address) as opened:
        if exchange:
            opened.exchange_declare(exchange, exchange_type=routing, durable=True)
        for name in names:
            opened.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
            if exchange:
                opened.queue_bind(name, exchange, f"{name}.#" if routing == "topic" else "")


def delete(address: str, names: Sequence[str], *, exchange: str = "") -> None:
    """Delete queues, and the exchange."""
    with channel(address) as opened:
        for name in names:
            opened.queue_delete(name)
        if exchange:
            opened.exchange_delete(exchange)
