"""Calls to a leader over real connections: of any size, refused, cancelled, lost, and with no leader to call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from longhall.broker.leadership import Host
from longhall.broker.pending import Pending, completed, failed, started
from longhall.cluster.rpc import leader_client, request_server
from longhall.cluster.rpc.leader_client import CALL, LeaderClient
from longhall.cluster.rpc.operation import Caller, encode_reply
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from longhall.service.call_codec import decode_call
from longhall.service.queue_operations import AddUploadPart, PurgeQueue, ReadPart, ReceiveMessages
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork

MIB = 1 << 20


class Told:
    """A `Leadership` that says what the test wants."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.leader = 1

    def leads(self, shard: int) -> bool:
        return self.leader == self.node

    def leader_node(self, shard: int) -> int:
        return self.leader

    def epoch(self, shard: int) -> int:
        return 1

    def replicas(self, shard: int) -> list[int]:
        return [1, 2]

    in_sync = replicas

    def members(self) -> list[Host]:
        return []


class World:
    """As much of one as connections need."""

    network = peers_network = RealNetwork()
    entropy = RealEntropy()


class Pair:
    """Node 1 leads and replies what `reply` makes of an operation; node 2 calls it."""

    def __init__(self) -> None:
        made: Any = World()
        self.told = {number: Told(number) for number in (1, 2)}
        self.peers = {number: Peers(made, "hall", number, 1) for number in (1, 2)}
        self.asked: list[tuple[Any, Caller]] = []
        self.reply: Callable[[Any], Pending[Any]] = lambda operation: completed(None)
        self.serving: list[Pending[Any]] = []
        self.client = LeaderClient(self.told[2], self.peers[2], lambda operation, caller: completed(b"here"))
        self.peers[1].serve_calls(CALL, self._serve, Audience.GUESTS)

    def _serve(self, node: int, body: bytes) -> tuple[Pending[Any], Callable[[Any], bytes]]:
        if not self.told[1].leads(0):
            raise LonghallError(Code.NOT_LEADER, "another node leads")
        call = decode_call(body)
        self.asked.append((call.operation, call.caller))
        pending = self.reply(call.operation)
        self.serving.append(pending)
        return pending, encode_reply


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    port = await made.peers[1].open("127.0.0.1", 0)
    made.peers[2].addresses = {1: ("127.0.0.1", port)}
    try:
        yield made
    finally:
        made.client.close()
        for peers in made.peers.values():
            await peers.close()


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to pass")


async def _refused(pending: Pending[Any]) -> Code:
    with pytest.raises(LonghallError) as refused:
        await pending
    return refused.value.code


async def test_an_operation_and_its_reply_arrive_whole_whatever_their_size() -> None:
    async with pair() as two:
        two.reply = lambda operation: completed(operation.receipt.encode() * 2)
        for size in (0, 1, 1000, MIB, 9 * MIB):
            reply = await two.client.call(ReadPart("q", "x" * size, 3), Caller("somebody", "10.0.0.1"))
            assert reply == b"x" * 2 * size
            operation, caller = two.asked[-1]
            assert (len(operation.receipt), operation.number) == (size, 3)
            assert (caller.identity, caller.address) == ("somebody", "10.0.0.1")
        assert two.client._bytes == 0
        assert not two.client._calls


async def test_a_refusal_comes_back_as_it_was() -> None:
    async with pair() as two:
        two.reply = lambda operation: failed(LonghallError(Code.STORAGE_FULL, "no room"))
        assert await _refused(two.client.call(PurgeQueue("q"))) is Code.STORAGE_FULL


async def test_replies_come_in_any_order() -> None:
    async with pair() as two:
        waiting: Pending[None] = Pending()
        two.reply = lambda operation: waiting if operation.queue == "slow" else completed(None)
        slow = two.client.call(PurgeQueue("slow"))
        await two.client.call(PurgeQueue("quick"))
        assert not slow.done
        waiting.complete(None)
        assert await slow is None


async def test_a_receiver_that_goes_away_is_cancelled_at_the_leader() -> None:
    async with pair() as two:
        two.reply = lambda operation: started(asyncio.Event().wait())
        pending = two.client.call(ReceiveMessages("q", 1))
        await _until(lambda: len(two.serving) == 1)
        pending.cancel()
        await _until(lambda: two.serving[0].done)
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert not two.client._calls


async def test_messages_that_were_leased_before_the_cancellation_are_reported_as_late() -> None:
    async with pair() as two:
        leased: Pending[list[Delivery]] = Pending()
        two.reply = lambda operation: leased
        late: list[list[Delivery]] = []
        pending = two.client.call(ReceiveMessages("q", 1), on_late=late.append)
        await _until(lambda: len(two.serving) == 1)
        leased.decide([Delivery(message_id="m", receipt="r", body=b"")])
        pending.cancel()
        await asyncio.sleep(0.05)
        assert not late
        leased.committed(0)
        await _until(lambda: bool(late))
        assert late[0][0].receipt == "r"


