"""Longhall through its AMQP and STOMP doors, beside RabbitMQ with its two kinds of queues, NATS JetStream and Redis."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from bench.load.dialects import AmqpQueues, Dialect, NatsSubjects, RedisStreams
from bench.peers.longhall import Longhall
from bench.peers.nats import Nats
from bench.peers.node import Node
from bench.peers.rabbitmq import RabbitMq, answers_amqp
from bench.peers.redis import Redis


class LonghallExchanges(Longhall):
    """One Longhall node, used at its AMQP door."""

    def __init__(self) -> None:
        super().__init__()
        self._amqp = ""
        self.stomp_address = ""

    @property
    def address(self) -> str:
        return self._amqp

    def listening(self) -> bool:
        if not super().listening():
            return False
        ready = json.loads(self._ready_path().read_text())
        self._amqp, self.stomp_address = str(ready["amqp"]), str(ready["stomp"])
        return True

    def answers(self) -> bool:
        return answers_amqp(self._amqp)


SERVERS: dict[str, Callable[[], Node]] = {
    "longhall": LonghallExchanges,
    "rabbitmq": RabbitMq,
    "nats": Nats,
    "nats-always": lambda: Nats(syncs=True),
    "redis": Redis,
}


class Peer(NamedTuple):
    """A server, and how its queues are used."""

    server: str
    dialect: Dialect


PEERS = {
    "longhall": Peer("longhall", AmqpQueues("classic")),
    "rabbitmq-classic": Peer("rabbitmq", AmqpQueues("classic")),
    "rabbitmq-quorum": Peer("rabbitmq", AmqpQueues("quorum")),
    "nats": Peer("nats", NatsSubjects()),
    "nats-always": Peer("nats-always", NatsSubjects()),
    "redis": Peer("redis", RedisStreams()),
}
