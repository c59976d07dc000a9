"""Batches of Kafka producers for queues: every rule of the queue holds for each record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.produced import Sent
from longhall.broker.send import send
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import Record, build_batch, read_records
from longhall.records.compression import GZIP, NONE
from tests.broker.queues.rig import Queues, Rig

PLAIN, IDEMPOTENT = "plain", "idempotent"
KINDS = pytest.mark.parametrize("kind", [PLAIN, IDEMPOTENT])


class Producer:
    """A Kafka producer to the queue `q`, with the batches that it sent."""

    def __init__(self, queues: Queues, kind: str = PLAIN, compression: int = NONE, topic: str = "q") -> None:
        self.queues = queues
        self.producer = 7 if kind == IDEMPOTENT else -1
        self.compression = compression
        self.topic = topic
        self.sequence = 0

    def batch(self, *bodies: str, headers: tuple[tuple[str, bytes], ...] = (), key: bytes | None = None) -> bytes:
        records = [Record(index, 1_000, key, body.encode(), headers) for index, body in enumerate(bodies)]
        idempotent = self.producer >= 0
        batch = build_batch(
            records,
            producer_id=self.producer,
            producer_epoch=0 if idempotent else -1,
            base_sequence=self.sequence if idempotent else -1,
            compression=self.compression,
        )
        self.sequence += len(bodies)
        return batch

    def send(self, batch: bytes, timeout_ms: int = 1_000) -> Sent:
        life = self.queues.life
        return send(life.hall, life.partition(self.topic), batch, 0, len(batch), timeout_ms=timeout_ms)

    async def result(self, batch: bytes, timeout_ms: int = 1_000) -> Sent:
        """Also of a batch that waits."""
        sent = self.send(batch, timeout_ms)
        if sent.later is not None:
            done: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
            sent.later.when_done(done.set_result)
            sent = await done
        await self.queues.life.hall.commits.durable()
        return sent

    async def say(self, *bodies: str, **how: Any) -> Sent:
        return await self.result(self.batch(*bodies, **how))


Part = Callable[[Queues, Producer], Awaitable[None]]


def play(settings: QueueSettings, kind: str = PLAIN, compression: int = NONE) -> Callable[[Part], None]:
    """Run the function with a queue and a producer."""

    def run(what: Part) -> None:
        async def inside(queues: Queues) -> None:
            await queues.desk.create("dead", QueueSettings())
            await queues.desk.create("q", settings)
            await what(queues, Producer(queues, kind, compression))

        Rig().live(inside)

    return run


@KINDS
def test_a_full_queue_refuses_the_batch_as_a_whole(kind: str) -> None:
    @play(QueueSettings(messages_max=3), kind)
    async def _(queues: Queues, producer: Producer) -> None:
        assert (await producer.say("a", "b")).code is None
        producer.sequence = 2
        assert (await producer.say("c", "d")).code is Code.QUEUE_FULL
        producer.sequence = 2  # A producer goes on with the next sequence that was not taken.
        assert (await producer.say("c")).code is None
        assert await queues.drain("q") == ["a", "b", "c"]


def test_a_batch_larger_than_the_queue_is_to_be_split() -> None:
    @play(QueueSettings(messages_max=3, when_full="wait"))
    async def _(queues: Queues, producer: Producer) -> None:
        assert (await producer.say("a", "b", "c", "d")).code is Code.MESSAGE_TOO_LARGE


@KINDS
def test_a_batch_waits_for_room_and_those_behind_it_keep_their_order(kind: str) -> None:
    @play(QueueSettings(messages_max=2, when_full="wait"), kind)
    async def _(queues: Queues, producer: Producer) -> None:
        await producer.say("a", "b")
        waiting = [producer.send(producer.batch(body), 60_000) for body in "cd"]
        results: list[Sent] = []
        for one in waiting:
            assert one.later is not None
            one.later.when_done(results.append)
        await asyncio.sleep(1)
        assert results == []
        found = await queues.drain("q")
        while len(found) < 4:
            await asyncio.sleep(0.1)
            found += await queues.drain("q")
        assert found == ["a", "b", "c", "d"]
        assert [one.code for one in results] == [None, None]


def test_a_wait_ends_before_the_producers_timeout() -> None:
    @play(QueueSettings(messages_max=1, when_full="wait"), IDEMPOTENT)
    async def _(queues: Queues, producer: Producer) -> None:
        await producer.say("a")
        batch = producer.batch("b")
        assert (await producer.result(batch)).code is Code.TIMED_OUT
        assert await queues.drain("q") == ["a"]
        assert (await producer.result(batch)).code is None  # The same batch, sent again.
        assert (await producer.result(batch)).code is None
        assert await queues.drain("q") == ["b"]


@pytest.mark.parametrize(("when_full", "dead"), [("drop-oldest", []), ("dead-letter", ["a", "b"])])
def test_the_oldest_make_room(when_full: Any, dead: list[str]) -> None:
    @play(QueueSettings(messages_max=2, when_full=when_full, dead_letters=DeadLetters(queue="dead")))
    async def _(queues: Queues, producer: Producer) -> None:
        await producer.say("a", "b")
        assert (await producer.say("c", "d")).code is None
        assert await queues.drain("q") == ["c", "d"]
        assert await queues.drain("dead") == dead


@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_the_size_limit_holds_for_each_record_and_the_refusal_names_it(compression: int) -> None:
    @play(QueueSettings(message_bytes_max=1024), compression=compression)
    async def _(queues: Queues, producer: Producer) -> None:
        sent = await producer.say("small", "x" * 1025, "y" * 1024)
        assert sent.code is Code.MESSAGE_TOO_LARGE
        assert sent.record_errors is not None
        assert [index for index, _ in sent.record_errors] == [1]
        assert (await producer.say("small", "y" * 1024)).code is None
        assert len(await queues.drain("q")) == 2


@KINDS
@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_delayed_records_are_not_there_before_they_are_due(kind: str, compression: int) -> None:
    @play(QueueSettings(delay_ms=4_000, messages_max=3), kind, compression)
    async def _(queues: Queues, producer: Producer) -> None:
        first = await producer.say("a", "b", key=b"k")
        assert first.code is None
        depth = queues.desk.depth("q")
        assert (depth.available, depth.delayed) == (0, 2)
        assert (await producer.say("c", "d")).code is Code.QUEUE_FULL  # Delayed messages take room.
        assert await queues.bodies("q") == []
        await asyncio.sleep(4.5)
        deliveries = await queues.receive("q")
        assert [(one.body, one.key) for one in deliveries] == [(b"a", b"k"), (b"b", b"k")]


def test_a_record_with_its_own_due_time_is_hidden_until_then() -> None:
    @play(QueueSettings())
    async def _(queues: Queues, producer: Producer) -> None:
        due_ms = queues.life.hall.time.now_ms() + 5_000
        await producer.say("later", headers=(("longhall.due-ms", b"%d" % due_ms),))
        await producer.say("now")
        assert await queues.drain("q") == ["now"]
        await asyncio.sleep(5.5)
        (one,) = await queues.receive("q")
        assert (one.body, one.attempts) == (b"later", 1)


def test_the_time_to_live_of_the_queue_holds_for_records() -> None:
    @play(QueueSettings(time_to_live_ms=1_000, dead_letters=DeadLetters(queue="dead")))
    async def _(queues: Queues, producer: Producer) -> None:
        expires_ms = queues.life.hall.time.now_ms() + 60_000
        await producer.say("own", headers=(("longhall.expires-ms", b"%d" % expires_ms),))
        await producer.say("a")
        await asyncio.sleep(2.5)
        assert await queues.drain("q") == ["own"]
        assert await queues.drain("dead") == ["a"]


@KINDS
def test_a_repeat_is_acknowledged_with_the_offset_of_the_first_and_not_stored(kind: str) -> None:
    @play(QueueSettings(deduplication="content"), kind)
    async def _(queues: Queues, producer: Producer) -> None:
        await queues.send("q", "zero")
        assert (await producer.say("a")).base_offset == 1
        repeat = producer.batch("a")
        assert (await producer.result(repeat)).base_offset == 1
        if kind == IDEMPOTENT:  # A retry of the repeat gets its answer.
            assert (await producer.result(repeat)).base_offset == 1
        await producer.say("zero", "b", "b", "a", "c")
        assert queues.desk.depth("q").available == 4
        assert await queues.drain("q") == ["zero", "a", "b", "c"]
        (repeated,) = await queues.desk.send("q", [Outgoing(body=b"b")])  # Also through another door.
        assert repeated.repeated
        await asyncio.sleep(301)
        await producer.say("a")
        assert await queues.drain("q") == ["a"]


def test_ids_of_records_are_unique_within_their_scope() -> None:
    @play(QueueSettings(deduplication="id", deduplication_scope="group"))
    async def _(queues: Queues, producer: Producer) -> None:
        identity = (("longhall.deduplication-id", b"one"),)
        for key in (b"x", b"y", b"x"):
            await producer.say("a", headers=identity, key=key)
        assert await queues.drain("q") == ["a", "a"]


def test_a_queue_may_refuse_repeats() -> None:
    @play(QueueSettings(deduplication="content", repeated_sends="refuse"))
    async def _(queues: Queues, producer: Producer) -> None:
        await producer.say("a")
        refused = await producer.say("b", "a")
        assert refused.code is Code.REPEATED_SEND
        assert refused.record_errors == [(1, "the message was sent before")]
        assert await queues.drain("q") == ["a"]


def test_an_exactly_once_queue_wants_to_recognise_repeats() -> None:
    @play(QueueSettings(delivery="exactly-once"))
    async def _(queues: Queues, producer: Producer) -> None:
        assert (await producer.say("a")).code is Code.INVALID_REQUEST
        (refused,) = await queues.desk.send("q", [Outgoing(body=b"a")])
        assert refused.code is Code.INVALID_REQUEST
        for _ in range(2):
            await queues.send("q", "b", deduplication_id="b")
            await producer.say("c", headers=(("longhall.deduplication-id", b"c"),))
        idempotent = Producer(queues, IDEMPOTENT)
        batch = idempotent.batch("d")
        for _ in range(2):
            assert (await idempotent.result(batch)).code is None
        assert await queues.drain("q") == ["b", "c", "d"]


@pytest.mark.parametrize("kept", ["in the log", "in a snapshot"])
def test_rules_survive_a_crash(kept: str) -> None:
    rig = Rig()

    async def begin(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(deduplication="content", time_to_live_ms=60_000))
        await queues.desk.create("late", QueueSettings(delay_ms=5_000))
        await Producer(queues, IDEMPOTENT).say("a", "b")
        await Producer(queues, IDEMPOTENT, topic="late").say("a", "b")
        if kept == "in a snapshot":
            await checkpoint(queues.life.hall)
            await queues.life.hall.commits.durable()

    async def go_on(queues: Queues) -> None:
        retried = Producer(queues, IDEMPOTENT)
        assert (await retried.say("a", "b")).base_offset == 0
        await retried.say("b", "c")
        assert await queues.drain("q") == ["a", "b", "c"]
        late = Producer(queues, IDEMPOTENT, topic="late")
        assert (await late.say("a", "b")).base_offset == 0  # A retry is recognised although nothing is in the topic.
        await late.say("c")
        assert queues.desk.depth("late").delayed == 3
        await asyncio.sleep(6)
        assert await queues.drain("late") == ["a", "b", "c"]

    rig.live(begin)
    rig.live(go_on)


def test_records_that_no_rule_touches_stay_as_they_were() -> None:
    @play(QueueSettings())
    async def _(queues: Queues, producer: Producer) -> None:
        batch = producer.batch("a", "b", key=b"k")
        await producer.result(batch)
        log = queues.life.partition("q").log
        stored = b"".join(log.read(0, 10_000, 2).buffers)
        assert stored[16:] == batch[16:]
        assert [record.value for record in read_records(stored, 0)] == [b"a", b"b"]


@pytest.mark.parametrize("commit", [True, False])
def test_ids_of_an_open_transaction_count_when_it_is_committed(commit: bool) -> None:
    async def inside(queues: Queues) -> None:
        transactor = queues.life.transactor
        transactor.start()
        await queues.desk.create("q", QueueSettings(deduplication="content", delay_ms=2_000))
        taken = await transactor.init("tx", 60_000, -1, -1)
        await transactor.add("tx", taken.producer_id, taken.producer_epoch, [("q", 0)])

        def write(sequence: int, *bodies: str) -> Sent:
            records = [Record(index, 1_000, None, body.encode(), ()) for index, body in enumerate(bodies)]
            batch = build_batch(
                records,
                producer_id=taken.producer_id,
                producer_epoch=taken.producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
            return send(queues.life.hall, queues.life.partition("q"), batch, 0, len(batch), "tx")

        assert write(0, "a", "b").code is None
        assert write(2, "a", "c").code is None  # The first has the same fate.
        assert (await Producer(queues).say("a")).code is Code.TIMED_OUT  # Its fate is not known yet.
        await transactor.end("tx", taken.producer_id, taken.producer_epoch, commit, False)
        assert (await Producer(queues).say("a")).code is None
        assert await queues.drain("q") == []
        await asyncio.sleep(2.5)
        assert sorted(await queues.drain("q")) == (["a", "b", "c"] if commit else ["a"])
        await transactor.stop()

    Rig().live(inside)
