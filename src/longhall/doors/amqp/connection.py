"""One connection of the AMQP door: bytes to frames, frames to methods, and the life of the connection.

    state      waits for                       then
    header     the protocol header             connection.start is sent
    start      connection.start_ok             the login is checked
    login      nothing: a password is hashed   connection.tune is sent; what came meanwhile is read then
    tune       connection.tune_ok              limits are fixed, heartbeats begin
    open       connection.open                 the virtual host is looked up
    opening    nothing                         connection.open_ok: channels may be opened; the rest is read then
    running    methods of channels             connection.close of either side
    closing    connection.close_ok, or that    closed (an error was sent, or the client's close was answered;
               the client disconnects          everything else is ignored)

What is published in one pass over received bytes is one call of the service, and so is what is acknowledged for one
queue; what is written in one turn of the loop is one write. Whatever bytes come, the protocol's own error answers them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast, final

from longhall.broker.pending import Pending
from longhall.broker.queues.consumers.session import DIRECT, SESSION_ID_BYTES, PushedMessages
from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import MANAGE
from longhall.doors.amqp import errors
from longhall.doors.amqp.acknowledgements import Acknowledgements
from longhall.doors.amqp.alarms import Blockage
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.content_admission import ContentAdmission
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.handlers.table import HANDLERS, MANAGING
from longhall.doors.amqp.handshake import CHANNELS_MAX, FRAME_MAX
from longhall.doors.amqp.heartbeats import Heartbeats
from longhall.doors.amqp.intake import Intake
from longhall.doors.amqp.login import log_in, open_host, update_secret
from longhall.doors.amqp.method_decoder import decode_method
from longhall.doors.amqp.publisher import Publisher
from longhall.doors.amqp.pushes import take_push
from longhall.doors.amqp.unacknowledged import ChannelConsumer
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import (
    BODY,
    FRAME_END,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    decode_content_header,
    method_frame,
)
from longhall.doors.amqp.wire.methods import METHODS, Arguments
from longhall.errors import LonghallError
from longhall.exchanges.field_table import MalformedTable
from longhall.front.identity import Principal
from longhall.front.pace import ConnectionPace
from longhall.service.exchange_operations import LimitChannel
from longhall.service.sessions import SessionLink

if TYPE_CHECKING:
    from longhall.doors.amqp.server import AmqpServer

WRITE_BYTES_HIGH: Final = 1024 * 1024
HANDSHAKE_FRAME_MAX: Final = 8192
CLOSE_S: Final = 5.0  # The client has so long to answer a close, and to end the connection after its own.

_log = logging.getLogger("longhall.amqp")


@final
class AmqpConnection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, server: AmqpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.service = server.service
        self.peer = ""
        self.origin = server.new_origin()
        self.host = "/"
        self.caller = Caller()
        self.handshake = server.new_handshake(self)
        self.channels: dict[int, Channel] = {}
        self.consumers: dict[int, tuple[Channel, ChannelConsumer]] = {}  # By their keys in the session.
        self.owned: dict[str, None] = {}  # Exclusive queues.
        self.session_id = server.new_id(SESSION_ID_BYTES)
        self.new_key = count(1).__next__  # Of the next consumer.
        self.publisher = Publisher(self)
        self.acknowledgements = Acknowledgements(self)
        self.is_over = self.is_closing = False
        self.active_s, self.requests = 0.0, 0
        self._loop = loop
        self._session: SessionLink | None = None
        self._session_ready: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._out: list[bytes] = []
        self._is_flushing = self._is_paused = False
        self._is_writable = True
        self._intake = Intake(self, server.message_bytes_max)
        self._bodies = ContentAdmission(server.budget, self._pace, self._give_up_bodies)
        self.blockage = Blockage(server.alarms, self.write, self.worked)
        self.pace = ConnectionPace(server.rates, "amqp", loop, self._pace, self._push_again)
        self._heartbeats = Heartbeats(loop, lambda: self.write(HEARTBEAT_FRAME), self._is_gone)
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.TimerHandle | None = None

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BYTES_HIGH)
        self.peer = self.origin.made(transport)
        self._heartbeats.received_s = self.active_s = self._loop.time()
        if not self.server.opened(self):
            self._transport.abort()
            return
        self._heartbeats.expect_handshake(self.server.handshake_s, self._handshake_over)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self._transport = None
        self._heartbeats.cancel()
        self._bodies.leave()
        self.blockage.close()
        self.pace.close()
        for channel in self.channels.values():
            channel.abandon()
        self.channels.clear()
        for task in self._tasks:
            task.cancel()
        if self._end is not None:
            self._end.cancel()
        if self._session is not None:
            self._session.close()
        self.server.closed(self)

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._push_again()

    def _push_again(self) -> None:
        """The client reads again, or is within its limits again."""
        if self._session is not None:
            self._session.readable()

    def data_received(self, data: bytes) -> None:
        self._heartbeats.received_s = self._loop.time()
        if self.is_over:
            return
        received = self._received + data if self._received else data
        at = 0
        try:
            if self.handshake.state == "header":
                at = self._take_header(received)
                if at == 0:
                    self._received = received
                    return
            at = self._take_frames(received, at)
        except AmqpError as error:
            self.refuse(error)
            at = len(received)
        except MalformedTable as error:
            self.refuse(AmqpError(errors.SYNTAX_ERROR, str(error)))
            at = len(received)
        except Exception:
            _log.exception("a connection failed", extra={"peer": self.peer})
            self.refuse(AmqpError(errors.INTERNAL_ERROR, "an internal error closed the connection"))
            at = len(received)
        self._received = received[at:] if at < len(received) else b""
        if self._received or self._bodies.holds_rest:
            self._bodies.hold_rest(len(self._received) if not self.is_over else 0)
        self.worked()

    def _pace(self) -> None:
        """Read no more while too much waits, or a body that arrives has to wait for memory."""
        crowded = (
            self._bodies.must_wait()
            or self.blockage.is_blocked
            or self.handshake.waits
            or self.pace.reads_held
            or self.publisher.is_crowded
            or any(channel.is_crowded for channel in self.channels.values())
        )
        if self._transport is not None and crowded != self._is_paused:
            self._is_paused = crowded
            if crowded:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _give_up_bodies(self) -> None:
        """Other connections need the memory of the bodies that arrive."""
        self.refuse(AmqpError(errors.RESOURCE_ERROR, "the memory for messages is used up; try again later"))

    def worked(self) -> None:
        """Something that was waited for is done."""
        self.publisher.flush()
        self.acknowledgements.flush()
        self._pace()

    # Frames

    def _take_header(self, data: bytes) -> int:
        if len(data) < len(PROTOCOL_HEADER) and PROTOCOL_HEADER.startswith(data):
            return 0
        if not data.startswith(PROTOCOL_HEADER):
            self.origin.note_tls(data, self._loop.time())
            self.write(PROTOCOL_HEADER)
            self._flush()
            self.close()
            raise AmqpError(errors.FRAME_ERROR, "another protocol is spoken")
        self.write(self.handshake.begin(self.server.properties, self.origin.client))
        return len(PROTOCOL_HEADER)

    def _take_frames(self, data: bytes, at: int) -> int:
        """Handle the whole frames from `at` on; returns where the rest begins."""
        end = len(data)
        most = (self.handshake.frame_max or FRAME_MAX) if self.handshake.state == "running" else HANDSHAKE_FRAME_MAX
        while at + 7 <= end and not self.is_over and not self.handshake.waits:
            kind = data[at]
            if kind == METHOD and self.handshake.state == "running":
                taken = self._intake.take(data, at, most)
                if taken != at:
                    at = taken
                    continue
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            if size > most:
                when = "" if self.handshake.state == "running" else " before the handshake is over"
                raise AmqpError(errors.FRAME_ERROR, f"a frame of {size} bytes is larger than {most}{when}")
            stop = at + 7 + size
            if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
                raise AmqpError(errors.FRAME_ERROR, f"unknown frame type {kind}")
            if stop >= end:
                break
            if data[stop] != FRAME_END:
                raise AmqpError(errors.FRAME_ERROR, f"a frame ends with {data[stop]} instead of {FRAME_END}")
            number = (data[at + 1] << 8) | data[at + 2]
            self._take_frame(kind, number, data, at + 7, stop)
            at = stop + 1
            if self.handshake.state == "running":
                most = self.handshake.frame_max or FRAME_MAX
        return at

    def _take_frame(self, kind: int, number: int, data: bytes, at: int, stop: int) -> None:
        if kind == HEARTBEAT:
            if number:
                raise AmqpError(errors.UNEXPECTED_FRAME, "a heartbeat belongs to channel 0")
            return
        if self.is_closing:
            if kind == METHOD and data[at : at + 4] == methods.CONNECTION_CLOSE_OK.to_bytes(4, "big"):
                self.close()
            elif kind == METHOD and data[at : at + 4] == methods.CONNECTION_CLOSE.to_bytes(4, "big"):
                self.write(method_frame(0, methods.CONNECTION_CLOSE_OK))
            return
        if number == 0:
            self._take_connection_method(kind, data, at, stop)
            return
        if self.handshake.state != "running":
            raise AmqpError(errors.CHANNEL_ERROR, "no channel is open yet")
        channel = self.channels.get(number)
        if channel is None:
            self._take_unopened(kind, number, data, at, stop)
        elif kind == METHOD:
            self._take_method(channel, data, at, stop)
        elif kind == HEADER:
            self._take_content_header(channel, data[at:stop])
        else:
            self._take_body(channel, data[at:stop])

    def _take_connection_method(self, kind: int, data: bytes, at: int, stop: int) -> None:
        if kind != METHOD:
            raise AmqpError(errors.UNEXPECTED_FRAME, "channel 0 has no content")
        method, arguments = decode_method(data, at, stop)
        self.requests += 1
        if self.handshake.state == "running" and method == methods.CONNECTION_CLOSE:
            self.publisher.flush()
            self.acknowledgements.flush()
            self.start(self._close_politely())
            self.is_closing = True
        elif method == methods.CONNECTION_CLOSE:
            self.write(method_frame(0, methods.CONNECTION_CLOSE_OK))
            self.close()
        elif self.handshake.state == "running" and method == methods.CONNECTION_UPDATE_SECRET:
            self.start(update_secret(self, arguments[0]))
        elif self.handshake.state == "start" and method == methods.CONNECTION_START_OK:
            self.handshake.state = "login"
            self.start(log_in(self, arguments))
        elif self.handshake.state == "open" and method == methods.CONNECTION_OPEN:
            self.handshake.state = "opening"
            self.start(open_host(self, arguments[0]))
        else:
            reply = self.handshake.take(method, arguments)
            if reply:
                self.write(reply)
            if method == methods.CONNECTION_TUNE_OK:
                self._heartbeats.begin(self.handshake.heartbeat_s)

    def _take_unopened(self, kind: int, number: int, data: bytes, at: int, stop: int) -> None:
        if kind != METHOD:
            raise AmqpError(errors.CHANNEL_ERROR, "expected 'channel.open'")
        method, _ = decode_method(data, at, stop)
        if method in (methods.CHANNEL_CLOSE_OK, methods.CHANNEL_CLOSE):
            if method == methods.CHANNEL_CLOSE:
                self.write(method_frame(number, methods.CHANNEL_CLOSE_OK))
            return
        if method != methods.CHANNEL_OPEN:
            raise AmqpError(errors.CHANNEL_ERROR, "expected 'channel.open'", method)
        most = self.handshake.channel_max or CHANNELS_MAX
        if len(self.channels) >= most:
            text = f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max ({most})"
            raise AmqpError(errors.NOT_ALLOWED, text, method)
        self.channels[number] = Channel(self, number)
        self.write(method_frame(number, methods.CHANNEL_OPEN_OK, b""))

    def _take_method(self, channel: Channel, data: bytes, at: int, stop: int) -> None:
        if channel.content is not None:
            raise AmqpError(errors.UNEXPECTED_FRAME, "expected the content of basic.publish, got a method instead")
        method, arguments = decode_method(data, at, stop)
        if channel.is_closing:
            if method == methods.CHANNEL_CLOSE_OK:
                self.channels.pop(channel.number, None)
            elif method == methods.CHANNEL_CLOSE:
                self.channels.pop(channel.number, None)
                self.write(method_frame(channel.number, methods.CHANNEL_CLOSE_OK))
            return
        if method == methods.BASIC_PUBLISH:
            channel.content = Content(arguments)
            return
        channel.take(method, arguments, None)

    def _take_content_header(self, channel: Channel, payload: bytes) -> None:
        content = channel.content
        if content is None or content.properties is not None:
            if channel.is_closing:
                return
            raise AmqpError(errors.UNEXPECTED_FRAME, "expected a method, got a content header instead")
        class_id, size, properties = decode_content_header(payload)
        if class_id != methods.BASIC_CLASS:
            raise AmqpError(errors.UNEXPECTED_FRAME, f"expected a content header for class 60, got one for {class_id}")
        if size > self.server.message_bytes_max:
            channel.content = None
            text = f"message size {size} is larger than configured max size {self.server.message_bytes_max}"
            self.fail(channel, errors.precondition(text), methods.BASIC_PUBLISH)
            return
        content.properties = properties
        content.left = size
        if not size:
            self._published(channel, content)

    def _take_body(self, channel: Channel, payload: bytes) -> None:
        content = channel.content
        if content is None or content.properties is None:
            if channel.is_closing:
                return
            raise AmqpError(errors.UNEXPECTED_FRAME, "expected a method or a content header, got a body instead")
        content.left -= len(payload)
        if content.left < 0:
            raise AmqpError(errors.FRAME_ERROR, "a content body is longer than announced")
        if content.left == 0:
            self._bodies.drop(content)
            content.body = payload if not content.parts else b"".join([*content.parts, payload])
            self._published(channel, content)
        else:
            content.parts.append(payload)
            self._bodies.hold(content, len(payload))

    def _published(self, channel: Channel, content: Content) -> None:
        channel.content = None
        if not channel.is_closing:
            channel.take(methods.BASIC_PUBLISH, content.arguments, content)

    # Methods

    def handle(
        self, channel: Channel, method: int, arguments: Arguments, content: Content | None
    ) -> Coroutine[Any, Any, None] | None:
        """Handle a method of a channel: now, or by the coroutine that is returned."""
        self.requests += 1
        handler = HANDLERS.get(method)
        if handler is None:
            if method == methods.CHANNEL_OPEN:
                raise AmqpError(errors.CHANNEL_ERROR, "second 'channel.open' seen", method)
            raise AmqpError(errors.COMMAND_INVALID, f"'{METHODS[method].name}' is not for servers", method)
        if method not in (methods.BASIC_PUBLISH, methods.BASIC_ACK):
            self.publisher.flush()
            if method not in (methods.BASIC_NACK, methods.BASIC_REJECT):
                self.acknowledgements.flush()
            if self.pace.limits.active and method in MANAGING:
                self.pace.charge(self.caller, MANAGE, "")
        return handler(channel, arguments, content)

    def fail(self, channel: Channel, error: AmqpError, method: int = 0) -> None:
        """Close a channel, or the connection, because of an error."""
        error.method = error.method or method
        if not error.closes_channel:
            self.refuse(error)
            return
        if channel.is_closing or self.is_over or self.channels.get(channel.number) is not channel:
            return
        channel.is_closing = True
        if channel.content is not None:
            self._bodies.drop(channel.content)
        channel.abandon()
        self.start(self.leave(channel))
        self.server.note_refusal(error)
        class_id, method_id = error.method >> 16, error.method & 0xFFFF
        self.write(
            method_frame(channel.number, methods.CHANNEL_CLOSE, error.reply, error.short_text, class_id, method_id)
        )

    async def leave(self, channel: Channel) -> None:
        """End the consumers of a channel, and give back what it holds."""
        keys = [consumer.key for consumer in channel.consumers.values() if consumer.key]
        channel.consumers.clear()
        for key in keys:
            self.consumers.pop(key, None)
        held = [*channel.unacknowledged.values(), *(one for _, ended in channel.transaction_ends for one in ended)]
        channel.unacknowledged.clear()
        channel.transaction.clear()
        channel.transaction_ends.clear()
        await self.acknowledgements.give_back(keys, held)

    def refuse(self, error: AmqpError) -> None:
        """Close the connection because of an error."""
        if self.is_over or self.is_closing:
            return
        self.server.note_refusal(error)
        if self.handshake.state in ("header", "start", "login", "tune") and not self.handshake.tells(error):
            self.close()
            return
        self.is_closing = True
        for channel in self.channels.values():
            channel.abandon()
        self._bodies.leave()
        class_id, method_id = error.method >> 16, error.method & 0xFFFF
        self.write(method_frame(0, methods.CONNECTION_CLOSE, error.reply, error.short_text, class_id, method_id))
        self._await_end()

    def force(self, text: str) -> None:
        """Close the connection because the node stops or an operator wants it."""
        if self.handshake.state == "running":
            self.refuse(AmqpError(errors.CONNECTION_FORCED, text))
        else:
            self.close()

    def opened(self, host: str, caller: Caller) -> None:
        """The client is logged in and has its virtual host: channels may be opened."""
        self.host, self.caller = host, caller
        self._bodies.authenticate()
        self.handshake.state = "running"
        self.write(method_frame(0, methods.CONNECTION_OPEN_OK, ""))

    async def _close_politely(self) -> None:
        """End everything that the client has before the close is confirmed, so that others find it ended."""
        try:
            for channel in list(self.channels.values()):
                channel.abandon()
                await self.leave(channel)
            await self.acknowledgements.delete_queues(list(self.owned))
        finally:
            self.write(method_frame(0, methods.CONNECTION_CLOSE_OK))
            self._await_end()

    def _await_end(self) -> None:
        """Let the client end the connection, and ignore what it still sends: our end could cost it the last frame."""
        if self._transport is not None:
            if self._is_paused:
                self._transport.resume_reading()
            self._end = self._loop.call_later(CLOSE_S, self.close)

    # Sessions

    async def session(self) -> str:
        """The id of the session, when it is open."""
        if self._session is None:
            self._session_ready = self._loop.create_future()
            self._session = self.server.sessions.open(self.session_id, self)
        if not self._session.is_ready:
            assert self._session_ready is not None
            await asyncio.shield(self._session_ready)
        return self.session_id

    @property
    def is_writable(self) -> bool:
        """False while the client does not read what was sent, or is over a limit."""
        return self._is_writable and not self.is_over and not self.pace.pushes_held

    def push(self, push: PushedMessages) -> None:
        """Messages for a consumer."""
        take_push(self, push, push.consumer == DIRECT)

    def push_failed(self, consumer: int, error: LonghallError) -> None:
        """Messages of a consumer cannot be opened, and go back: its channel is closed."""
        if consumer in self.consumers:
            self.fail(self.consumers[consumer][0], errors.error_of(error))

    def session_opened(self) -> None:
        """Open the consumers at a leader that does not know them."""
        if self._session_ready is not None and not self._session_ready.done():
            self._session_ready.set_result(None)
        for channel in self.channels.values():
            if channel.limit:
                left = channel.limit - len(channel.unacknowledged)
                self.service.call(LimitChannel(self.session_id, channel.number, left), self.caller)
        for key, (channel, one) in list(self.consumers.items()):
            opened = self.service.call(one.operation(self.session_id, channel.number), self.caller)
            opened.when_done(partial(self._consumer_opened, key, one.queue))

    def _consumer_opened(self, key: int, queue: str, done: Pending[None]) -> None:
        if done.error is not None:
            self.push(PushedMessages(key, queue, []))  # The client is told that it is cancelled.

    def session_lost(self) -> None:
        """The leader is gone: consumers are opened again at the next one."""
        self._session_ready = self._loop.create_future()

    # Writing

    def write(self, frames: bytes) -> None:
        """Send frames at the end of this turn of the loop."""
        if self._transport is not None:
            self._out.append(frames)
            if not self._is_flushing:
                self._is_flushing = True
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
            self._heartbeats.sent_s = self._loop.time()
        self._out.clear()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that ends with the connection."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a method failed", extra={"peer": self.peer}, exc_info=task.exception())
            self.refuse(AmqpError(errors.INTERNAL_ERROR, "an internal error closed the connection"))

    # Heartbeats and the end

    def _is_gone(self) -> bool:
        if self._is_paused:
            return False
        _log.info("a client has sent no heartbeat", extra={"peer": self.peer})
        self.abort()
        return True

    def _handshake_over(self) -> None:
        if self.handshake.state != "running":
            self.close()

    @property
    def principal(self) -> Principal | None:
        """The user that has logged in; None before."""
        return self.handshake.principal

    @property
    def is_owed(self) -> bool:
        """True if a confirm is outstanding."""
        return self.publisher.is_busy

    def stop_reading(self) -> None:
        """Take no more methods."""
        if self._transport is not None:
            self._transport.pause_reading()

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        self.is_over = True

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
