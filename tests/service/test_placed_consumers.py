"""Consumers of queues in wings: every wing pushes, within the credit of the client, and gets back what it lent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from longhall.broker.queues.consumers.session import PushedMessages
from longhall.broker.queues.consumers.stream_reader import StreamStart
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from longhall.queues.settings import AmqpSettings, QueueSettings
from longhall.service import exchange_operations as ops
from longhall.service.placed_session import PlacedSession
from tests.service.house import House, live

ANY = QueueSettings(placement="any-host")
SHARE = QueueSettings(placement="share")
UNLIMITED = 1 << 40


class Client:
    """A connection: it writes down what it is pushed."""

    def __init__(self, house: House, name: str = "client") -> None:
        self.is_writable = True
        self.got: list[Delivery] = []
        self.cancelled: list[int] = []
        self.house = house
        self.name = name
        self.link = house.sessions.open(name, self)

    def push(self, push: PushedMessages) -> None:
        self.got += push.deliveries
        if not push.deliveries:
            self.cancelled.append(push.consumer)

    def session_opened(self) -> None:
        """The hall is in this process."""

    def push_failed(self, consumer: int, error: LonghallError) -> None:
        raise error

    def session_lost(self) -> None:
        """The hall is in this process."""

    async def consume(self, queue: str, credit: int = UNLIMITED, key: int = 1, **more: Any) -> None:
        await self.house.service.dispatch(ops.AddConsumer(queue, self.name, key, 1, credit, **more))

    async def end(self, queue: str, deliveries: list[Delivery], how: int = ops.SETTLE, key: int = 1) -> None:
        receipts = [one.receipt for one in deliveries]
        credits = [(key, len(deliveries))]
        await self.house.service.dispatch(ops.EndHeld(queue, self.name, receipts, how, credits))

    async def has(self, count: int) -> list[Delivery]:
        """Wait for so many messages in all."""
        await until(lambda: len(self.got) >= count)
        return self.got

    @property
    def bodies(self) -> list[bytes]:
        return sorted(one.body for one in self.got)


async def until(done: Callable[[], bool]) -> None:
    for _ in range(400):
        if done():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come")


async def fill(house: House, count: int = 2) -> None:
    """Let every wing have so many messages of the queue `q`."""
    for near in (1, 2, 3):
        house.reach.near = [near]
        await house.send("q", *(b"%d-%d" % (near, number) for number in range(count)))


def test_every_wing_pushes_and_receipts_go_back_where_they_came_from() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        client = Client(house)
        await client.consume("q")
        await fill(house)
        got = await client.has(6)
        assert client.bodies == [b"%d-%d" % (near, number) for near in (1, 2, 3) for number in range(2)]
        assert (await house.queues.weigh("q")).in_flight == 6
        await client.end("q", got[:3])
        depth = await house.queues.weigh("q")
        assert (depth.in_flight, depth.available) == (3, 0)
        await client.end("q", got[3:], ops.REQUEUE)
        again = (await client.has(9))[6:]
        assert [one.attempts for one in again] == [2, 2, 2]
        use = await house.service.dispatch(ops.UseQueue("q"))
        assert (use.ready, use.consumers) == (0, 1)

    live(play)


@pytest.mark.parametrize("credit", [1, 2, 3, 4])
def test_a_client_never_holds_more_than_its_credit_and_gets_everything(credit: int) -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await fill(house, 3)
        client = Client(house)
        await client.consume("q", credit)
        done = 0
        while done < 9:
            await client.has(done + 1)
            await asyncio.sleep(1.0)  # Everything that the credit allows has come.
            held = client.got[done:]
            assert 0 < len(held) <= credit
            await client.end("q", held[:1])
            done += 1
        assert len(set(client.bodies)) == 9

    live(play)


def test_a_client_that_waits_for_all_of_its_credit_gets_it_wherever_the_messages_are() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        house.reach.near = [2]
        await house.send("q", *(b"%d" % number for number in range(20)))
        client = Client(house)
        await client.consume("q", 12)
        await client.has(12)
        await asyncio.sleep(2.0)
        assert len(client.got) == 12

    live(play)


def test_what_a_connection_held_is_delivered_to_the_next_one() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await fill(house)
        first, second = Client(house, "first"), Client(house, "second")
        await first.consume("q")
        await first.has(6)
        await second.consume("q")
        first.link.close()
        assert [one.attempts for one in await second.has(6)] == [2] * 6
        assert house.sessions.links.keys() == {"second"}

    live(play)


def test_a_consumer_survives_the_change_of_a_leader() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        client = Client(house)
        await client.consume("q", 6)
        await fill(house, 1)
        await client.has(3)
        house.reach.leaders[2] = 99  # The stream of the second wing ends, and with it the session there.
        again = (await client.has(4))[3]
        assert (again.body, again.attempts) == (b"2-0", 2)
        await client.end("q", [client.got[0], again])
        house.reach.near = [2]
        await house.send("q", b"more")
        assert (await client.has(5))[4].body == b"more"

    live(play)


def test_a_reader_of_a_stream_goes_on_at_the_next_leader() -> None:
    async def play(house: House) -> None:
        amqp = AmqpSettings(host="/", name="q", is_stream=True)
        await house.queues.create("q", QueueSettings(placement="share", settled="keep", amqp=amqp))
        await house.send("q", *(b"%d" % number for number in range(5)))
        client = Client(house)
        await client.consume("q", 3, stream=StreamStart(at="first"))
        assert [one.offset for one in await client.has(3)] == [0, 1, 2]
        house.reach.leaders[1] = 99
        await asyncio.sleep(2.0)
        assert len(client.got) == 3, "it holds what its credit allows"
        await client.end("q", client.got[:3], ops.DONE)
        assert [one.offset for one in await client.has(5)] == [0, 1, 2, 3, 4], "nothing comes twice"

    live(play)


def test_a_get_looks_everywhere_and_counts_the_rest() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await fill(house, 1)
        client = Client(house)
        lefts: list[int] = []
        for _ in range(3):
            taken = await house.service.dispatch(ops.TakeMessage("q", client.name))
            assert taken.delivery is not None
            lefts.append(taken.left)
            await client.end("q", [taken.delivery], ops.REJECT)
        assert lefts == [2, 1, 0]
        assert await house.service.dispatch(ops.TakeMessage("q", client.name)) == ops.TakenMessage()
        await fill(house, 1)
        assert await house.service.dispatch(ops.ClearQueue("q")) == 3

    live(play)


def test_a_channel_limit_holds_over_all_wings() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        await fill(house, 4)
        client = Client(house)
        await house.service.dispatch(ops.LimitChannel(client.name, 1, 3))
        await client.consume("q")
        await client.has(3)
        await asyncio.sleep(2.0)
        assert len(client.got) == 3
        receipts = [one.receipt for one in client.got]
        await house.service.dispatch(ops.EndHeld("q", client.name, receipts, ops.SETTLE, [(~1, 3)]))
        await client.has(6)
        await asyncio.sleep(2.0)
        assert len(client.got) == 6
        await house.service.dispatch(ops.LimitChannel(client.name, 1, None))
        await client.has(12)

    live(play)


def test_a_channel_limit_holds_while_it_gets_consumers_in_further_wings() -> None:
    async def play(house: House) -> None:
        for share, name in ((1, "q"), (2, "r")):
            house.reach.share = share
            await house.queues.create(name, SHARE)
            await house.send(name, *(b"%d" % number for number in range(10)))
        client = Client(house)
        await house.service.dispatch(ops.LimitChannel(client.name, 1, 2))
        await client.consume("q", key=1)
        await client.has(2)
        await client.consume("r", key=2)
        await asyncio.sleep(2.0)
        assert len(client.got) == 2, "the first wing has pushed all that the channel may hold"
        ended = [one.receipt for one in client.got[:1]]
        await house.service.dispatch(ops.EndHeld("q", client.name, ended, ops.SETTLE, [(~1, 1)]))
        await client.has(3)
        assert client.got[2].receipt.startswith("2."), "what was withheld goes to the second one"
        ended = [one.receipt for one in client.got[1:2]]
        await house.service.dispatch(ops.EndHeld("q", client.name, ended, ops.SETTLE, [(~1, 1)]))
        await client.has(4)
        assert client.got[3].receipt.startswith("1.")
        await asyncio.sleep(2.0)
        assert len(client.got) == 4

    live(play)


def test_a_consumer_that_wants_to_be_alone_is_or_is_not_there() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        first, second = Client(house, "first"), Client(house, "second")
        await first.consume("q", exclusive=True)
        with pytest.raises(LonghallError) as caught:
            await second.consume("q")
        assert caught.value.code is Code.QUEUE_IN_USE
        await house.service.dispatch(ops.CancelConsumer("first", 1))
        await second.consume("q")
        await fill(house, 1)
        await second.has(3)
        assert not first.got

    live(play)


def test_queues_end_with_their_consumers_in_the_hall_and_in_their_wing() -> None:
    async def play(house: House) -> None:
        amqp = AmqpSettings(host="/", name="q", auto_delete=True)
        await house.queues.create("q", QueueSettings(placement="share", amqp=amqp))
        client = Client(house)
        await client.consume("q")
        await house.service.dispatch(ops.CancelConsumer(client.name, 1))
        assert house.queues.view("q") is None
        assert all(desk.view("q") is None for desk in house.desks.values())

        amqp = AmqpSettings(host="/", name="q", expires_ms=2000)
        await house.queues.create("q", QueueSettings(placement="any-host", amqp=amqp))
        await client.consume("q", key=2)
        await asyncio.sleep(5.0)
        assert house.queues.view("q") is not None, "it has a consumer"
        await house.service.dispatch(ops.CancelConsumer(client.name, 2))
        await until(lambda: house.queues.view("q") is None)

    live(play)


def test_a_deleted_queue_cancels_its_consumers_once() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ANY)
        client = Client(house)
        await client.consume("q")
        await house.queues.delete("q")
        await until(lambda: bool(client.cancelled))
        await asyncio.sleep(1.0)
        assert client.cancelled == [1]

    live(play)


@pytest.mark.parametrize("is_late", [False, True])
def test_messages_that_were_pushed_before_a_move_are_credit_at_the_new_group(is_late: bool) -> None:
    """Its connection adds the consumer with the credit that is left: none, if the client holds all that it may."""

    async def play(house: House) -> None:
        await house.queues.create("q", SHARE)
        await house.send("q", *(b"%d" % number for number in range(8)))
        client = Client(house)
        await client.consume("q", 2)
        held = list(await client.has(2))
        (session,) = [part for part in client.link.parts if isinstance(part, PlacedSession)]
        await session.cancel(1, NOBODY_IN_PARTICULAR)
        session._forget(1)
        if is_late:
            await client.end("q", held)
        await client.consume("q", 0)
        if not is_late:
            await client.end("q", held)
        got = (await client.has(4))[2:]
        await asyncio.sleep(1.0)
        assert len(client.got) == 4, "no more than the client asked for"
        await client.end("q", got)
        await client.has(6)
        await asyncio.sleep(1.0)
        assert len(client.got) == 6

    live(play)
