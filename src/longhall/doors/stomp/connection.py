"""One connection of the STOMP door: bytes to frames, the order of frames, and the life of the connection.

    state        waits for                 then
    new          CONNECT or STOMP          version and login are checked
    connecting   the virtual host          CONNECTED is sent
    connected    every other frame         DISCONNECT, or an error that closes
    closing      the end of the client     closed (an ERROR or the receipt of DISCONNECT was sent; the rest is ignored)

A frame that has to wait runs as a task, and those behind it wait for it; SEND, ACK and NACK need no task. What is sent
in one pass over received bytes is one call of the service; what is written in one turn of the loop is one write.
Whatever bytes come, an ERROR answers them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, cast, final

from longhall.cluster.rpc.operation import Caller
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.stomp.consumption import Consumption
from longhall.doors.stomp.errors import VERSIONS, StompError, foreign_bytes, stomp_error
from longhall.doors.stomp.handlers import HANDLERS, connect
from longhall.doors.stomp.heart_beat import HeartBeats
from longhall.doors.stomp.publisher import StompPublisher
from longhall.doors.stomp.transactions import StompTransactions
from longhall.doors.stomp.wire.frames import (
    CONTENT_LENGTH,
    HEART_BEAT,
    V1_0,
    FrameDecoder,
    MalformedFrame,
    StompFrame,
    encode_frame,
)
from longhall.errors import LonghallError
from longhall.exchanges.field_table import MalformedTable
from longhall.exchanges.names import DEFAULT_HOST
from longhall.front.admission import SMALL_BYTES_MAX, Arrival
from longhall.front.handshake_refusals import looks_like_tls, note_tls
from longhall.front.identity import Principal
from longhall.front.origins import Origin, client_address, origin_of
from longhall.front.pace import ConnectionPace

if TYPE_CHECKING:
    from longhall.doors.stomp.server import StompServer

WRITE_BYTES_HIGH: Final = 1024 * 1024
WORK_MAX: Final = 256  # Frames that wait for the one before; beyond it the connection is not read.
CLOSE_S: Final = 2.0  # How long the client has to end its side after an ERROR that closes.

NEW: Final = "new"
CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
CLOSING: Final = "closing"

_log = logging.getLogger("longhall.stomp")


@final
class StompConnection(asyncio.Protocol):
    """The protocol of one connection, over TCP or over a WebSocket."""

    def __init__(self, server: StompServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.service = server.service
        self.peer = ""
        self.origin: Origin | None = None  # What TLS or a balancer says of the client.
        self.host = DEFAULT_HOST
        self.user = ""
        self.principal: Principal | None = None  # Until the login.
        self.caller = Caller()
        self.version = V1_0
        self.state = NEW
        self.owned: dict[str, None] = {}  # Exclusive queues.
        self.is_over = False
        self.decoder = FrameDecoder()
        self.heart_beats = HeartBeats(loop, self._beat, self._silent)
        self.pace = ConnectionPace(server.rates, "stomp", loop, self._pace, lambda: self.consumption.readable())
        self.publisher = StompPublisher(self)
        self.consumption = Consumption(self)
        self.transactions = StompTransactions()
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._arrival = Arrival(self._resume, self._give_up)
        self._pool = server.budget.unauthenticated  # Where the frame that arrives counts.
        self._out: list[bytes] = []
        self._is_flushing = False
        self._is_writable = True
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._work: deque[StompFrame] = deque()
        self._task: asyncio.Task[None] | None = None

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BYTES_HIGH)
        self.peer = client_address(transport)
        self.origin = origin_of(transport)
        if not self.server.opened(self):
            self._transport.abort()
            return
        self._timer = self._loop.call_later(self.server.handshake_s, self._handshake_over)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end()
        self.server.closed(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self.consumption.readable()

    def data_received(self, data: bytes) -> None:
        self.heart_beats.received_s = self._loop.time()
        if self.is_over:
            return
        if self.state == NEW and looks_like_tls(data):
            note_tls("stomp", self.peer, data, self._loop.time())
            self.abort()
            return
        if self.state == NEW and not self.decoder.held_bytes:
            foreign = foreign_bytes(data)
            if foreign is not None:
                self.fail(foreign)
                return
        try:
            self.decoder.feed(data)
            while not self.is_over:
                frame = self.decoder.next()
                if frame is None:
                    break
                self._take(frame)
        except MalformedFrame as error:
            self.fail(StompError("Malformed frame", f"{error}\n", closes=True))
        except Exception:
            _log.exception("a connection failed", extra={"peer": self.peer})
            self.fail(StompError("Internal error", "an internal error closed the connection\n", closes=True))
        self._account()
        self.worked()

    # Admission

    def _account(self) -> None:
        """Count the bytes of the unfinished frame in the memory budget."""
        held = self.decoder.held_bytes if not self.is_over else 0
        held = held if held > SMALL_BYTES_MAX else 0
        arrival, budget = self._arrival, self._pool
        more = held - arrival.held_bytes
        if more > 0:
            arrival.came_bytes += more
            budget.hold(arrival, more)
        elif more < 0:
            budget.settle(arrival, -more)
            budget.give(-more)

    def _resume(self) -> None:
        self._pace()

    def _give_up(self) -> None:
        """Other connections need the memory of the frame that arrives."""
        self._pool.leave(self._arrival)
        self.fail(StompError("resource_error", "the memory for messages is used up; try again later\n", closes=True))

    def _pace(self) -> None:
        """Read no more while too much waits, or a frame that arrives has to wait for memory."""
        arrival, budget = self._arrival, self._pool
        if arrival.held_bytes and not arrival.is_waiting and not budget.has_room(arrival):
            budget.wait(arrival)  # May call `_resume` before it returns.
        crowded = arrival.is_waiting or self.publisher.batches.is_crowded or len(self._work) >= WORK_MAX
        crowded = (crowded or self.pace.reads_held) and not self.is_over
        if self._transport is not None and crowded != self._is_paused:
            self._is_paused = self.heart_beats.is_paused = crowded
            if crowded:
                self._transport.pause_reading()
            else:
                self.heart_beats.received_s = self._loop.time()
                self._transport.resume_reading()

    def worked(self) -> None:
        """Something that was waited for is done."""
        self.publisher.batches.flush()
        self.consumption.acknowledgements.flush()
        self._pace()

    # Frames

    def _take(self, frame: StompFrame) -> None:
        """Handle a frame, or let it wait for those before it."""
        if self._task is not None:
            self._work.append(frame)
            return
        self._begin(frame)

    def _begin(self, frame: StompFrame) -> None:
        try:
            outcome = self._handle(frame)
        except (StompError, AmqpError, LonghallError, MalformedTable) as error:
            self._refuse(frame, error)
            return
        if outcome is not None:
            self._task = self._loop.create_task(self._finish(frame, outcome))
            self._task.add_done_callback(self._done)

    def _handle(self, frame: StompFrame) -> Coroutine[Any, Any, None] | None:
        if frame.command in ("CONNECT", "STOMP"):
            return connect(self, frame)
        if self.state != CONNECTED:
            raise StompError("Illegal command", "You must log in using CONNECT first\n", closes=True)
        handler = HANDLERS.get(frame.command)
        if handler is None:
            raise StompError("Bad command", f'Could not interpret command "{frame.command[:100]}"\n')
        if frame.command != "SEND":
            self.publisher.batches.flush()
        return handler(self, frame)

    async def _finish(self, frame: StompFrame, outcome: Coroutine[Any, Any, None]) -> None:
        try:
            await outcome
        except (StompError, AmqpError, LonghallError, MalformedTable) as error:
            self._refuse(frame, error)
        finally:
            self._task = None
        while self._work and self._task is None and not self.is_over:
            self._begin(self._work.popleft())
        self.worked()

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.error("a frame failed", extra={"peer": self.peer}, exc_info=task.exception())
            self.fail(StompError("Internal error", "an internal error closed the connection\n", closes=True))

    def _refuse(self, frame: StompFrame, error: Exception) -> None:
        if isinstance(error, MalformedTable):
            error = StompError("Invalid header", f"{error}\n")
        elif isinstance(error, AmqpError | LonghallError):
            error = stomp_error(error)
        assert isinstance(error, StompError)
        receipt = frame.headers.get("receipt")
        if receipt is not None and not any(name == "receipt-id" for name, _ in error.headers):
            error.headers.append(("receipt-id", receipt))
        self.fail(error, frame.command)

    def fail(self, error: StompError, command: str = "connection") -> None:
        """Send an ERROR; the connection is closed if it says so."""
        if self.is_over:
            return
        self.server.note_refusal(command, error)
        headers = [("message", error.message), ("content-type", "text/plain"), ("version", VERSIONS), *error.headers]
        self.send("ERROR", headers, error.body.encode("utf-8", "replace"))
        if error.closes:
            self.finish()

    # Writing

    def send(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        """Send a frame at the end of this turn of the loop."""
        if body or command == "MESSAGE":
            headers.append((CONTENT_LENGTH, str(len(body))))
        self._write(encode_frame(command, headers, body, self.version))

    def send_receipt(self, receipt: str) -> None:
        """Send a RECEIPT, if the client asked for one."""
        if receipt and not self.is_over:
            self.send("RECEIPT", [("receipt-id", receipt)])

    def _write(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._out.append(data)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
            self.heart_beats.sent_s = self._loop.time()
        self._out.clear()

    @property
    def is_writable(self) -> bool:
        """False while the client does not read what was sent, or is over a limit."""
        return self._is_writable and not self.is_over and not self.pace.pushes_held

    @property
    def session_id(self) -> str:
        """The id of the session, which is in the name of every delivery."""
        return self.consumption.session_id

    # Heart-beats and the end

    def connected(self, send_ms: int, receive_ms: int) -> None:
        """The client is connected: heart-beats begin, and frames may be large."""
        self.state = CONNECTED
        if self._timer is not None:
            self._timer.cancel()
        self.decoder.version = self.version
        self.decoder.bytes_max = self.server.frame_bytes_max
        self._pool.leave(self._arrival)
        self._pool = self.server.budget
        self._account()
        self.heart_beats.start(send_ms, receive_ms)

    def _beat(self) -> None:
        self._write(HEART_BEAT)

    def _silent(self) -> None:
        _log.info("a client has sent no heart-beat", extra={"peer": self.peer})
        self.abort()

    def _handshake_over(self) -> None:
        if self.state != CONNECTED:
            self.close()

    @property
    def is_owed(self) -> bool:
        """True if a receipt is outstanding."""
        return self.publisher.batches.is_busy

    def stop_reading(self) -> None:
        """Take no more frames."""
        if self._transport is not None:
            self._transport.pause_reading()

    def finish(self) -> None:
        """Close the connection when the client has read what was sent, or after a while."""
        self.state = CLOSING
        transport = self._transport
        self._flush()
        self._end()
        if transport is None:
            return
        if self._is_paused:
            transport.resume_reading()  # What is not read would be a reset, and the client would not see the ERROR.
        transport.write_eof()
        self._timer = self._loop.call_later(CLOSE_S, self.abort)

    def _end(self) -> None:
        """Release everything; nothing is handled any more."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self.heart_beats.stop()
        self.pace.close()
        self._pool.leave(self._arrival)
        self.decoder = FrameDecoder()  # The client may stay for a while: what it has sent holds no memory.
        self._work.clear()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self.transactions.clear()
        self.consumption.close()

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        transport = self._transport
        if transport is not None:
            self._flush()
            transport.close()
        self._end()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
