"""Settles in transactions of messages that other replication groups store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from longhall.broker.configuration import SEALED
from longhall.broker.feature_gates import NEWEST
from longhall.broker.pending import Pending
from longhall.broker.queues.sending.publication import Publication
from longhall.broker.queues.sending.transaction import REJECT, REQUEUE, SETTLE, EndedMessages
from longhall.broker.topic_administration import create_topic
from longhall.broker.transaction_participant import COMMIT, PREPARE, SettleRequest
from longhall.cluster.placement.transaction_operations import SettleInTransaction
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery, Outgoing, WriteBack
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service import queue_operations as ops
from longhall.service.exchange_operations import CommitTransaction
from longhall.topics.effects import CommitRequest
from tests.service.house import House, live

GROUPS = (1, 2, 3)


class Committer:
    """A transactional producer in the hall that settles messages of queues."""

    def __init__(self, house: House, timeout_ms: int = 20_000) -> None:
        self.house = house
        self.transactor = house.main.transactor
        self.producer, self.epoch, self.timeout_ms = -1, -1, timeout_ms

    async def init(self) -> Code | None:
        taken = await self.transactor.init("tx", self.timeout_ms, -1, -1)
        self.producer, self.epoch = taken.producer_id, taken.producer_epoch
        return taken.code

    async def settle(self, queue: str, messages: Iterable[Delivery]) -> Code | None:
        receipts = " ".join(one.receipt for one in messages)
        offsets = ((queue, 0, 0, -1, receipts),)
        request = CommitRequest(group_id=f"longhall.settle.{queue}", generation=-1, member_id="", offsets=offsets)
        result = await self.transactor.hold_offsets("tx", request, self.producer, self.epoch, joins=True)
        return result.code or result.refused.get((queue, 0))

    async def end(self, commit: bool = True) -> Code | None:
        return (await self.transactor.end("tx", self.producer, self.epoch, commit, False)).code

    def state(self) -> str:
        found = self.transactor.describe_transaction("tx")
        return "" if found is None else found.state


async def begin(house: House, **settings: object) -> tuple[Committer, list[Delivery]]:
    """A queue of three parts with six leased messages, and a producer."""
    house.main.transactor.start()
    await house.queues.create("q", QueueSettings(placement="parts", partitions=3, **settings))  # type: ignore[arg-type]
    await house.send("q", *(b"%d" % number for number in range(6)))
    found = await take(house, "q", 6)
    committer = Committer(house)
    assert await committer.init() is None
    return committer, found


async def take(house: House, name: str, count: int, lease_ms: int = 2_000) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        more = await house.receive(name, lease_ms=lease_ms)
        assert more
        found += more
    return found


def held(house: House, name: str = "q") -> list[int]:
    """How many messages each group holds."""
    counts: list[int] = []
    for number in GROUPS:
        queue = house.wings[number].hall.running_queue(name)
        assert queue is not None
        counts.append(queue.queue.state.holds.count)
    return counts


def bodies(found: list[Delivery]) -> list[bytes]:
    return sorted(one.body for one in found)


async def until_completed(committer: Committer) -> None:
    async with asyncio.timeout(30):
        while not committer.state().startswith("Complete"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_settles_messages_of_several_groups(commit: bool) -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert len({one.receipt.partition(".")[0] for one in found}) == 3
        assert await committer.settle("q", found[:4]) is None
        assert await committer.settle("q", found[4:]) is None
        await asyncio.sleep(10)  # The leases last as long as the transaction.
        assert await house.receive("q") == []
        assert await committer.end(commit) is None
        assert held(house) == [0, 0, 0]
        assert committer.state() == ("CompleteCommit" if commit else "CompleteAbort")
        await asyncio.sleep(60)
        assert sorted(await house.drain("q")) == ([] if commit else bodies(found))
        await committer.transactor.stop()

    live(play)


def test_queues_of_the_hall_and_of_groups_take_part_together() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await house.queues.create("here", QueueSettings(placement="hall"))
        await house.send("here", b"here")
        (here,) = await house.receive("here", lease_ms=1_000)
        assert await committer.settle("q", found) is None
        assert await committer.settle("here", [here]) is None
        assert await committer.end() is None
        await asyncio.sleep(60)
        assert await house.drain("q") == await house.drain("here") == []
        await committer.transactor.stop()

    live(play)


def test_a_message_that_has_left_its_consumer_makes_the_commit_fail() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert await committer.settle("q", found) is None
        assert await house.queues.change_lease("q", [(found[0].receipt, 0)]) == [None]
        (other,) = await house.receive("q")
        assert await committer.end() is Code.TRANSACTION_ABORTABLE
        assert sum(held(house)) > 0  # Groups that were asked wait for the outcome.
        assert await committer.end(False) is None
        assert held(house) == [0, 0, 0]
        assert await house.queues.settle("q", [other.receipt]) == [None]
        await asyncio.sleep(60)
        assert sorted(await house.drain("q")) == bodies(found[1:])
        await committer.transactor.stop()

    live(play)


def test_receipts_are_checked_when_they_are_named() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await asyncio.sleep(3)  # The leases have ended.
        assert await committer.settle("q", found[:1]) is Code.RECEIPT_SUPERSEDED
        wrong = msgspec.structs.replace(found[0], receipt="nonsense")
        assert await committer.settle("q", [wrong]) is Code.INVALID_RECEIPT
        wrong = msgspec.structs.replace(found[0], receipt="9." + found[0].receipt.partition(".")[2])
        assert await committer.settle("q", [wrong]) is Code.INVALID_RECEIPT
        house.reach.away.add(int(found[0].receipt.partition(".")[0]))
        code = await committer.settle("q", found[:1])
        assert code is Code.NOT_READY  # Clients try again.
        await committer.transactor.stop()

    live(play)


def test_the_outcome_waits_for_a_group_that_is_away() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert await committer.settle("q", found) is None
        house.reach.away.add(2)
        assert await committer.end() is Code.CONCURRENT_TRANSACTIONS  # It is not decided: the client tries again.
        assert committer.state() == "Ongoing"
        house.reach.away.clear()
        ending = asyncio.ensure_future(committer.end())
        for _ in range(10_000):
            if sum(held(house)) == len(found):
                break
            await asyncio.sleep(0.0005)
        house.reach.away.add(3)
        assert await ending is None
        assert committer.state() == "PrepareCommit"
        await asyncio.sleep(120)  # Far beyond all leases: the group holds its messages.
        assert held(house)[2] > 0
        house.reach.away.clear()
        assert await house.drain("q") == []
        await until_completed(committer)
        assert held(house) == [0, 0, 0]
        assert await house.drain("q") == []
        await committer.transactor.stop()

    live(play)


def test_a_transaction_that_times_out_gives_held_messages_back() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert await committer.settle("q", found) is None
        house.reach.away.add(1)
        assert await committer.end() is Code.CONCURRENT_TRANSACTIONS
        assert sum(held(house)) > 0
        house.reach.away.clear()
        await asyncio.sleep(60)
        assert committer.state() == "CompleteAbort"
        assert held(house) == [0, 0, 0]
        assert sorted(await house.drain("q")) == bodies(found)
        await committer.transactor.stop()

    live(play)


def test_only_the_outcome_ends_the_lease_of_a_held_message() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert await committer.settle("q", found) is None
        house.reach.away.add(1)
        assert await committer.end() is Code.CONCURRENT_TRANSACTIONS
        house.reach.away.clear()
        mine = next(one for one in found if one.receipt.startswith("2."))
        assert await house.queues.change_lease("q", [(mine.receipt, 0)]) == [Code.NOT_IN_FLIGHT]
        assert await house.queues.change_lease("q", [(mine.receipt, 60_000)]) == [Code.NOT_IN_FLIGHT]
        assert await committer.end() is None
        await asyncio.sleep(60)
        assert await house.drain("q") == []
        await committer.transactor.stop()

    live(play)


def test_a_delayed_request_changes_nothing_of_a_later_transaction() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        queue = house.main.hall.running_queue("q")
        assert queue is not None
        assert await committer.settle("q", found[:1]) is None
        assert await committer.end() is None
        group, _, receipt = found[1].receipt.partition(".")
        request = SettleRequest(
            step=PREPARE,
            queue="q",
            incarnation=queue.entry.topic_id,
            producer_id=committer.producer,
            coordinator_epoch=house.main.hall.shard_of("tx").epoch,
            number=1,
            receipts=[receipt],
        )
        reach = house.reach
        assert await reach.call(int(group), SettleInTransaction(request)) is Code.NOT_LEADER
        older = msgspec.structs.replace(request, coordinator_epoch=-2, number=1_000)
        assert await reach.call(int(group), SettleInTransaction(older)) is Code.NOT_LEADER
        newer = msgspec.structs.replace(request, coordinator_epoch=7, number=1, step=COMMIT)
        assert await reach.call(int(group), SettleInTransaction(newer)) is None
        overtaken = msgspec.structs.replace(request, coordinator_epoch=6, number=1_000)
        assert await reach.call(int(group), SettleInTransaction(overtaken)) is Code.NOT_LEADER
        assert held(house) == [0, 0, 0]
        await committer.transactor.stop()

    live(play)


def test_a_deleted_queue_does_not_keep_a_transaction_from_its_end() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        assert await committer.settle("q", found) is None
        await house.queues.delete("q")
        assert await committer.end() is Code.TRANSACTION_ABORTABLE
        assert await committer.end(False) is None
        assert committer.state() == "CompleteAbort"
        await committer.transactor.stop()

    live(play)


def settle(queue: str, messages: list[Delivery], *sends: WriteBack) -> ops.SettleWithSends:
    return ops.SettleWithSends(queue, [one.receipt for one in messages], list(sends))


def back(queue: str, *words: bytes) -> WriteBack:
    return WriteBack(queue=queue, messages=[Outgoing(body=word) for word in words])


async def make_targets(house: House) -> None:
    await house.queues.create("here", QueueSettings(placement="hall"))
    await house.queues.create("there", QueueSettings(placement="parts"))
    await create_topic(house.main.hall, "log", 1, {})


def test_messages_of_several_groups_are_settled_with_sends_to_any_group() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await make_targets(house)
        log = WriteBack(topic="log", messages=[Outgoing(body=b"logged")])
        request = settle("q", found, back("here", b"1"), back("there", b"2", b"3"), log)
        answers = await house.service.dispatch(request)
        assert [[bool(one.message_id) for one in each] for each in answers] == [[True], [True, True], [True]]
        again = await house.service.dispatch(request)  # The reply was lost.
        assert [one.repeated for each in again for one in each] == [True] * 4
        await asyncio.sleep(60)
        assert await house.drain("q") == []
        assert (await house.drain("here"), sorted(await house.drain("there"))) == ([b"1"], [b"2", b"3"])
        assert house.main.partition("log").high_watermark == 1
        await committer.transactor.stop()

    live(play)


def test_messages_of_one_group_are_settled_with_sends_to_any_queue() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await make_targets(house)
        mine = [one for one in found if one.receipt.startswith("2.")]
        house.reach.asked.clear()
        await house.service.dispatch(settle("q", mine, back("here", b"1"), back("there", b"2")))
        assert not [word for _, word in house.reach.asked if word == "SettleInTransaction"]  # One group decides alone.
        await asyncio.sleep(5)
        assert (await house.drain("here"), await house.drain("there")) == ([b"1"], [b"2"])
        log = WriteBack(topic="log", messages=[Outgoing(body=b"logged")])
        others = [one for one in await take(house, "q", len(found) - len(mine)) if one.receipt.startswith("1.")]
        await house.service.dispatch(settle("q", others, log))
        assert house.main.partition("log").high_watermark == 1
        await committer.transactor.stop()

    live(play)


def test_messages_of_the_hall_are_settled_with_sends_to_queues_of_groups() -> None:
    async def play(house: House) -> None:
        committer, _ = await begin(house)
        await make_targets(house)
        await house.send("here", b"task")
        await house.service.dispatch(settle("here", await house.receive("here"), back("there", b"done")))
        await asyncio.sleep(5)
        assert await house.drain("there") == [b"done"]
        await committer.transactor.stop()

    live(play)


def test_a_refusal_refuses_the_settles_of_all_groups() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await make_targets(house)
        await house.queues.create("small", QueueSettings(placement="hall", messages_max=1))
        await house.send("small", b"full")
        strict = QueueSettings(placement="share", delivery="exactly-once")
        await house.queues.create("strict", strict)
        for target, code in (
            (back("small", b"x"), Code.QUEUE_FULL),
            (back("nowhere", b"x"), Code.UNKNOWN_QUEUE),
            (back("there", b"x" * 300_000), Code.MESSAGE_TOO_LARGE),
            (back("strict", b"x"), Code.INVALID_REQUEST),
        ):
            assert await refused(house.service.dispatch(settle("q", found, back("here", b"1"), target))) is code
        assert held(house) == [0, 0, 0]
        assert await house.queues.change_lease("q", [(found[0].receipt, 0)]) == [None]
        (other,) = await house.receive("q")
        late = settle("q", found, back("here", b"1"))
        assert await refused(house.service.dispatch(late)) is Code.RECEIPT_SUPERSEDED
        house.reach.away.add(2)
        missing = settle("q", [other, *found[1:]], back("here", b"1"))
        assert await refused(house.service.dispatch(missing)) is Code.NOT_READY
        house.reach.away.clear()
        assert await house.drain("here") == []
        await asyncio.sleep(60)
        assert sorted(await house.drain("q")) == bodies(found)
        await committer.transactor.stop()

    live(play)


def test_a_step_that_finds_no_room_at_its_end_gives_held_messages_back() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await house.queues.create("small", QueueSettings(placement="hall", messages_max=1))
        ending = asyncio.ensure_future(house.service.dispatch(settle("q", found, back("small", b"x"))).wait())
        for _ in range(10_000):
            if sum(held(house)) or ending.done():
                break
            await asyncio.sleep(0.0005)
        await house.send("small", b"first")
        await asyncio.gather(ending, return_exceptions=True)
        assert held(house) == [0, 0, 0]
        await asyncio.sleep(60)
        left = sorted(await house.drain("q"))
        assert (left, await house.drain("small")) in (([], [b"x"]), (bodies(found), [b"first"]))
        await committer.transactor.stop()

    live(play)


async def refused(pending: Pending[Any]) -> Code | None:
    try:
        await pending
    except LonghallError as error:
        return error.code
    return None


def publish(queue: str, body: bytes) -> Publication:
    return Publication("", [queue], Outgoing(body=body))


def test_a_transaction_of_amqp_ends_messages_of_all_groups_at_once() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(placement="hall"))
        committer, found = await begin(house, dead_letters=DeadLetters(queue="dead", attempts_max=5))
        await make_targets(house)
        await house.send("here", b"task")
        here = await house.receive("here")
        receipts = [one.receipt for one in found]
        ends = [
            EndedMessages("q", receipts[:3], SETTLE),
            EndedMessages("q", receipts[3:5], REJECT),
            EndedMessages("q", receipts[5:], REQUEUE),
            EndedMessages("here", [one.receipt for one in here], SETTLE),
        ]
        published = [publish("here", b"1"), publish("there", b"2")]
        answers = await house.service.dispatch(CommitTransaction("/", published, ends))
        assert [one.code for one in answers] == [None, None]
        await asyncio.sleep(60)
        assert await house.drain("q") == [found[5].body]  # What was given back.
        assert sorted(await house.drain("dead")) == bodies(found[3:5])
        assert (await house.drain("here"), await house.drain("there")) == ([b"1"], [b"2"])
        await committer.transactor.stop()

    live(play)


def test_a_transaction_of_amqp_with_a_message_of_another_consumer_does_nothing() -> None:
    async def play(house: House) -> None:
        committer, found = await begin(house)
        await make_targets(house)
        assert await house.queues.change_lease("q", [(found[0].receipt, 0)]) == [None]
        (other,) = await house.receive("q")
        ends = [EndedMessages("q", [one.receipt for one in found], SETTLE)]
        commit = CommitTransaction("/", [publish("here", b"1"), publish("there", b"2")], ends)
        assert await refused(house.service.dispatch(commit)) is Code.RECEIPT_SUPERSEDED
        assert await house.queues.settle("q", [other.receipt]) == [None]
        await asyncio.sleep(60)
        assert sorted(await house.drain("q")) == bodies(found[1:])
        assert await house.drain("here") == await house.drain("there") == []
        await committer.transactor.stop()

    live(play)


def is_logged(house: House, topic: str, group: int, count: int) -> bool:
    """True if the topic has so many messages and markers there, and no transaction is open."""
    partition = house.wings[group].partition(topic)
    return partition.high_watermark == partition.last_stable_offset == count


@pytest.mark.parametrize("queue_in", ["parts", "hall", "share"])
def test_messages_are_settled_with_sends_to_topics_of_other_groups(queue_in: str) -> None:
    async def play(house: House) -> None:
        house.main.hall.feature_level = NEWEST
        house.main.transactor.start()
        await house.queues.create("q", QueueSettings(placement=queue_in))
        await house.send("q", *(b"%d" % number for number in range(6)))
        found = await take(house, "q", 6)
        for house.reach.share, name in ((2, "facts"), (3, "more")):
            await create_topic(house.main.hall, name, 1, {"longhall.placement": "share"})
        await make_targets(house)
        facts = WriteBack(topic="facts", messages=[Outgoing(body=b"one", key=b"k"), Outgoing(body=b"two")])
        more = WriteBack(topic="more", messages=[Outgoing(body=b"three")])
        request = settle("q", found, facts, back("there", b"done"), more)
        answers = await house.service.dispatch(request)
        assert [[one.sequence for one in each] for each in (answers[0], answers[2])] == [[0, 1], [0]]
        again = await house.service.dispatch(request)  # The reply was lost.
        assert [one.repeated for each in again for one in each] == [True] * 4
        await asyncio.sleep(60)
        assert await house.drain("q") == []
        assert await house.drain("there") == [b"done"]
        assert is_logged(house, "facts", 2, 2 + 1)
        assert is_logged(house, "more", 3, 1 + 1)
        await house.main.transactor.stop()

    live(play)


def test_a_step_that_fails_after_it_appended_to_a_topic_is_aborted() -> None:
    async def play(house: House) -> None:
        house.main.hall.feature_level = NEWEST
        house.main.transactor.start()
        house.reach.share = 1
        await house.queues.create("q", QueueSettings(placement="share"))
        await house.send("q", b"a", b"b")
        found = await take(house, "q", 2)
        for house.reach.share, name in ((2, "facts"), (3, "more")):
            await create_topic(house.main.hall, name, 1, {"longhall.placement": "share"})
        sends = [WriteBack(topic=name, messages=[Outgoing(body=b"x")]) for name in ("facts", "more")]
        house.reach.away.add(3)
        with pytest.raises(LonghallError):
            await house.service.dispatch(settle("q", found, *sends))
        house.reach.away.clear()
        await asyncio.sleep(60)
        assert is_logged(house, "facts", 2, 1 + 1)
        aborted = house.wings[2].partition("facts").table().aborted_ranges()
        assert [first for _, first, _ in aborted] == [0], "readers of committed messages skip it"
        assert is_logged(house, "more", 3, 0)
        assert sorted(await house.drain("q")) == [b"a", b"b"]
        await house.main.transactor.stop()

    live(play)


def test_a_step_does_not_write_to_a_sealed_topic_of_another_group() -> None:
    async def play(house: House) -> None:
        house.main.hall.feature_level = NEWEST
        house.main.transactor.start()
        house.reach.share = 1
        await house.queues.create("q", QueueSettings(placement="share"))
        await house.send("q", b"a")
        found = await take(house, "q", 1)
        house.reach.share = 2
        await create_topic(house.main.hall, "facts", 1, {"longhall.placement": "share", SEALED: "file:main"})
        with pytest.raises(LonghallError) as refused:
            await house.service.dispatch(settle("q", found, WriteBack(topic="facts", messages=[Outgoing(body=b"x")])))
        assert refused.value.code is Code.SEALED
        await house.main.transactor.stop()

    live(play)
