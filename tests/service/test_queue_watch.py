"""The queues of a process without data: it knows when it has all of them, since the policy of one may deny."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from longhall.broker.background import BackgroundTasks
from longhall.cluster.rpc.operation import Caller
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.stream import IncomingStream, OutgoingStream
from longhall.directory.access_rules import AccessAction, Kind
from longhall.errors import Code, LonghallError
from longhall.front.identity import USER_KIND
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.queues.messages import QueueView
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import CreateQueue
from longhall.service.queue_watch import CREDIT, NAMES_AN_ITEM, QueueWatchSource, RemoteQueueViews
from longhall.world.real.world import real_world
from tests.doors.two_nodes import FREE


class Leader:
    """Peers whose streams a test feeds."""

    def __init__(self) -> None:
        self.streams: list[IncomingStream] = []

    async def open_stream(self, node: int, name: str, body: bytes, credit: int) -> IncomingStream:
        self.streams.append(IncomingStream(credit, lambda count: None, lambda: None))
        return self.streams[-1]


class Tasks:
    """Background tasks that nobody restarts."""

    def start(self, name: str, work: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(cast("Coroutine[Any, Any, None]", work()))


def _item(*names: str) -> bytes:
    views = [(name, QueueView(name=name, queue_id="00", settings=QueueSettings())) for name in names]
    return msgspec.msgpack.encode(views)


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_views_are_whole_from_the_empty_item_to_the_end_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhall.service.queue_watch.PAUSE_S", 0)
    leader = Leader()
    views = RemoteQueueViews(cast(Peers, leader), 1, cast(BackgroundTasks, Tasks()))
    await _turns()
    assert not views.is_whole
    leader.streams[0].received(_item("q"))
    await _turns()
    assert views.view("q") is not None
    assert not views.is_whole, "more may come"
    leader.streams[0].received(_item())
    await _turns()
    assert views.is_whole
    leader.streams[0].received(_item("r"))
    await _turns()
    assert views.is_whole
    leader.streams[0].ended(ConnectionError("gone"))
    await _turns()
    assert not views.is_whole
    assert views.view("q") is None
    views.close()


class Stream:
    """The sending side of a stream, with as much credit as a test gives."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.is_open = True
        self.items: list[list[Any]] = []

    def send(self, item: bytes) -> None:
        self.credit -= 1
        self.items.append(msgspec.msgpack.decode(item))

    def watch(self, on_credit: Any, on_close: Any) -> None:
        self.on_credit = on_credit


@pytest.mark.parametrize("count", [0, 1, NAMES_AN_ITEM + 1])
async def test_the_empty_item_comes_behind_all_queues(tmp_path: Path, count: int) -> None:
    world = real_world(str(tmp_path))
    try:
        node = Node(world, Settings(**{**FREE, "data": str(tmp_path), "drain_ms": 0, "durability": "none"}))
        await node.start(lambda error: None)
        for number in range(count):
            await node.service.dispatch(CreateQueue(f"q{number}", QueueSettings()))
        stream = Stream(1)
        QueueWatchSource(node.hall, node.queues)._open(2, b"", cast(OutgoingStream, stream))
        await _turns()
        stream.credit = CREDIT
        stream.on_credit()
        assert stream.items[-1] == []
        assert sum(len(item) for item in stream.items) == count
        assert stream.items.count([]) == 1
        await node.service.dispatch(CreateQueue("later", QueueSettings()))
        await _turns()
        assert len(stream.items[-1]) == 1
        await node.stop()
    finally:
        world.close()


class Unknown:
    """The views of a process that nobody has told its queues."""

    is_whole = False

    def view(self, name: str) -> QueueView | None:
        return None


async def test_the_guard_refuses_until_the_queues_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = real_world(str(tmp_path))
    try:
        given = {**FREE, "data": str(tmp_path), "drain_ms": 0, "authentication": "required"}
        node = Node(world, Settings(**given))
        await node.start(lambda error: None)
        caller = Caller("ann", "127.0.0.1", "default", USER_KIND)
        assert not node.guard.allows(caller, AccessAction.READ, Kind.QUEUE, "q")
        monkeypatch.setattr(node.service, "_views", Unknown())
        with pytest.raises(LonghallError) as refused:
            node.guard.allows(caller, AccessAction.READ, Kind.QUEUE, "q")
        assert refused.value.code is Code.NOT_READY
        await node.stop()
    finally:
        world.close()
