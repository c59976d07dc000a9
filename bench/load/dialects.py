"""How the protocols of the AMQP bench create queues, fill them, empty them and delete them.

A queue is a stream, or a subject of one, where a protocol has no queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bench.load import amqp, nats, redis, text
from bench.load.amqp import Run
from bench.load.program import Option


class Dialect(Protocol):
    """What a bench does with queues; `address` is that of the protocol at the server."""

    def create(self, address: str, names: Sequence[str]) -> None: ...

    def begin_consuming(self, address: str, names: Sequence[str], window: int) -> None: ...

    def run(self, mode: str, address: str, names: Sequence[str], **options: Option) -> Run: ...

    def delete(self, address: str, names: Sequence[str]) -> None: ...


class AmqpQueues:
    """Durable queues of one type."""

    def __init__(self, queue_type: str) -> None:
        self.queue_type = queue_type

    def create(self, address: str, names: Sequence[str]) -> None:
        amqp.declare(address, names, kind=self.queue_type)

    def begin_consuming(self, address: str, names: Sequence[str], window: int) -> None:
        pass

    def run(self, mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
        prefetch: dict[str, Option] = {"prefetch": options["window"]} if mode == "consume" else {}
        return amqp.run(mode, address, names, **options, **prefetch)

    def delete(self, address: str, names: Sequence[str]) -> None:
        amqp.delete(address, names)


class NatsSubjects:
    """The subjects of one stream on disk, which a push consumer delivers."""

    def create(self, address: str, names: Sequence[str]) -> None:
        nats.create(address, names)

    def begin_consuming(self, address: str, names: Sequence[str], window: int) -> None:
        nats.consume(address, window)

    def run(self, mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
        return nats.run(mode, address, names, **options)

    def delete(self, address: str, names: Sequence[str]) -> None:
        nats.delete(address)


class RedisStreams:
    """Streams with a consumer group each. The first message creates a stream."""

    def create(self, address: str, names: Sequence[str]) -> None:
        pass

    def begin_consuming(self, address: str, names: Sequence[str], window: int) -> None:
        redis.consume(address, names)

    def run(self, mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
        return redis.run(mode, address, names, **options)

    def delete(self, address: str, names: Sequence[str]) -> None:
        redis.delete(address, names)


class StompDestinations:
    """Durable queues, which the first message creates, and AMQP deletes."""

    def __init__(self, amqp_address: str) -> None:
        self._amqp_address = amqp_address

    def create(self, address: str, names: Sequence[str]) -> None:
        pass

    def begin_consuming(self, address: str, names: Sequence[str], window: int) -> None:
        pass

    def run(self, mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
        return text.run("stomp", mode, address, [f"/queue/{name}" for name in names], **options)

    def delete(self, address: str, names: Sequence[str]) -> None:
        amqp.delete(self._amqp_address, names)
