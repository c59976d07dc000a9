"""The opening handshake of a WebSocket: an HTTP/1.1 request that asks for the upgrade, and its answer.

    the request                                   the answer
    GET <path>, upgrade, version 13, a key        101, with the first subprotocol of ours that the client offers
    another path                                  404
    another version                               426, with the version that is spoken
    a page of another site on loopback            403
    anything else                                 400

Origin: a browser names the site of the page. At a loopback address only pages of loopback may connect, because any site
that somebody visits could otherwise reach a door that is open for this machine alone. A client that is no browser names
no origin. At other addresses every origin may connect: there the login protects.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import urlsplit

import httptools

from longhall.front.websocket import accept_of

HEAD_BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 100
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class UpgradeRefused(Exception):
    """The request is answered with this status and this text."""

    def __init__(self, status: str, text: str, headers: str = "") -> None:
        super().__init__(text)
        self.answer = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text.encode()) + 1}\r\n"
            f"{headers}Connection: close\r\n\r\n{text}\n"
        ).encode()


@final
class WebSocketUpgrade:
    """The handshake of one connection."""

    def __init__(self, path: str, subprotocols: tuple[str, ...], is_loopback: bool) -> None:
        """`subprotocols` in the order of preference."""
        self.subprotocol = ""
        self._path = path.encode()
        self._subprotocols = subprotocols
        self._is_loopback = is_loopback
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._count = 0
        self._fed_bytes = 0
        self._is_whole = False  # A request without an upgrade has arrived.
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> tuple[bytes, bytes] | None:
        """The answer, and the bytes behind the request; None if the request is not whole. Raises UpgradeRefused."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._fed_bytes + upgrade.args[0] > HEAD_BYTES_MAX:
                raise UpgradeRefused("431 Request Header Fields Too Large", "the request is too large") from None
            return self._answer(), data[upgrade.args[0] :]
        except httptools.HttpParserError:
            raise UpgradeRefused("400 Bad Request", "this is not HTTP/1.1") from None
        if self._is_whole:
            raise UpgradeRefused("426 Upgrade Required", "this port speaks WebSocket", "Upgrade: websocket\r\n")
        self._fed_bytes += len(data)
        if self._fed_bytes > HEAD_BYTES_MAX or self._count > HEADERS_MAX:
            raise UpgradeRefused("431 Request Header Fields Too Large", "the request is too large")
        return None

    # Callbacks of httptools

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        name = name.lower()
        known = self._headers.get(name)
        self._headers[name] = value if known is None else known + b"," + value

    def on_message_complete(self) -> None:
        self._is_whole = True

    def _answer(self) -> bytes:
        headers = self._headers
        if self._target.partition(b"?")[0] != self._path:
            raise UpgradeRefused("404 Not Found", f"the path is {self._path.decode()}")
        upgrades = [one.strip().lower() for one in headers.get(b"upgrade", b"").split(b",")]
        if self._parser.get_method() != b"GET" or b"websocket" not in upgrades:
            raise UpgradeRefused("400 Bad Request", "a WebSocket is opened with GET and Upgrade: websocket")
        if headers.get(b"sec-websocket-version", b"").strip() != b"13":
            raise UpgradeRefused(
                "426 Upgrade Required", "the version of WebSocket is 13", "Sec-WebSocket-Version: 13\r\n"
            )
        accept = accept_of(headers.get(b"sec-websocket-key", b"").strip())
        if accept is None:
            raise UpgradeRefused("400 Bad Request", "Sec-WebSocket-Key is no key")
        self._check_origin()
        offered = [one.strip().decode("latin-1") for one in headers.get(b"sec-websocket-protocol", b"").split(b",")]
        chosen = [one for one in self._subprotocols if one in offered]
        lines = [b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade"]
        lines.append(b"Sec-WebSocket-Accept: " + accept)
        if chosen:
            self.subprotocol = chosen[0]
            lines.append(b"Sec-WebSocket-Protocol: " + chosen[0].encode())
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _check_origin(self) -> None:
        origin = self._headers.get(b"origin")
        if origin is None or not self._is_loopback:
            return
        try:
            host = urlsplit(origin.decode("latin-1").strip()).hostname or ""
        except ValueError:
            host = ""
        if host not in LOOPBACK and not host.endswith(".localhost"):
            raise UpgradeRefused("403 Forbidden", "pages of other sites may not connect to a loopback address")