async def test_when_the_caller_is_gone_what_waits_is_cancelled_and_what_changes_something_goes_on() -> None:
    async with pair() as two:

        def reply(operation: Any) -> Pending[Any]:
            pending = started(asyncio.Event().wait())
            if not operation.waits:
                pending.keep()
            return pending

        two.reply = reply
        asked = [two.client.call(ReceiveMessages("q", 1)), two.client.call(PurgeQueue("q"))]
        await _until(lambda: len(two.serving) == 2)
        await two.peers[2].close()
        await _until(lambda: any(one.done for one in two.serving))
        assert [one.done for one in two.serving] == [isinstance(one, ReceiveMessages) for one, _ in two.asked]
        for one in asked:
            assert await _refused(one) is Code.NOT_READY
        for one in two.serving:
            if one._work is not None:
                one._work.cancel()


async def test_the_answer_of_a_leader_that_was_replaced_is_not_waited_for() -> None:
    async with pair() as two:
        two.reply = lambda operation: started(asyncio.Event().wait())
        pending = two.client.call(PurgeQueue("q"))
        await _until(lambda: len(two.serving) == 1)
        two.told[2].leader = 0
        assert await _refused(pending) is Code.NOT_READY


async def test_a_late_answer_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_client, "ANSWER_S_MAX", 0.1)
    async with pair() as two:
        two.reply = lambda operation: started(asyncio.Event().wait())
        assert await _refused(two.client.call(PurgeQueue("q"))) is Code.TIMED_OUT


async def test_without_a_leader_a_call_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_client, "LEADERLESS_S_MAX", 0.05)
    async with pair() as two:
        two.told[2].leader = 0
        assert await _refused(two.client.call(PurgeQueue("q"))) is Code.NOT_READY
        assert await _refused(two.client.call(PurgeQueue("q"), now=True)) is Code.NOT_LEADER
        two.told[2].leader = 1
        two.told[1].leader = 2  # The other node does not believe it, and does nothing.
        assert await _refused(two.client.call(PurgeQueue("q"))) is Code.NOT_READY
        assert two.asked == []
        monkeypatch.setattr(leader_client, "LEADERLESS_S_MAX", 30.0)
        pending = two.client.call(PurgeQueue("q"))
        await asyncio.sleep(0.05)
        assert not pending.done
        two.told[1].leader = 1  # Now it does: what was not done yet is asked again.
        assert await pending is None
        assert len(two.asked) == 1


async def test_a_process_that_became_the_leader_carries_the_call_out_itself() -> None:
    async with pair() as two:
        two.told[2].leader = 0
        pending = two.client.call(ReadPart("q", "r", 0))
        two.told[2].leader = 2
        assert await pending == b"here"


async def test_a_leader_that_cannot_be_reached_is_left_alone_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_client, "LEADERLESS_S_MAX", 0.05)
    async with pair() as two:
        two.peers[2].addresses = {1: ("127.0.0.1", 1)}
        assert await _refused(two.client.call(PurgeQueue("q"))) is Code.NOT_READY
        assert await _refused(two.client.call(PurgeQueue("q"), now=True)) is Code.NOT_LEADER


async def test_calls_and_their_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair() as two:
        two.client._calls_max = 1
        two.reply = lambda operation: started(asyncio.Event().wait())
        two.client.call(PurgeQueue("q"))
        with pytest.raises(LonghallError) as refused:
            two.client.call(PurgeQueue("q"))
        assert refused.value.code is Code.OVERLOADED
    monkeypatch.setattr(leader_client, "CALLS_BYTES_MAX", 100)
    async with pair() as two:
        with pytest.raises(LonghallError) as refused:
            two.client.call(AddUploadPart("q", "u", 0, bytes(100)))
        assert refused.value.code is Code.OVERLOADED
    monkeypatch.setattr(leader_client, "CALLS_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(request_server, "BYTES_MAX", 100)
    async with pair() as two:
        assert await _refused(two.client.call(AddUploadPart("q", "u", 0, bytes(100)))) is Code.OVERLOADED
        assert two.asked == []


async def test_an_operation_that_is_not_known_there_is_refused() -> None:
    async with pair() as two:
        with pytest.raises(LonghallError) as refused:
            await two.peers[2].request(1, CALL, b"\x91\x91\xa7Unknown", 5.0)
        assert refused.value.code is Code.INVALID_REQUEST
