"""kill -9 under receipts: what was receipted is delivered, and what a client held comes again."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest
import stomp
from stomp.exception import NotConnectedException
from stomp.utils import Frame

from soak.node import Node

WAVES = 2
BURST = 400
DESTINATION = "/queue/receipted"


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.receipts: queue.Queue[str] = queue.Queue()
        self.messages: queue.Queue[Frame] = queue.Queue()

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)


def _connected(node: Node) -> tuple[stomp.Connection12, _Listener]:
    host, _, port = node.stomp.rpartition(":")
    connection = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1)
    listener = _Listener()
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    return connection, listener


def _send_until_killed(node: Node, first: int) -> tuple[set[int], int]:
    """Send a burst, some of it in transactions, and kill the node before all is receipted; the numbers that were, and
    the next one.
    """
    connection, listener = _connected(node)
    receipted: set[int] = set()
    for number in range(first, first + BURST):
        headers = {"receipt": str(number)}
        if number % 10 == 0:
            connection.begin(str(number))
            connection.send(DESTINATION, f"{number}a", headers={"transaction": str(number)})
            connection.send(DESTINATION, f"{number}b", headers={"transaction": str(number)})
            connection.commit(str(number), headers=headers)
        else:
            connection.send(DESTINATION, str(number), headers=headers)
        if number == first + BURST // 2:
            while len(receipted) < BURST // 4:
                receipted.add(int(listener.receipts.get(timeout=20)))
    node.kill()
    while True:
        try:
            receipted.add(int(listener.receipts.get(timeout=0.5)))
        except queue.Empty:
            break
    try:
        connection.disconnect()
    except NotConnectedException:
        pass
    return receipted, first + BURST


def _drain(node: Node, ack: str) -> list[Frame]:
    connection, listener = _connected(node)
    connection.subscribe(DESTINATION, id="1", ack=ack)
    found: list[Frame] = []
    while True:
        try:
            found.append(listener.messages.get(timeout=2))
        except queue.Empty:
            break
    connection.disconnect(receipt="bye")
    while listener.receipts.get(timeout=20) != "bye":
        pass
    return found


@pytest.mark.slow
def test_what_was_receipted_is_there_after_a_kill(tmp_path: Path) -> None:
    node = Node(tmp_path / "data")
    receipted: set[int] = set()
    first = 0
    try:
        for _ in range(WAVES):
            node.start()
            some, first = _send_until_killed(node, first)
            assert some, "the node was killed before it receipted anything"
            receipted |= some
        node.start()
        held = _drain(node, "client")
        bodies = {frame.body for frame in held}
        wanted = {f"{number}{part}" for number in receipted for part in (("a", "b") if number % 10 == 0 else ("",))}
        assert wanted <= bodies
        halves = {body[:-1] for body in bodies if body[-1] in "ab"}
        assert all({f"{one}a", f"{one}b"} <= bodies for one in halves), "half of a transaction"
        assert len(bodies) == len(held)
        taken = _drain(node, "auto")
        assert sorted(frame.body for frame in taken) == sorted(bodies)
        assert all(frame.headers["redelivered"] == "true" for frame in taken)
    finally:
        node.kill()
