"""aio-pika: many messages under load, confirms in parallel, and robust connections."""

from __future__ import annotations

import asyncio

import aio_pika

from tests.clients.conftest import FreshName


def test_many_messages_are_confirmed_and_consumed_once(url: str, fresh_name: FreshName) -> None:
    count = 3000

    async def main() -> list[int]:
        connection = await aio_pika.connect_robust(url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=200)
            exchange = await channel.declare_exchange(fresh_name("many"), aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(fresh_name("many"), durable=True)
            await queue.bind(exchange, "n.#")
            received: list[int] = []
            done = asyncio.Event()

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                async with message.process():
                    received.append(int(message.body))
                    if len(received) == count:
                        done.set()

            await queue.consume(take)
            messages = [aio_pika.Message(str(number).encode()) for number in range(count)]
            for at in range(0, count, 500):
                confirms = [exchange.publish(message, "n.x") for message in messages[at : at + 500]]
                assert all(confirm is not None for confirm in await asyncio.gather(*confirms))
            async with asyncio.timeout(60):
                await done.wait()
            return received

    assert asyncio.run(main()) == list(range(count))


def test_a_request_is_answered_through_an_exclusive_queue(url: str, fresh_name: FreshName) -> None:
    async def main() -> bytes:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            requests = await channel.declare_queue(fresh_name("requests"), auto_delete=True)
            replies = await channel.declare_queue(exclusive=True)

            async def answer(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                async with message.process():
                    assert message.reply_to is not None
                    reply = aio_pika.Message(message.body[::-1], correlation_id=message.correlation_id)
                    await channel.default_exchange.publish(reply, message.reply_to)

            await requests.consume(answer)
            request = aio_pika.Message(b"abc", correlation_id="1", reply_to=replies.name)
            await channel.default_exchange.publish(request, requests.name)
            async with asyncio.timeout(30), replies.iterator() as iterator:
                async for message in iterator:
                    async with message.process():
                        assert message.correlation_id == "1"
                        return message.body
        raise AssertionError("no reply")

    assert asyncio.run(main()) == b"cba"
