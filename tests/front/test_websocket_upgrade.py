"""The opening handshake of a WebSocket: who is let in, and what the others are answered."""

from __future__ import annotations

import pytest

from longhall.front.websocket_upgrade import UpgradeRefused, WebSocketUpgrade

SUBPROTOCOLS = ("v12.stomp", "v11.stomp")
REQUEST = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def _request(target: str = "/ws", method: str = "GET", **headers: str | None) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in {**REQUEST, **named}.items() if value is not None]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()


def _upgrade(is_loopback: bool = True) -> WebSocketUpgrade:
    return WebSocketUpgrade("/ws", SUBPROTOCOLS, is_loopback)


def test_the_best_subprotocol_of_both_is_chosen_and_the_rest_is_handed_on() -> None:
    upgrade = _upgrade()
    data = _request(Sec_WebSocket_Protocol="v10.stomp, v11.stomp, v12.stomp") + b"rest"
    assert upgrade.feed(data[:30]) is None
    opened = upgrade.feed(data[30:])
    assert opened is not None
    answer, rest = opened
    assert rest == b"rest"
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"Sec-WebSocket-Protocol: v12.stomp\r\n" in answer


def test_a_client_without_a_subprotocol_of_ours_gets_none() -> None:
    for offered in (None, "mqtt"):
        opened = _upgrade().feed(_request(Sec_WebSocket_Protocol=offered))
        assert opened is not None
        assert b"Sec-WebSocket-Protocol" not in opened[0]


@pytest.mark.parametrize(
    ("status", "request_bytes"),
    [
        (b"404", _request("/other")),
        (b"426", _request(Sec_WebSocket_Version="8")),
        (b"400", _request(Sec_WebSocket_Key="short")),
        (b"400", _request(Sec_WebSocket_Key=None)),
        (b"400", _request(method="POST")),
        (b"400", _request(Upgrade="h2c")),
        (b"426", b"GET /ws HTTP/1.1\r\nHost: a\r\n\r\n"),
        (b"400", b"CONNECT\naccept-version:1.2\n\n\0"),
        (b"431", b"GET /ws HTTP/1.1\r\n" + b"a: b\r\n" * 5000),
        (b"403", _request(Origin="https://evil.example")),
        (b"403", _request(Origin="null")),
    ],
)
def test_others_are_refused_with_a_status(status: bytes, request_bytes: bytes) -> None:
    with pytest.raises(UpgradeRefused) as caught:
        _upgrade().feed(request_bytes)
    assert caught.value.answer.startswith(b"HTTP/1.1 " + status)


def test_origins_of_this_machine_and_elsewhere() -> None:
    for origin in ("http://localhost:8000", "http://127.0.0.1", "http://[::1]:3000", "http://app.localhost"):
        assert _upgrade().feed(_request(Origin=origin)) is not None
    assert _upgrade(is_loopback=False).feed(_request(Origin="https://shop.example")) is not None
