"""Bodies above the limit of a queue that takes them in parts, through a whole node, as boto3 sends and checks them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import msgspec
import pytest
import uvloop

from longhall.node.addresses import DOORS
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.queues.messages import Outgoing
from longhall.world.real.world import real_world
from tests.doors.sqs.clients import client

FREE: dict[str, Any] = dict.fromkeys(DOORS, "127.0.0.1:0")


WHOLE_BYTES_MAX = 20 * 1024 * 1024
BODY = "äöü€ text\n" * 250_000  # More than three parts of a mebibyte.


class Running:
    def __init__(self) -> None:
        self.ready = threading.Event()
        self.stop = asyncio.Event()
        self.node: Node | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    async def main(self, directory: str) -> None:
        world = real_world(directory)
        node = Node(world, Settings(data=directory, **FREE))
        await node.start(lambda error: None)
        self.node = node
        self.loop = asyncio.get_running_loop()
        self.ready.set()
        await self.stop.wait()
        await node.stop()
        world.close()

    def ask(self, verb: str, *arguments: object) -> Any:
        """A verb of the desk, for what this door has no words for."""
        assert self.node is not None
        assert self.loop is not None

        async def ask() -> Any:
            assert self.node is not None
            return await getattr(self.node.queues, verb)(*arguments)

        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result(30)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory: Path = tmp_path_factory.mktemp("large")
    found = Running()
    thread = threading.Thread(target=lambda: uvloop.run(found.main(str(directory))), daemon=True)
    thread.start()
    assert found.ready.wait(30)
    try:
        yield found
    finally:
        assert found.loop is not None
        found.loop.call_soon_threadsafe(found.stop.set)
        thread.join(30)


def opened(running: Running, name: str, protocol: str, **attributes: str) -> tuple[Any, str]:
    assert running.node is not None
    sqs = client(f"http://127.0.0.1:{running.node.sqs.port}", protocol)
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    view = running.node.queues.view(name)
    assert view is not None
    running.ask("configure", name, msgspec.structs.replace(view.settings, whole_bytes_max=WHOLE_BYTES_MAX))
    return sqs, url


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_large_body_comes_back_whole(running: Running, protocol: str) -> None:
    sqs, url = opened(running, f"whole-{protocol}", protocol)
    attributes = {"a": {"DataType": "String", "StringValue": "x"}}
    sent = sqs.send_message(QueueUrl=url, MessageBody=BODY, MessageAttributes=attributes)
    (got,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert got["Body"] == BODY
    assert got["MessageId"] == sent["MessageId"]
    assert got["MD5OfBody"] == sent["MD5OfMessageBody"]  # boto3 has compared both with the bodies.
    assert got["MessageAttributes"] == attributes
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_large_ones_in_a_batch_and_in_order(running: Running) -> None:
    sqs, url = opened(running, "line.fifo", "json", FifoQueue="true", ContentBasedDeduplication="true")
    bodies = [BODY[:1_100_000], "small", BODY[1:1_300_000]]
    entries = [{"Id": str(at), "MessageBody": body, "MessageGroupId": "g"} for at, body in enumerate(bodies)]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 3
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 3  # Repeats, and known as such.
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [one["Body"] for one in found] == bodies


def test_above_the_bound_it_is_refused(running: Running) -> None:
    sqs, url = opened(running, "bounded", "json")
    view = running.node.queues.view("bounded")  # type: ignore[union-attr]
    assert view is not None
    running.ask("configure", "bounded", msgspec.structs.replace(view.settings, whole_bytes_max=2_000_000))
    sqs.send_message(QueueUrl=url, MessageBody="x" * 2_000_000)
    with pytest.raises(botocore.exceptions.ClientError) as refusal:
        sqs.send_message(QueueUrl=url, MessageBody="x" * 2_000_001)
    assert refusal.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]) == 1


def test_what_the_door_cannot_carry_is_not_shown_to_it(running: Running) -> None:
    sqs, url = opened(running, "huge", "json")
    running.ask("send", "huge", [Outgoing(body=b"x" * (WHOLE_BYTES_MAX - 1)), Outgoing(body=b"behind")])
    assert [one["Body"] for one in sqs.receive_message(QueueUrl=url, VisibilityTimeout=600)["Messages"]] == ["behind"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
