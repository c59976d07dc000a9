"""Settles together with what the consumer writes back: through the queue service, and in Kafka transactions."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic
from longhall.errors import Code
from longhall.queues.messages import Outgoing, WriteBack
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch, read_records
from longhall.topics.effects import CommitRequest
from tests.broker.queues.rig import Queues, Rig


def back(queue: str, *bodies: str, **fields: str) -> WriteBack:
    return WriteBack(queue=queue, messages=[Outgoing(body=body.encode(), **fields) for body in bodies])  # type: ignore[arg-type]


async def begin(queues: Queues) -> None:
    for name in ("q", "one", "two"):
        await queues.desk.create(name, QueueSettings())
    await queues.send("q", "a", "b")


def topic_bodies(queues: Queues, topic: str, partition: int = 0) -> list[bytes | None]:
    found = queues.life.partition(topic, partition)
    read = found.log.read(0, 100_000, found.high_watermark)
    data = b"".join(read.buffers)
    return [record.value for record in read_records(data, 0)] if data else []


def test_settles_and_sends_to_queues_and_topics_are_one_step() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        await create_topic(queues.life.hall, "t", 2, {})
        receipts = [one.receipt for one in await queues.receive("q")]
        to_topic = WriteBack(topic="t", partition=1, messages=[Outgoing(body=b"x", key=b"k")])
        sends = [back("one", "1"), back("two", "2", "3"), to_topic]
        results = await queues.desk.settle_with_sends("q", receipts, sends)
        assert [[bool(one.message_id) for one in each] for each in results] == [[True], [True, True], [True]]
        assert await queues.drain("q") == []
        assert await queues.drain("one") == ["1"]
        assert await queues.drain("two") == ["2", "3"]
        assert topic_bodies(queues, "t", 1) == [b"x"]
        again = await queues.desk.settle_with_sends("q", receipts, sends)  # The reply was lost.
        assert [one.repeated for each in again for one in each] == [True] * 4
        assert await queues.drain("one") == []

    Rig().live(play)


def test_one_refusal_refuses_everything() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        await queues.desk.create("small", QueueSettings(messages_max=1))
        await queues.send("small", "full")
        first, second = [one.receipt for one in await queues.receive("q", lease_ms=2_000)]
        desk = queues.desk
        for sends, code in (
            ([back("one", "1"), back("small", "2")], Code.QUEUE_FULL),
            ([back("one", "1"), back("nowhere", "2")], Code.UNKNOWN_QUEUE),
            ([back("one", "1" * 300_000)], Code.MESSAGE_TOO_LARGE),
            ([WriteBack(messages=[Outgoing(body=b"")])], Code.INVALID_REQUEST),
            ([WriteBack(topic="nowhere", messages=[Outgoing(body=b"")])], Code.UNKNOWN_TOPIC),
        ):
            assert await queues.refused(desk.settle_with_sends("q", [first, second], sends)) is code
        assert await desk.settle("q", [first]) == [None]
        partly = desk.settle_with_sends("q", [first, second], [back("one", "1")])
        assert await queues.refused(partly) is Code.RECEIPT_SUPERSEDED
        await asyncio.sleep(2.5)
        (other,) = await queues.receive("q")
        late = desk.settle_with_sends("q", [second], [back("one", "1")])
        assert await queues.refused(late) is Code.RECEIPT_SUPERSEDED
        assert await queues.drain("one") == []
        await desk.settle_with_sends("q", [other.receipt], [back("one", "1")])
        assert await queues.drain("one") == ["1"]

    Rig().live(play)


def test_repeats_and_delays_of_the_target_hold() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        await queues.desk.create("late", QueueSettings(delay_ms=2_000, delivery="exactly-once"))
        receipts = [one.receipt for one in await queues.receive("q")]
        sends = [back("late", "x", "x", deduplication_id="x"), back("late", "x", deduplication_id="x")]
        results = await queues.desk.settle_with_sends("q", receipts, sends)
        assert [one.repeated for each in results for one in each] == [False, True, True]
        assert await queues.drain("late") == []
        await asyncio.sleep(2.5)
        assert await queues.drain("late") == ["x"]

    Rig().live(play)


class Committer:
    """A consumer of `q` whose transactional producer settles what it received."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.transactor = queues.life.transactor
        self.producer, self.epoch, self.sequence = -1, -1, 0

    async def init(self) -> None:
        taken = await self.transactor.init("tx", 20_000, -1, -1)
        self.producer, self.epoch, self.sequence = taken.producer_id, taken.producer_epoch, 0

    async def write(self, body: str) -> None:
        await self.transactor.add("tx", self.producer, self.epoch, [("one", 0)])
        batch = build_batch(
            [Record(0, 0, None, body.encode(), ())],
            producer_id=self.producer,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += 1
        life = self.queues.life
        assert send(life.hall, life.partition("one"), batch, 0, len(batch), "tx").code is None

    async def settle(self, *receipts: str, group: str = "longhall.settle.q") -> Code | None:
        request = CommitRequest(
            group_id=group, generation=-1, member_id="", offsets=(("q", 0, 0, -1, " ".join(receipts)),)
        )
        result = await self.transactor.hold_offsets("tx", request, self.producer, self.epoch, joins=True)
        return result.code or result.refused.get(("q", 0))

    async def end(self, commit: bool = True) -> Code | None:
        return (await self.transactor.end("tx", self.producer, self.epoch, commit, False)).code


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_settles_when_it_is_committed(commit: bool) -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        committer = Committer(queues)
        committer.transactor.start()
        await committer.init()
        one, two = await queues.receive("q", lease_ms=1_000)
        await committer.write("done")
        assert await committer.settle(one.receipt) is None
        assert await committer.settle(two.receipt) is None
        await asyncio.sleep(5)  # The leases last as long as the transaction.
        assert await queues.receive("q") == []
        assert await committer.end(commit) is None
        assert await queues.drain("one") == (["done"] if commit else [])
        await asyncio.sleep(60)
        assert await queues.drain("q") == ([] if commit else ["a", "b"])
        await committer.transactor.stop()

    Rig().live(play)


def test_a_receipt_must_be_held_from_the_settle_to_the_commit() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        committer = Committer(queues)
        committer.transactor.start()
        await committer.init()
        one, two = await queues.receive("q", lease_ms=1_000)
        await asyncio.sleep(1.5)
        assert await committer.settle(one.receipt) is Code.RECEIPT_SUPERSEDED
        assert await committer.settle("nonsense") is Code.INVALID_RECEIPT
        assert await committer.settle(two.receipt, group="longhall.settle.nowhere") is Code.UNKNOWN_QUEUE
        (one, two) = await queues.receive("q")
        await committer.write("done")
        assert await committer.settle(one.receipt, two.receipt) is None
        assert await queues.desk.change_lease("q", [(two.receipt, 0)]) == [None]
        (other,) = await queues.receive("q")
        assert await committer.end() is Code.TRANSACTION_ABORTABLE  # Another consumer has it.
        assert await committer.end(False) is None
        assert await queues.drain("one") == []
        assert await queues.desk.settle("q", [one.receipt, other.receipt]) == [None, None]
        await committer.transactor.stop()

    Rig().live(play)


@pytest.mark.parametrize("prepared", [True, False])
def test_a_crash_comes_before_both_or_after_both(prepared: bool) -> None:
    rig = Rig()

    async def work(queues: Queues) -> None:
        await begin(queues)
        committer = Committer(queues)
        committer.transactor.start()
        await committer.init()
        receipts = [one.receipt for one in await queues.receive("q")]
        await committer.write("done")
        assert await committer.settle(*receipts) is None
        if prepared:
            ending = asyncio.ensure_future(committer.end())
            for _ in range(1000):
                if queues.life.hall.transactions_of("tx").unfinished():
                    break
                await asyncio.sleep(0)
            await queues.life.hall.commits.durable()
            ending.cancel()

    async def look(queues: Queues) -> None:
        committer = Committer(queues)
        committer.transactor.start()
        await asyncio.sleep(60)  # Leases and the transaction have ended.
        found = (await queues.drain("q"), await queues.drain("one"))
        assert found == (([], ["done"]) if prepared else (["a", "b"], []))
        await committer.transactor.stop()

    rig.live(work)
    rig.live(look)
