"""Messages that move between replication groups: dead letters, redrives, answers and delivery reports, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from longhall.broker.feature_gates import NEWEST
from longhall.broker.pending import Pending
from longhall.broker.queues.outbox.target_watch import LOOK_S
from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST, names_of
from longhall.queues.messages import Outgoing
from longhall.queues.outbox_events import QueueLocation
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service.exchange_operations import BindExchange, BindingView, CommitTransaction, PublishMessages
from longhall.service.queue_operations import LocateQueue
from tests.service.house import House, live

SHARE = "share"


async def until(true: Callable[[], bool], seconds: float = 120) -> None:
    for _ in range(int(seconds * 10)):
        if true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come true")


def source(letters: str, placement: str = SHARE, **more: object) -> QueueSettings:
    return QueueSettings(
        placement=placement,
        lease_ms=1000,
        dead_letters=DeadLetters(queue=letters, attempts_max=1),
        **more,  # type: ignore[arg-type]
    )


async def die(house: House, name: str, count: int) -> None:
    """Let messages use up their only attempt."""
    got = 0
    while got < count:
        found = await house.receive(name, 10, 0, 1000)
        got += len(found)
        if not found:
            await asyncio.sleep(0.2)
    for _ in range(10):
        await asyncio.sleep(1.1)
        assert await house.receive(name, 10, 0, 1000) == []


def available(house: House, name: str) -> int:
    """The messages of a queue, wherever it is."""
    desks = [house.desk, *house.desks.values()]
    return sum(desk.depth(name).available for desk in desks if serves(desk, name))


def serves(desk: QueueService, name: str) -> bool:
    """True if the group of this service has the queue, and not only its entry."""
    if desk.view(name) is None:
        return False
    try:
        desk.depth(name)
    except LonghallError as error:
        if error.code is Code.QUEUE_MOVED:
            return False
        raise
    return True


@pytest.mark.parametrize("letters_in", ["hall", "share", "parts", "any-host"])
@pytest.mark.parametrize("queue_in", ["hall", "share", "parts"])
def test_dead_letters_reach_their_queue_wherever_it_is_and_come_back(queue_in: str, letters_in: str) -> None:
    async def play(house: House) -> None:
        house.reach.share = 2
        await house.queues.create("dead", QueueSettings(placement=letters_in))
        house.reach.share = 1
        await house.queues.create("q", source("dead", queue_in))
        if queue_in == letters_in == SHARE:
            assert house.desk.view("q").settings.wings == (2,)  # type: ignore[union-attr]
        bodies = [b"%d" % number for number in range(30)]
        await house.send("q", *bodies)
        await die(house, "q", 30)
        await until(lambda: available(house, "dead") == 30)
        await house.queues.start_move("dead", "", 0)
        await until(lambda: available(house, "q") == 30)
        assert available(house, "dead") == 0
        assert sorted(await house.drain("q")) == sorted(bodies)

    live(play)


def test_repeats_after_lost_replies_are_recognised() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings())
        await house.queues.create("q", source("dead"))
        house.lines[1].lossy = True
        bodies = [b"%d" % number for number in range(20)]
        await house.send("q", *bodies)
        await die(house, "q", 20)
        await until(lambda: available(house, "dead") == 20)
        assert house.desks[1].outbox.waiting == 20, "no reply has come back"
        assert house.desks[1].outbox.oldest_age_ms > 0
        await asyncio.sleep(20)
        house.lines[1].lossy = False
        await until(lambda: house.desks[1].outbox.waiting == 0)
        assert sorted(await house.drain("dead")) == sorted(bodies)

    live(play)


def test_letters_wait_for_room() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(messages_max=5))
        await house.queues.create("q", source("dead"))
        bodies = [b"%d" % number for number in range(12)]
        await house.send("q", *bodies)
        await die(house, "q", 12)
        await until(lambda: available(house, "dead") == 5)
        await asyncio.sleep(10)
        assert available(house, "dead") == 5
        assert house.desks[1].outbox.waiting == 7
        got: list[bytes] = []
        for _ in range(60):
            got += await house.drain("dead")
            await asyncio.sleep(0.5)
        assert sorted(got) == sorted(bodies)
        assert house.desks[1].outbox.waiting == 0

    live(play)


def test_letters_of_a_deleted_queue_wait_until_it_exists_again() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings())
        await house.queues.create("q", source("dead"))
        house.lines[1].cut = True
        await house.send("q", b"a", b"b")
        await die(house, "q", 2)
        await house.queues.delete("dead")
        house.lines[1].cut = False
        await until(lambda: "dead" in house.wings[1].hall.outboxes.missing)
        await house.send("q", b"c")
        for _ in range(3):
            assert [one.body for one in await house.receive("q", 10, 0, 1000)] == [b"c"], (
                "without letters it comes back"
            )
            await asyncio.sleep(1.1)
        await house.queues.create("dead", QueueSettings(placement="parts"))
        await until(lambda: available(house, "dead") >= 2)
        assert set(await house.drain("dead")) >= {b"a", b"b"}

    live(play)


@pytest.mark.parametrize("letters_in", ["hall", "share"])
def test_a_queue_keeps_its_messages_while_its_dead_letter_queue_is_deleted(letters_in: str) -> None:
    """The deletion is known at once, in its own group and in others: no message leaves."""

    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(placement=letters_in))
        await house.queues.create("q", source("dead"))
        await house.queues.delete("dead")
        await house.send("q", b"a", b"b")
        for _ in range(3):
            assert sorted(one.body for one in await house.receive("q", 10, 0, 1000)) == [b"a", b"b"]
            await asyncio.sleep(1.1)
        assert house.desks[1].outbox.waiting == 0
        house.reach.share = 2
        await house.queues.create("dead", QueueSettings(placement=SHARE))
        await asyncio.sleep(LOOK_S + 1)
        await die(house, "q", 0)
        await until(lambda: available(house, "dead") == 2)
        assert sorted(await house.drain("dead")) == [b"a", b"b"]

    live(play)


def test_a_late_answer_does_not_undo_a_deletion() -> None:
    """The hall said that the queue exists, and deleted it before its answer was read."""

    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(placement=SHARE))
        await house.queues.create("q", source("dead"))
        watch, outboxes = house.desks[1].outbox.watch, house.wings[1].hall.outboxes

        class Late:
            async def locate(self, name: str) -> QueueLocation:
                found = await house.lines[1].call(LocateQueue(name))
                await house.queues.delete("dead")
                return found

        await watch.locate(Late(), "dead")
        assert outboxes.missing == {"dead"}

    live(play)


def test_what_may_have_reached_a_deleted_queue_does_not_reach_its_successor() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings())
        await house.queues.create("q", source("dead"))
        house.lines[1].lossy = True
        await house.send("q", b"a", b"b")
        await die(house, "q", 2)
        assert sorted(await house.drain("dead")) == [b"a", b"b"]
        await house.queues.delete("dead")
        await house.queues.create("dead", QueueSettings())
        house.lines[1].lossy = False
        await until(lambda: house.desks[1].outbox.waiting == 0)
        await asyncio.sleep(5)
        assert await house.drain("dead") == []
        assert house.desks[1].outbox.dropped == 2

    live(play)


@pytest.mark.parametrize("reply_in", ["hall", "share", "parts"])
def test_answers_and_fates_reach_their_queue(reply_in: str) -> None:
    async def play(house: House) -> None:
        house.reach.share = 2
        await house.queues.create("replies", QueueSettings(placement=reply_in))
        house.reach.share = 1
        await house.queues.create("q", QueueSettings(placement=SHARE))
        await house.queues.send(
            "q",
            [Outgoing(body=b"ask", reply_to="replies"), Outgoing(body=b"tell", reply_to="replies", report_fate=True)],
        )
        first, second = await house.receive("q")
        answered = await house.queues.answer("q", first.receipt, Outgoing(body=b"answer"))
        assert answered.message_id
        assert await house.queues.settle("q", [second.receipt]) == [None]
        await until(lambda: available(house, "replies") == 2)
        got = await house.receive("replies")
        by_fate = {one.fate: one for one in got}
        assert by_fate[""].body == b"answer"
        assert by_fate[""].correlation_id == first.message_id
        assert by_fate[""].message_id == answered.message_id
        assert by_fate["settled"].correlation_id == second.message_id
        again = await house.queues.answer("q", first.receipt, Outgoing(body=b"again"))
        assert again.repeated

    live(play)


def test_an_answer_to_a_queue_that_does_not_exist_changes_nothing() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement=SHARE))
        await house.queues.send("q", [Outgoing(body=b"ask", reply_to="nowhere")])
        (got,) = await house.receive("q")
        with pytest.raises(LonghallError) as caught:
            await house.queues.answer("q", got.receipt, Outgoing(body=b"answer"))
        assert caught.value.code is Code.UNKNOWN_QUEUE
        assert await house.queues.settle("q", [got.receipt]) == [None]

    live(play)


def test_a_fifo_queue_in_parts_gets_letters_in_the_order_of_their_groups() -> None:
    fifo = QueueSettings(placement="parts", fifo=True, deduplication="id", deduplication_scope="group")

    async def play(house: House) -> None:
        await house.queues.create("dead", fifo)
        await house.queues.create("q", source("dead", fifo=True, deduplication="id", deduplication_scope="group"))
        for number in range(20):
            message = Outgoing(body=b"%d" % number, group=f"g{number % 4}", deduplication_id=str(number))
            await house.queues.send("q", [message])
        for _ in range(200):
            await house.receive("q", 10, 0, 1000)
            await asyncio.sleep(0.3)
            if available(house, "dead") == 20:
                break
        seen: dict[str, list[int]] = {}
        while found := await house.receive("dead", 10):
            for one in found:
                seen.setdefault(one.group, []).append(int(one.body))
            await house.queues.settle("dead", [one.receipt for one in found])
        assert seen == {f"g{group}": list(range(group, 20, 4)) for group in range(4)}

    live(play)


def test_a_move_between_groups_can_be_cancelled() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement=SHARE))
        house.reach.share = 2
        await house.queues.create("other", QueueSettings(placement=SHARE))
        await house.send("q", *(b"%d" % number for number in range(100)))
        task = await house.queues.start_move("q", "other", 10)
        await until(lambda: available(house, "other") >= 5)
        cancelled = await house.queues.cancel_move(task.task_id)
        assert cancelled.state in ("CANCELLING", "CANCELLED")
        await asyncio.sleep(3)
        moved = available(house, "other")
        assert 5 <= moved < 100
        assert available(house, "q") + moved == 100
        with pytest.raises(LonghallError) as caught:
            await house.queues.start_move("q", "nowhere", 0)
        assert caught.value.code is Code.UNKNOWN_QUEUE

    live(play)


def test_a_publication_for_queues_of_several_groups_is_one_write_and_keeps_its_order() -> None:
    names = ("here", "there", "everywhere")

    async def play(house: House) -> None:
        for share, (name, placement) in enumerate(zip(names, ("hall", "share", "share"), strict=True), 1):
            house.reach.share = share
            await house.queues.create(name, QueueSettings(placement=placement))
            key = names_of(name)[1]
            await house.service.dispatch(BindExchange(BindingView(DEFAULT_HOST, "amq.fanout", False, name, key, b"")))

        def publish(exchange: str, key: str, body: bytes) -> Pending[list[Published]]:
            message = Publication(exchange, [key], Outgoing(body=body))
            return house.service.dispatch(PublishMessages(DEFAULT_HOST, [message]))

        house.reach.away = {3}
        (told,) = await publish("amq.fanout", "", b"1")
        assert (told.routed, told.code) == (3, None), "it is confirmed although a group is away"
        (told,) = await publish("", names_of("there")[1], b"2")
        assert (told.routed, told.code) == (1, None)
        (told,) = await publish("", names_of("everywhere")[1], b"2")
        assert (told.routed, told.code) == (1, None), "it waits behind the first"
        assert house.desk.outbox.waiting > 0
        house.reach.away = set()
        await until(lambda: [available(house, name) for name in names] == [1, 2, 2])
        assert await house.drain("here") == [b"1"]
        assert await house.drain("there") == [b"1", b"2"]
        assert await house.drain("everywhere") == [b"1", b"2"]
        await asyncio.sleep(120)  # The outbox is dropped, or tried again.
        (told,) = await publish("amq.fanout", "", b"3")
        assert (told.routed, told.code) == (3, None)
        assert [available(house, name) for name in names] == [1, 1, 1], "it is confirmed when it is everywhere"
        assert [await house.drain(name) for name in names] == [[b"3"]] * 3
        ways = [("", "there"), ("amq.fanout", ""), ("", "there")] * 3
        batch = [Publication(way, [key], Outgoing(body=b"%d" % at)) for at, (way, key) in enumerate(ways)]
        assert {one.code for one in await house.service.dispatch(PublishMessages(DEFAULT_HOST, batch))} == {None}
        await until(lambda: available(house, "there") == len(batch))
        assert await house.drain("there") == [b"%d" % at for at in range(len(batch))]
        under_way = [publish("", names_of("there")[1], b"%d" % number) for number in range(5)]
        under_way.append(publish("amq.fanout", "", b"5"))
        for pending in under_way:
            await pending
        await until(lambda: available(house, "there") == 6)
        assert await house.drain("there") == [b"%d" % number for number in range(6)]

    live(play)


def test_a_transaction_is_refused_by_a_full_queue_of_another_group() -> None:
    async def play(house: House) -> None:
        house.main.hall.feature_level = NEWEST
        for share, name in ((1, "roomy"), (2, "full")):
            house.reach.share = share
            await house.queues.create(name, QueueSettings(placement=SHARE))
        keys = [names_of(name)[1] for name in ("roomy", "full")]

        async def commit() -> None:
            messages = [Publication("", [key], Outgoing(body=b"x")) for key in keys]
            await house.service.dispatch(CommitTransaction(DEFAULT_HOST, messages, []))

        await house.queues.configure("full", QueueSettings(messages_max=1, when_full="refuse"))
        await commit()
        assert [available(house, name) for name in ("roomy", "full")] == [1, 1], "it has arrived with the reply"
        with pytest.raises(LonghallError) as refused:
            await commit()
        assert refused.value.code is Code.QUEUE_FULL
        assert [available(house, name) for name in ("roomy", "full")] == [1, 1]
        assert house.desk.outbox.waiting == 0

    live(play)


def test_a_queue_with_chunked_messages_keeps_its_letters_in_its_group() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings())
        with pytest.raises(LonghallError) as caught:
            await house.queues.create("q", source("dead", whole_bytes_max=100_000_000))
        assert caught.value.code is Code.INVALID_CONFIGURATION
        assert "whole_bytes_max" in str(caught.value)

    live(play)
