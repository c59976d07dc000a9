"""STOMP over WebSocket: the frames of one client as the transport of a STOMP connection.

    client                        server
    text or binary messages       bytes for the STOMP connection, whatever the bounds of the messages are
    ping                          pong
    close                         close, and the end
    nothing for the handshake     the connection is closed

What the server sends is one text message for each write, or a binary one if it is not UTF-8 or the client sends binary
messages itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast, final

from longhall.front.origins import client_address
from longhall.front.websocket import (
    BINARY,
    CLOSE,
    GOING_AWAY,
    NORMAL,
    PING,
    PONG,
    TEXT,
    WebSocketDecoder,
    WebSocketError,
    close_code,
    encode_close,
    encode_frame,
)
from longhall.front.websocket_upgrade import LOOPBACK, UpgradeRefused, WebSocketUpgrade

PATH: Final = "/ws"
SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024 + 64 * 1024  # A STOMP frame, and some more.
HANDSHAKES_MAX: Final = 1024  # Clients whose handshake has not arrived,
HANDSHAKES_OF_ADDRESS_MAX: Final = 256  # and those of one address.
PINGS_MAX: Final = 64  # Whose pongs the client has not read; then it is cut off.


@final
class UpgradeHandshakes:
    """How many clients have connected and not sent their handshake yet, within bounds for all and for each address.
    Later the limits of STOMP connections hold.
    """

    def __init__(self) -> None:
        self.refused = 0
        self._by_address: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """True if a client may send its handshake; call `end` then."""
        if self._by_address.total() >= HANDSHAKES_MAX or self._by_address[address] >= HANDSHAKES_OF_ADDRESS_MAX:
            self.refused += 1
            return False
        self._by_address[address] += 1
        return True

    def end(self, address: str) -> None:
        """The handshake is over, or the client is gone."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


@final
class StompWebSocket(asyncio.Protocol):
    """The protocol of one client until the handshake is over, and then the transport below its STOMP connection."""

    def __init__(
        self,
        connection: Callable[[], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
        handshake_s: float,
        handshakes: UpgradeHandshakes,
    ) -> None:
        self.peer = ""
        self._handshakes = handshakes
        self._connection = connection
        self._loop = loop
        self._handshake_s = handshake_s
        self._transport: asyncio.Transport | None = None
        self._upgrade: WebSocketUpgrade | None = None
        self._inner: asyncio.Protocol | None = None
        self._decoder = WebSocketDecoder(MESSAGE_BYTES_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._is_upgrading = False
        self._is_writable = True
        self._pings = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = client_address(transport)
        if not self._handshakes.begin(self.peer):
            self._transport.abort()
            return
        self._is_upgrading = True
        name = transport.get_extra_info("sockname")
        is_loopback = bool(name) and (str(name[0]) in LOOPBACK or str(name[0]).startswith("127."))
        self._upgrade = WebSocketUpgrade(PATH, SUBPROTOCOLS, is_loopback)
        self._timer = self._loop.call_later(self._handshake_s, self._transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end_handshake()
        if self._timer is not None:
            self._timer.cancel()
        if self._inner is not None:
            inner, self._inner = self._inner, None
            inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        try:
            if self._inner is None:
                data = self._open(data)
            if data and self._inner is not None:
                self._take(data)
        except UpgradeRefused as refused:
            self._end(refused.answer)
        except WebSocketError as error:
            self._end(encode_close(error.code, str(error)))

    def _open(self, data: bytes) -> bytes:
        """Feed the handshake; returns the bytes behind it."""
        if self._upgrade is None or self._transport is None or self._is_closing:
            return b""
        opened = self._upgrade.feed(data)
        if opened is None:
            return b""
        answer, rest = opened
        self._upgrade = None
        self._end_handshake()
        if self._timer is not None:
            self._timer.cancel()
        self._transport.write(answer)
        self._inner = self._connection()
        self._inner.connection_made(WebSocketTransport(self, self._transport))
        return rest

    def _end_handshake(self) -> None:
        if self._is_upgrading:
            self._is_upgrading = False
            self._handshakes.end(self.peer)

    def _take(self, data: bytes) -> None:
        for opcode, payload in self._decoder.feed(data):
            if self._inner is None or self._transport is None:
                return
            if opcode in (TEXT, BINARY):
                if payload and not self._is_closing:
                    self._inner.data_received(payload)
            elif opcode == PING:
                self._pong(payload)
            elif opcode == CLOSE:
                code = close_code(payload)
                self._end(encode_close(code if code != 1005 else NORMAL))
                return
            # A pong that nobody asked for is legal and means nothing.

    def _pong(self, payload: bytes) -> None:
        assert self._transport is not None
        self._pings = 0 if self._is_writable else self._pings + 1
        if self._pings > PINGS_MAX:
            self._transport.abort()
            return
        self._transport.write(encode_frame(PONG, payload))

    def _end(self, last: bytes) -> None:
        """Send the last bytes, and close."""
        if self._transport is None:
            return
        if not self._is_closing or self._inner is None:
            self._transport.write(last)
        self._is_closing = True
        self._transport.close()

    # For the transport of the STOMP connection

    def pause_writing(self) -> None:
        self._is_writable = False
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._is_writable = True
        if self._inner is not None:
            self._inner.resume_writing()

    def write(self, data: bytes) -> None:
        """Send bytes as one message."""
        if self._transport is None or self._is_closing:
            return
        opcode = BINARY if self._decoder.kind == BINARY or not _is_text(data) else TEXT
        self._transport.write(encode_frame(opcode, data))

    def say_close(self, code: int) -> None:
        """Send a close frame; nothing is sent after it."""
        if self._transport is not None and not self._is_closing:
            self._transport.write(encode_close(code))
        self._is_closing = True


@final
class WebSocketTransport(asyncio.Transport):
    """The transport of a STOMP connection over a WebSocket."""

    def __init__(self, websocket: StompWebSocket, below: asyncio.Transport) -> None:
        super().__init__()
        self._websocket = websocket
        self._below = below

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._websocket.write(bytes(data))

    def write_eof(self) -> None:
        """Nothing more is sent: the client is asked to close."""
        self._websocket.say_close(NORMAL)

    def close(self) -> None:
        self._websocket.say_close(GOING_AWAY)
        self._below.close()

    def abort(self) -> None:
        self._below.abort()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
