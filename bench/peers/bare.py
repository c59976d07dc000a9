"""The upper limit: an HTTP server with constant answers, on the same loop and parser as Longhall's SQS door.

Requests are parsed by httptools and answered with constant bytes of the size that a real server would send. Nothing is
decoded, stored, leased or synced, so that no Python server on one loop can be much faster. `python -m bench.peers.bare`
is the server itself.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import uuid
from pathlib import Path
from typing import Any, cast

import httptools
import uvloop

from bench.peers.node import Node, free_ports
from bench.peers.question import answers_list_queues

_ROOT = Path(__file__).resolve().parents[2]


class Bare(Node):
    """One bare loop; the bodies that it returns have `size_bytes`."""

    def __init__(self, *, size_bytes: int = 1024, directory: Path | None = None) -> None:
        super().__init__(name="bare", directory=directory)
        self._size_bytes = size_bytes
        (self._port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        return answers_list_queues(self.address)

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.bare", str(self._port), str(self._size_bytes)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(_ROOT)}


def _answer(value: Any) -> bytes:
    content = json.dumps(value, separators=(",", ":")).encode() if value is not None else b""
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"x-amzn-RequestId: {uuid.uuid4()}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _answers(url: str, size_bytes: int) -> dict[bytes, tuple[bytes, bytes]]:
    """The answer to each action, for one message and for ten."""
    body = "x" * size_bytes
    sent = {"MD5OfMessageBody": hashlib.md5(body.encode()).hexdigest(), "MessageId": str(uuid.uuid4())}
    received = {
        "MessageId": sent["MessageId"],
        "ReceiptHandle": "A" * 80,
        "MD5OfBody": sent["MD5OfMessageBody"],
        "Body": body,
    }
    ids = [str(number) for number in range(10)]
    nothing = _answer(None)
    sent_ten = _answer({"Successful": [{"Id": each, **sent} for each in ids]})
    deleted_ten = _answer({"Successful": [{"Id": each} for each in ids]})
    created = _answer({"QueueUrl": url})
    return {
        b"AmazonSQS.SendMessage": (_answer(sent), nothing),
        b"AmazonSQS.SendMessageBatch": (sent_ten, sent_ten),
        b"AmazonSQS.ReceiveMessage": (_answer({"Messages": [received]}), _answer({"Messages": [received] * 10})),
        b"AmazonSQS.DeleteMessage": (nothing, nothing),
        b"AmazonSQS.DeleteMessageBatch": (deleted_ten, deleted_ten),
        b"AmazonSQS.CreateQueue": (created, created),
        b"AmazonSQS.DeleteQueue": (nothing, nothing),
        b"AmazonSQS.ListQueues": (_answer({"QueueUrls": [url]}), nothing),
    }


class _Connection(asyncio.Protocol):
    def __init__(self, answers: dict[bytes, tuple[bytes, bytes]]) -> None:
        self._answers = answers
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._body = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's own class does not derive from asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"X-Amz-Target":
            self._target = value

    def on_body(self, body: bytes) -> None:
        self._body = self._body + body if self._body else body

    def on_message_complete(self) -> None:
        assert self._transport is not None
        one, ten = self._answers[self._target]
        self._transport.write(ten if b'"MaxNumberOfMessages":10' in self._body else one)
        self._body = b""


async def _serve(port: int, size_bytes: int) -> None:
    answers = _answers(f"http://127.0.0.1:{port}/000000000000/bare", size_bytes)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(answers), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.bare", description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("size_bytes", type=int)
    given = parser.parse_args()
    uvloop.run(_serve(given.port, given.size_bytes))


if __name__ == "__main__":
    main()
