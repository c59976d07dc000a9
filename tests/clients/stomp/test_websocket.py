"""STOMP over WebSocket: stompjs in Node and in a page of headless Chromium, stomp.py, and what breaks the rules."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp
import websocket

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.presence import need_command
from tests.clients.programs import Saw, fetched, run_cases
from tests.clients.stomp.conftest import Client

HERE = Path(__file__).parent.parent / "stompjs"
PROGRAMS = ("session", "cases")

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def saw(hall: Node | None) -> Saw:
    assert hall is not None
    interpreter, npm = need_command("node", "stompjs"), need_command("npm", "stompjs")
    manifest = [HERE / "package.json", HERE / "package-lock.json"]
    libraries = fetched("stompjs", manifest, [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    # Node finds libraries beside the program, so the program is put beside the libraries.
    for name in PROGRAMS:
        (libraries / f"{name}.js").write_bytes((HERE / f"{name}.js").read_bytes())
    url = f"ws://{hall.stomp_websocket}/ws"
    return run_cases([interpreter, os.fspath(libraries / "cases.js"), url, f"js-{uuid.uuid4().hex[:8]}"])


@pytest.mark.parametrize(
    ("case", "version", "queue"),
    [("node.session", "1.2", "node"), ("node.older", "1.1", "older"), ("browser.session", "1.2", "page")],
)
def test_stompjs(saw: Saw, case: str, version: str, queue: str) -> None:
    found = saw(case)
    destination = found["first"].pop("destination")
    assert destination.startswith("/queue/js-")
    assert destination.endswith(queue)
    # stompjs escapes and unescapes on 1.2 only.
    color = "r:e\\d\nx" if version == "1.2" else "red"
    assert found == {
        "version": version,
        "heartBeat": "1000,1000",
        "first": {"body": "häl\0lo ☃", "color": color},
        "redelivered": "true",
        "binary": [0, 1, 255, 254],
        "committed": ["one", "two"],
        "large": True,
        "alive": True,
        "closeCode": found["closeCode"],
    }
    assert found["closeCode"] in (1000, 1005)


def test_a_page_of_another_site_cannot_reach_loopback(saw: Saw) -> None:
    assert saw("browser.otherSite") == {"opened": False, "code": 1006}


@pytest.fixture
def address(hall: Node | None) -> tuple[str, int]:
    assert hall is not None
    host, _, port = hall.stomp_websocket.rpartition(":")
    return host, int(port)


def test_stomp_py(address: tuple[str, int], fresh_name: FreshName) -> None:
    client = Client(stomp.WSStompConnection([address], ws_path="/ws"), "1.2")
    client.connect()
    destination = f"/queue/{fresh_name('ws')}"
    client.subscribe(destination, ack="client-individual")
    client.send(destination, "by WebSocket")
    message = client.take()
    assert message.body == "by WebSocket"
    client.ack(message)
    client.connection.disconnect(receipt="bye")
    client.wait_receipt("bye")


@pytest.fixture
def socket_of(address: tuple[str, int]) -> Iterator[Any]:
    """A bare WebSocket."""
    opened = websocket.create_connection(
        f"ws://{address[0]}:{address[1]}/ws", subprotocols=["v11.stomp", "v12.stomp"], timeout=20
    )
    yield opened
    opened.close()


def test_a_frame_may_span_messages_and_pings_are_answered(socket_of: Any) -> None:
    assert socket_of.getsubprotocol() == "v12.stomp"
    for piece in ("CONNECT\naccept-", "version:1.2\n", "\n\0\nBEGIN\ntransaction:t\nrec"):
        socket_of.send(piece)
    socket_of.ping("are you there")
    assert socket_of.recv_data(control_frame=True)[0] in (websocket.ABNF.OPCODE_PONG, websocket.ABNF.OPCODE_TEXT)
    socket_of.send_binary(b"eipt:r\n\n\0")
    frames = b""
    while b"receipt-id:r" not in frames:
        frames += socket_of.recv_data()[1]


def test_after_an_error_that_closes_comes_a_close_frame(socket_of: Any) -> None:
    socket_of.send("DANCE\n\n\0")
    assert b"Illegal command" in socket_of.recv_data()[1]
    opcode, payload = socket_of.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE
    assert int.from_bytes(payload[:2], "big") == 1000


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x05hello", 1002),  # Not masked.
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\0\0\0\0", 1009),
        (b"\x88\x82\0\0\0\0" + (1005).to_bytes(2, "big"), 1002),
        (b"\x88\x82\0\0\0\0" + (1000).to_bytes(2, "big"), 1000),
    ],
)
def test_what_breaks_the_rules_is_closed_with_its_code(socket_of: Any, data: bytes, code: int) -> None:
    socket_of.sock.sendall(data)
    opcode, payload = socket_of.recv_data(control_frame=True)
    assert opcode == websocket.ABNF.OPCODE_CLOSE
    assert int.from_bytes(payload[:2], "big") == code


def test_what_is_no_websocket_gets_an_answer_in_http(address: tuple[str, int]) -> None:
    for request, status in ((b"GET /ws HTTP/1.1\r\nHost: a\r\n\r\n", b"426"), (b"CONNECT\n\n\0", b"400")):
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(request)
            assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)
