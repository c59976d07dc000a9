"""Actors of AMQP: publishers with confirms, push consumers with every habit, and workers that move in transactions."""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.doors.amqp.wire import methods
from longhall.exchanges.field_table import encode_table
from simulation.checkers.amqp import AmqpOracle
from simulation.checkers.violation import demand
from simulation.scenarios.amqp_client import AmqpClient, AmqpDelivery, Closed
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import Unanswered

NEWS: Final = "news"  # A fanout exchange.
TOPICS: Final = "topics"
LEFT: Final = "left"
RIGHT: Final = "right"
DEAD: Final = "dead"  # Has what consumers of LEFT rejected.
WORK: Final = "work"
DONE: Final = "done"
QUIET_S: Final = 15.0
PREFETCH: Final = 5
# Exchange, routing key, and the queues of a message.
ROUTES: Final = (
    (NEWS, "", (LEFT, RIGHT)),
    (TOPICS, "a.b", (LEFT,)),
    (TOPICS, "a.c", (LEFT, RIGHT)),
    ("", RIGHT, (RIGHT,)),
    ("", WORK, (WORK,)),
)
EMPTY: Final = encode_table({})


@final
class AmqpWorkers:
    """The clients of one topology, which report to an `AmqpOracle`."""

    def __init__(self, context: RunContext, alone: bool) -> None:
        self.oracle = AmqpOracle(alone)
        self._context = context

    async def declare(self) -> None:
        """Make exchanges, queues and bindings, however long the node takes."""
        while True:
            try:
                await self._declare(await AmqpClient.connect(self._context))
                return
            except (Unanswered, Closed):
                await asyncio.sleep(0.5)

    async def _declare(self, client: AmqpClient) -> None:
        for name, kind in ((NEWS, "fanout"), (TOPICS, "topic")):
            exchange = (0, name, kind, False, True, False, False, False, EMPTY)
            await client.call(methods.EXCHANGE_DECLARE, methods.EXCHANGE_DECLARE_OK, *exchange)
        letters = encode_table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD})
        for name in (LEFT, RIGHT, DEAD, WORK, DONE):
            table = letters if name == LEFT else EMPTY
            queue = (0, name, False, True, False, False, False, table)
            await client.call(methods.QUEUE_DECLARE, methods.QUEUE_DECLARE_OK, *queue)
        for bound, source, key in ((LEFT, NEWS, ""), (RIGHT, NEWS, ""), (LEFT, TOPICS, "a.#"), (RIGHT, TOPICS, "*.c")):
            await client.call(methods.QUEUE_BIND, methods.QUEUE_BIND_OK, 0, bound, source, key, False, EMPTY)
        client.close()

    async def publish(self, name: str, pause_s: float) -> None:
        """Publish a few messages at a time, and wait for their confirms."""
        chance = self._context.stream(name)
        number = 0
        while not self._context.closing:
            try:
                client = await AmqpClient.connect(self._context)
                await client.call(methods.CONFIRM_SELECT, methods.CONFIRM_SELECT_OK, False)
                while not self._context.closing:
                    await self._context.rest(chance.expovariate(1 / pause_s))
                    count = chance.choice((1, 1, 3, 8))
                    await self._publish(client, chance, [f"{name}-{number + at}" for at in range(count)])
                    number += count
                client.close()
            except (Unanswered, Closed):
                number += 8
                await asyncio.sleep(chance.uniform(0.1, 0.5))

    async def _publish(self, client: AmqpClient, chance: random.Random, bodies: list[str]) -> None:
        waiting: dict[int, str] = {}
        for body in bodies:
            exchange, key, queues = chance.choice(ROUTES)
            self.oracle.sending(body, queues)
            waiting[client.publish(exchange, key, body)] = body
        while waiting:
            is_ack, number, multiple = await client.confirmed()
            for one in [one for one in waiting if one == number or (multiple and one < number)]:
                body = waiting.pop(one)
                if is_ack:
                    self.oracle.acknowledged(body)

    async def consume(self, name: str, queue: str) -> None:
        """Acknowledge, give back, reject and keep deliveries; at times break the connection with what it holds."""
        chance = self._context.stream(name)
        quiet_since_s = _now_s()
        while not self._context.closing or _now_s() - quiet_since_s < QUIET_S:
            held: dict[int, AmqpDelivery] = {}
            try:
                client = await self._consumer(queue)
                while not self._context.closing or _now_s() - quiet_since_s < QUIET_S:
                    delivery = await client.delivered(0.5)
                    if delivery is None:
                        if not self._context.closing:
                            quiet_since_s = _now_s()
                        continue
                    quiet_since_s = _now_s()
                    held[delivery.tag] = delivery
                    self._came(name, queue, delivery)
                    if not self._context.closing and chance.random() < 0.02:
                        self._give_up(queue, held)
                        client.close()
                        break
                    self._end(client, chance, queue, held, delivery)
                else:
                    self._give_up(queue, held)
                    client.close()
            except (Unanswered, Closed):
                quiet_since_s = _now_s()
                self._give_up(queue, held)
                await asyncio.sleep(chance.uniform(0.1, 0.5))

    def _came(self, name: str, queue: str, delivery: AmqpDelivery) -> None:
        if queue == DEAD:
            self.oracle.died(LEFT, delivery.body, delivery.headers)
            return
        self.oracle.came(queue, name, delivery.body, delivery.redelivered, self._context.deployment.boots)

    def _give_up(self, queue: str, held: dict[int, AmqpDelivery]) -> None:
        for delivery in held.values():
            self.oracle.ended(queue, delivery.body)
        held.clear()

    def _end(
        self,
        client: AmqpClient,
        chance: random.Random,
        queue: str,
        held: dict[int, AmqpDelivery],
        delivery: AmqpDelivery,
    ) -> None:
        draw = chance.random()
        if draw < 0.1 and not self._context.closing:
            return  # It is kept, until it is acknowledged together with a later one, or goes back.
        if draw < 0.2 and not self._context.closing:
            client.send(methods.BASIC_NACK, delivery.tag, False, True)
        elif draw < 0.3 and queue == LEFT:
            client.send(methods.BASIC_REJECT, delivery.tag, False)
        else:
            for tag in [tag for tag in held if tag < delivery.tag]:
                self.oracle.ended(queue, held.pop(tag).body)
            client.send(methods.BASIC_ACK, delivery.tag, True)
        self.oracle.ended(queue, held.pop(delivery.tag).body)

    async def _consumer(self, queue: str) -> AmqpClient:
        client = await AmqpClient.connect(self._context)
        await client.call(methods.BASIC_QOS, methods.BASIC_QOS_OK, 0, PREFETCH, False)
        arguments = (0, queue, "consumer", False, False, False, False, EMPTY)
        await client.call(methods.BASIC_CONSUME, methods.BASIC_CONSUME_OK, *arguments)
        return client

    async def move(self, name: str) -> None:
        """Move messages in transactions: acknowledged there and published here, or neither."""
        chance = self._context.stream(name)
        quiet_since_s = _now_s()
        while not self._context.closing or _now_s() - quiet_since_s < QUIET_S:
            held: dict[int, AmqpDelivery] = {}
            try:
                client = await self._consumer(WORK)
                await client.call(methods.TX_SELECT, methods.TX_SELECT_OK)
                while not self._context.closing or _now_s() - quiet_since_s < QUIET_S:
                    delivery = await client.delivered(0.5)
                    if delivery is not None:
                        held[delivery.tag] = delivery
                        self._came(name, WORK, delivery)
                        client.send(methods.BASIC_ACK, delivery.tag, False)
                        client.publish("", DONE, delivery.body)
                    if delivery is not None or not self._context.closing:
                        quiet_since_s = _now_s()
                    if held and (delivery is None or len(held) == PREFETCH or chance.random() < 0.4):
                        await self._commit(client, held)
                client.close()
            except (Unanswered, Closed):
                quiet_since_s = _now_s()
                self._give_up(WORK, held)
                await asyncio.sleep(chance.uniform(0.1, 0.5))

    async def _commit(self, client: AmqpClient, held: dict[int, AmqpDelivery]) -> None:
        try:
            await client.call(methods.TX_COMMIT, methods.TX_COMMIT_OK)
        except Closed as closed:
            demand(closed.code in (320, 404, 406, 506, 541), f"a commit was refused with {closed}")
            raise
        for delivery in held.values():
            self.oracle.ended(WORK, delivery.body)
            self.oracle.left(WORK, delivery.body)
        held.clear()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
