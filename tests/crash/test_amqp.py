"""kill -9 under confirmed publishing: what was confirmed is delivered, and what a consumer held comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import pika
import pytest

from soak.node import Node

WAVES = 3
BURST = 200


async def _publish_until_killed(node: Node, name: str, first: int) -> tuple[set[int], int]:
    """Publish in bursts and kill the node in the middle of one; the numbers that were confirmed, and the next one."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{node.amqp}/")
    channel = await connection.channel()
    await channel.declare_queue(name, durable=True)
    exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.FANOUT, durable=True)
    for queue in (name, f"{name}-copy"):
        await (await channel.declare_queue(queue, durable=True)).bind(exchange)
    confirmed: set[int] = set()

    async def publish(number: int) -> None:
        await exchange.publish(aio_pika.Message(str(number).encode()), "")
        confirmed.add(number)
        if len(confirmed) == BURST + BURST // 2:
            node.kill()

    number = first
    while node.running:
        outcomes = await asyncio.gather(*map(publish, range(number, number + BURST)), return_exceptions=True)
        number += BURST
        # A publish that the kill interrupts fails with any of the client's errors, a bare Exception among them.
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures and node.running:
            raise failures[0]
    await asyncio.gather(connection.close(), return_exceptions=True)
    return confirmed, number


async def _drain(node: Node, name: str, hold: bool) -> list[tuple[int, bool | None]]:
    """All messages of a queue, with their redelivered flags; with `hold` they are not acknowledged."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{node.amqp}/")
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True)
        found: list[tuple[int, bool | None]] = []
        while True:
            message = await queue.get(no_ack=not hold, fail=False)
            if message is None:
                return found
            found.append((int(message.body), message.redelivered))


@pytest.mark.slow
def test_what_was_confirmed_is_in_every_queue_after_a_kill(tmp_path: Path) -> None:
    node = Node(tmp_path / "data")
    name = "confirmed"
    confirmed: set[int] = set()
    first = 0
    try:
        for _ in range(WAVES):
            node.start()
            some, first = asyncio.run(_publish_until_killed(node, name, first))
            confirmed |= some
        node.start()
        held = asyncio.run(_drain(node, name, hold=True))
        assert confirmed <= {number for number, _ in held}
        taken = asyncio.run(_drain(node, name, hold=False))
        assert sorted(number for number, _ in taken) == sorted(number for number, _ in held)
        assert all(redelivered for _, redelivered in taken)
        copies = asyncio.run(_drain(node, f"{name}-copy", hold=False))
        assert sorted(number for number, _ in copies) == sorted(number for number, _ in taken)
    finally:
        node.kill()


@pytest.mark.slow
def test_a_client_that_connects_again_has_the_names_of_its_exclusive_queues(tmp_path: Path) -> None:
    """Celery's workers declare such queues as soon as the node is back, and end if it refuses."""
    node = Node(tmp_path / "data")
    try:
        for _ in range(2):
            node.start()
            host, _, port = node.amqp.rpartition(":")
            channel = pika.BlockingConnection(pika.ConnectionParameters(host, int(port))).channel()
            declared = channel.queue_declare("inbox", exclusive=True).method
            assert (declared.message_count, declared.consumer_count) == (0, 0)
            channel.basic_publish("", "inbox", b"of this connection")
            assert channel.basic_get("inbox", auto_ack=True)[2] == b"of this connection"
            channel.basic_publish("", "inbox", b"is gone with it")
            node.kill()
    finally:
        node.kill()
