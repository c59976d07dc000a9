"""Longhall through its AMQP door, beside RabbitMQ with its two kinds of queues and NATS JetStream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from bench.peers.longhall import Longhall
from bench.peers.nats import Nats
from bench.peers.node import Node
from bench.peers.rabbitmq import RabbitMq, answers_amqp


class LonghallExchanges(Longhall):
    """One Longhall node, used at its AMQP door."""

    def __init__(self) -> None:
        super().__init__()
        self._amqp = ""

    @property
    def address(self) -> str:
        return self._amqp

    def listening(self) -> bool:
        if not super().listening():
            return False
        self._amqp = str(json.loads(self._ready_path().read_text())["amqp"])
        return True

    def answers(self) -> bool:
        return answers_amqp(self._amqp)


SERVERS: dict[str, Callable[[], Node]] = {
    "longhall": LonghallExchanges,
    "rabbitmq": RabbitMq,
    "nats": Nats,
    "nats-always": lambda: Nats(syncs=True),
}


class Peer(NamedTuple):
    """A server, and the type of the queues that are declared there; a server without AMQP has none."""

    server: str
    queue_type: str

    @property
    def speaks_amqp(self) -> bool:
        return bool(self.queue_type)


PEERS = {
    "longhall": Peer("longhall", "classic"),
    "rabbitmq-classic": Peer("rabbitmq", "classic"),
    "rabbitmq-quorum": Peer("rabbitmq", "quorum"),
    "nats": Peer("nats", ""),
    "nats-always": Peer("nats-always", ""),
}
