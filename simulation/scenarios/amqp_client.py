"""An AMQP client in a simulated world: one connection with one channel, and the bytes that client libraries send.

A call without an answer within PATIENCE_S, and a connection that the node closes, end the client: its actor makes
another one, at the next node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple, cast, final

from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import (
    BODY,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    content_frames,
    decode_content_header,
    method_frame,
)
from longhall.doors.amqp.wire.methods import METHODS, decode_arguments, encode_arguments
from longhall.exchanges.field_table import decode_table, encode_table
from longhall.exchanges.properties import decode_properties
from simulation.scenarios.machine import AMQP_PORT
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import Unanswered

PATIENCE_S: Final = 8.0
FRAME_MAX: Final = 131_072
CHANNEL: Final = 1
HEARTBEAT_S: Final = 2
SILENT_S: Final = 3.0 * HEARTBEAT_S
NO_PROPERTIES: Final = b"\0\0"


class AmqpDelivery(NamedTuple):
    """One message that a consumer was pushed."""

    tag: int
    redelivered: bool
    body: str
    headers: dict[str, Any]


class Closed(Exception):
    """The node closed the channel or the connection because of an error of this code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


@final
class _Wire(asyncio.Protocol):
    """The client's end of the connection: methods in their order, and deliveries."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost = False
        self.changed = asyncio.Event()
        self.answers: deque[tuple[int, list[Any]]] = deque()
        self.deliveries: deque[AmqpDelivery] = deque()
        self.confirms: deque[tuple[bool, int, bool]] = deque()
        self.closed: Closed | None = None
        self.heard_s = asyncio.get_running_loop().time()
        self._data = b""
        self._delivered: list[Any] = []
        self._properties = b""
        self._left = 0
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(PROTOCOL_HEADER)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.changed.set()

    def data_received(self, data: bytes) -> None:
        self.heard_s = asyncio.get_running_loop().time()
        data = self._data + data
        at = 0
        while at + 7 <= len(data):
            end = at + 7 + int.from_bytes(data[at + 3 : at + 7], "big")
            if end >= len(data):
                break
            self._frame(data[at], data[at + 7 : end])
            at = end + 1
        self._data = data[at:]
        self.changed.set()

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == METHOD:
            method = int.from_bytes(payload[:4], "big")
            self._method(method, list(decode_arguments(METHODS[method].form, payload, 4, len(payload))))
        elif kind == HEADER:
            _, self._left, self._properties = decode_content_header(payload)
            self._parts = []
            self._content()
        elif kind == BODY:
            self._left -= len(payload)
            self._parts.append(payload)
            self._content()

    def _method(self, method: int, arguments: list[Any]) -> None:
        if method == methods.BASIC_DELIVER:
            self._delivered = arguments
        elif method in (methods.BASIC_ACK, methods.BASIC_NACK):
            self.confirms.append((method == methods.BASIC_ACK, arguments[0], bool(arguments[1])))
        elif method in (methods.CHANNEL_CLOSE, methods.CONNECTION_CLOSE):
            self.closed = Closed(arguments[0], arguments[1])
        else:
            self.answers.append((method, arguments))

    def _content(self) -> None:
        if self._left:
            return
        headers = decode_properties(self._properties).headers
        _, tag, redelivered, _, _ = self._delivered
        table = decode_table(headers)[0] if headers is not None else {}
        self.deliveries.append(AmqpDelivery(tag, bool(redelivered), b"".join(self._parts).decode(), table))


@final
class AmqpClient:
    """One channel. Raises Unanswered if the connection is lost, and Closed for an error of the node."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._published = 0
        self._beat_s = 0.0

    @staticmethod
    async def connect(context: RunContext) -> AmqpClient:
        places = context.sqs_places
        host = places[context.next_turn() % len(places)][0]
        try:
            made = await asyncio.wait_for(context.network.connect(_Wire, host, AMQP_PORT), PATIENCE_S)
        except (OSError, TimeoutError):
            raise Unanswered from None
        client = AmqpClient(cast(_Wire, made))
        await client._answer(methods.CONNECTION_START)
        table = encode_table({"capabilities": {"consumer_cancel_notify": True}})
        client._write(method_frame(0, methods.CONNECTION_START_OK, table, "PLAIN", b"\0guest\0guest", "en_US"))
        await client._answer(methods.CONNECTION_TUNE)
        client._write(method_frame(0, methods.CONNECTION_TUNE_OK, 100, FRAME_MAX, HEARTBEAT_S))
        client._write(method_frame(0, methods.CONNECTION_OPEN, "/", "", False))
        await client._answer(methods.CONNECTION_OPEN_OK)
        await client.call(methods.CHANNEL_OPEN, methods.CHANNEL_OPEN_OK, "")
        return client

    def close(self) -> None:
        """Break the connection, as a client does that dies."""
        if self._wire.transport is not None:
            self._wire.transport.abort()

    async def call(self, method: int, answer: int, *arguments: Any) -> list[Any]:
        """Send a method and return the arguments of its answer."""
        self.send(method, *arguments)
        return await self._answer(answer)

    def send(self, method: int, *arguments: Any) -> None:
        """Send a method that has no answer."""
        self._write(method_frame(CHANNEL, method, *arguments))

    def publish(self, exchange: str, key: str, body: str) -> int:
        """Publish a message; returns its number for the confirm."""
        payload = methods.BASIC_PUBLISH.to_bytes(4, "big")
        payload += encode_arguments(METHODS[methods.BASIC_PUBLISH].form, [0, exchange, key, False, False])
        self._write(content_frames(CHANNEL, payload, NO_PROPERTIES, body.encode(), FRAME_MAX))
        self._published += 1
        return self._published

    async def confirmed(self) -> tuple[bool, int, bool]:
        """The next confirm: whether it is an ack, its number, and whether it is for all up to it."""
        await self._until(lambda: bool(self._wire.confirms))
        return self._wire.confirms.popleft()

    async def delivered(self, seconds: float) -> AmqpDelivery | None:
        """The next delivery; None if none comes in this time."""
        try:
            await self._until(lambda: bool(self._wire.deliveries), seconds)
        except TimeoutError:
            return None
        return self._wire.deliveries.popleft()

    def _write(self, data: bytes) -> None:
        if self._wire.transport is None or self._wire.lost:
            raise Unanswered
        self._wire.transport.write(data)

    async def _answer(self, method: int) -> list[Any]:
        await self._until(lambda: bool(self._wire.answers))
        found, arguments = self._wire.answers.popleft()
        if found != method:
            raise Unanswered  # The node cancelled a consumer.
        return arguments

    async def _until(self, done: Any, seconds: float | None = None) -> None:
        ends_s = asyncio.get_running_loop().time() + (PATIENCE_S if seconds is None else seconds)
        while not done():
            if self._wire.closed is not None:
                raise self._wire.closed
            now_s = asyncio.get_running_loop().time()
            left_s = ends_s - now_s
            if now_s - self._wire.heard_s > SILENT_S:
                self.close()  # The node is gone, and nothing says so.
                raise Unanswered
            if now_s - self._beat_s >= HEARTBEAT_S / 2:
                self._beat_s = now_s
                self._write(HEARTBEAT_FRAME)
            if self._wire.lost:
                raise Unanswered
            if left_s <= 0:
                if seconds is not None:
                    raise TimeoutError
                self.close()
                raise Unanswered
            self._wire.changed.clear()
            try:
                await asyncio.wait_for(self._wire.changed.wait(), min(left_s, HEARTBEAT_S / 2))
            except TimeoutError:
                continue
