"""Settles in transactions of messages that other replication groups store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
import pytest

from longhall.broker.transaction_participant import COMMIT, PREPARE, SettleRequest
from longhall.cluster.placement.transaction_operations import SettleInTransaction
from longhall.errors import Code
from longhall.queues.messages import Delivery
from longhall.queues.settings import QueueSettings
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
        assert code is Code.NOT_LEADER  # Clients try again.
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
        while sum(held(house)) < len(found):
            await asyncio.sleep(0)
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
