"""Alarms: publishers are told that memory or disk is short, and wait; consumers go on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from longhall.node.addresses import DOORS
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.world.real.world import real_world

FREE = dict.fromkeys(DOORS, "127.0.0.1:0")


class Story:
    """What the client, which runs in a thread, and the node tell each other."""

    def __init__(self) -> None:
        self.begin = threading.Event()  # The alarm is on.
        self.end = threading.Event()  # The client has seen all of it.
        self.reasons: list[str] = []
        self.unblocked = 0
        self.consumed: list[bytes] = []
        self.failure: BaseException | None = None


def _until(done: Callable[[], bool], *connections: pika.BlockingConnection) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        for connection in connections:
            connection.process_data_events(0.02)


def _client(port: int, story: Story, is_ready: threading.Event) -> None:
    try:
        publisher, consumer = (pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) for _ in range(2))
        publisher.add_on_connection_blocked_callback(lambda _, frame: story.reasons.append(str(frame.method.reason)))
        publisher.add_on_connection_unblocked_callback(
            lambda _, frame: setattr(story, "unblocked", story.unblocked + 1)
        )
        channel, other = publisher.channel(), consumer.channel()
        channel.queue_declare("alarmed")
        for number in range(3):
            channel.basic_publish("", "alarmed", b"%d" % number)
        is_ready.set()
        assert story.begin.wait(20)
        other.basic_consume("alarmed", lambda *delivery: story.consumed.append(delivery[3]), auto_ack=True)
        _until(lambda: len(story.consumed) == 3, consumer)
        assert not story.reasons, "nothing was published under the alarm"
        channel.basic_publish("", "alarmed", b"3")
        channel.basic_publish("", "alarmed", b"4")
        _until(lambda: bool(story.reasons), publisher, consumer)
        assert len(story.consumed) == 3, "what is published waits"
        story.end.set()
        _until(lambda: len(story.consumed) == 5 and story.unblocked == 1, publisher, consumer)
        assert len(story.reasons) == 1
        publisher.close()
        consumer.close()
    except BaseException as failure:
        story.failure = failure
        is_ready.set()
        story.end.set()


@pytest.mark.parametrize(
    ("reason", "memory", "disk"),
    [("low on memory", True, False), ("low on disk", False, True), ("low on memory & disk", True, True)],
)
def test_publishers_are_told_and_wait(tmp_path: Path, reason: str, memory: bool, disk: bool) -> None:
    story, is_ready = Story(), threading.Event()

    async def play() -> None:
        world = real_world(str(tmp_path / "data"))
        node = Node(world, Settings(**FREE, drain_ms=0))  # type: ignore[arg-type]
        await node.start(lambda error: None)
        client = asyncio.create_task(asyncio.to_thread(_client, node.amqp.port, story, is_ready))
        await asyncio.to_thread(is_ready.wait, 20)
        budget = node.amqp_server.budget
        held_bytes = budget.bytes_max
        if memory:
            budget.used_bytes += held_bytes
        full = asyncio.create_task(_keep_full(node, story)) if disk else None
        story.begin.set()
        await asyncio.to_thread(story.end.wait, 30)
        if full is not None:
            await full
        if memory:
            budget.give(held_bytes)
        await client
        await node.stop()
        world.close()

    asyncio.run(play())
    assert story.failure is None, repr(story.failure)
    assert story.reasons == [reason]


async def _keep_full(node: Node, story: Story) -> None:
    """The housekeeper finds that the disk has room, so it is said again and again."""
    while not story.end.is_set():
        node.hall.storage_full = True
        await asyncio.sleep(0)
    node.hall.storage_full = False
