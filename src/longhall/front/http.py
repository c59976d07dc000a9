"""One HTTP/1.1 connection: requests with bodies in, answers out, in the order of the requests.

    received bytes -> RequestReader -> BodyAdmission -> `gate.serve(call)` -> ... -> `call.ready(answer)` -> slots
    -> one write

Invariants. Everything that a client can make grow has a bound: heads and bodies (`front.http_request`), requests under
way, answers that the client does not read and, through the gate's budget, the bodies and answers of all connections
together (`front.http_bodies`). Answers leave in the order of the requests; those that are ready in one turn of the
loop leave in one write. The states are in `front.http_states`.

The connection does not know what a request asks for, and it has no timers: the gate compares `arriving_since_s`,
`stalled_since_s` and `active_s` with its timeouts and calls `abort`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast, final

from longhall.front.admission import SHORT_READ_BYTES, SMALL_BYTES_MAX
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.http_bodies import BodyAdmission
from longhall.front.http_request import RequestReader
from longhall.front.http_states import (
    CLOSED,
    CLOSING,
    HELD,
    IDLE,
    LAST,
    LINGERING,
    OPEN,
    PAUSED,
    READING,
    REFUSED,
    SCHEDULED,
    STOPPED,
)
from longhall.front.identity import Principal
from longhall.front.origins import Origin, client_address, origin_of

SLOTS_MAX: Final = 32  # Requests of one connection that are under way; more of them wait, unread where that can be.
WRITE_BYTES_HIGH: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024

# The receive buffer of all connections of a process, one after another: the parser copies what it keeps.
_shared: Final = memoryview(bytearray(READ_BYTES))


def factory_of(gate: HttpGate, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.BaseProtocol]:
    """The protocol factory of a listener."""
    return lambda: cast(asyncio.BaseProtocol, HttpConnection(gate, loop))


@final
class HttpConnection:
    """The transport's protocol, the state of the connection, and the slots: requests under way, in their order.

    Invariant: the first slot is the next answer on the wire. It has the methods of `asyncio.BufferedProtocol` without
    its class, so that mypyc can compile it.
    """

    def __init__(self, gate: HttpGate, loop: asyncio.AbstractEventLoop) -> None:
        self.gate = gate
        self.loop = loop
        self.peer = ""
        self.origin: Origin | None = None  # What TLS or a balancer says of the client.
        self.principal: Principal | None = None  # Whose request was the last, if the server keeps that.
        self.state = OPEN
        self.active_s = 0.0  # The time of the last whole request or of the last answer.
        self.stalled_since_s = 0.0  # Since when the client has not read what was written; 0 if it reads.
        self._transport: asyncio.Transport | None = None
        self._reading = READING
        self._writing = IDLE
        self._slots: deque[HttpCall] = deque()
        self._unsent_bytes = 0  # Of the budget, for answers that were written and that the client has not read.
        self._bodies = BodyAdmission(self, gate.budget)
        self._reader = RequestReader(self, self._bodies)

    @property
    def requests(self) -> int:
        """Whole requests so far."""
        return self._reader.count

    @property
    def arriving_since_s(self) -> float:
        """Since when a request has been arriving; 0 if none is."""
        return self._reader.arriving_since_s

    @property
    def is_kept_waiting(self) -> bool:
        """True if reading is paused, so that it is not the client's fault that nothing arrives."""
        return self._reading != READING

    @property
    def idle(self) -> bool:
        """True if no request is under way."""
        return not self._slots and not self._bodies.waiting

    @property
    def is_owed(self) -> bool:
        """True if an answer is outstanding to a request that the client cannot simply repeat at another node."""
        return bool(self._bodies.waiting) or any(call.answer is None and call.on_close is None for call in self._slots)

    def know(self) -> None:
        """The client has authenticated, or need not: its bodies count in the main budget from now on."""
        self._bodies.authenticate()

    # Calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's transports have its methods and not its class.
        self._transport = stream
        stream.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.peer = client_address(transport)
        self.origin = origin_of(transport)
        self.active_s = self.loop.time()
        if transport.get_extra_info("carried"):  # Another node forwards it, and has authenticated the client.
            self.know()
        if not self.gate.opened(self):
            stream.write(self.gate.refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.state = CLOSED
        self._transport = None
        self._bodies.drop_arrival()
        held_bytes = self._unsent_bytes + self._bodies.drop_waiting()
        self._unsent_bytes = 0
        for call in self._slots:
            held_bytes += call.held_bytes
            if call.answer is None and call.on_close is not None:
                call.on_close()
        self._slots.clear()
        if held_bytes:
            self.gate.budget.give(held_bytes)
        self.gate.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        share = self._bodies.share
        return _shared[:SHORT_READ_BYTES] if share.used_bytes >= share.bytes_max else _shared

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(_shared[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Parse and serve; also called directly by loops that know buffered protocols only by their class."""
        if self.state != OPEN:
            return
        writing = self._writing
        self._writing = HELD
        self._reader.feed(data)
        self._writing = writing
        if self._slots and self._slots[0].answer is not None:
            self._flush()
        bodies = self._bodies
        if bodies.arrival is not None and bodies.lacks_room():
            bodies.wait_for_room()
        elif bodies.is_out_of_memory or bodies.waiting or len(self._slots) >= SLOTS_MAX:
            self.regulate()

    def eof_received(self) -> bool:
        """True keeps the connection open for its answers. A receiver that hangs up must not get messages."""
        if self.state < LINGERING:
            self.state = LAST
        receives = any(call.answer is None and call.on_close is not None for call in self._slots)
        return not self.idle and not receives

    def pause_writing(self) -> None:
        self.stalled_since_s = self.loop.time()
        self.regulate()

    def resume_writing(self) -> None:
        self.stalled_since_s = 0.0
        if self._unsent_bytes:
            self.gate.budget.give(self._unsent_bytes)
            self._unsent_bytes = 0
        self.regulate()
        self._flush_soon()

    # Requests

    def begin(self, call: HttpCall) -> None:
        """Serve a whole request, or let it wait for memory or for a slot."""
        bodies = self._bodies
        if bodies.is_out_of_memory:
            bodies.waiting.append(call)
        elif not bodies.admit(call):
            bodies.waiting.append(call)
            bodies.wait_for_room()
        elif bodies.waiting or len(self._slots) >= SLOTS_MAX:
            bodies.waiting.append(call)
        else:
            self._slots.append(call)
            self.gate.serve(call)
            if call.closes and self.state == OPEN:  # The server may say so too.
                self.state = LAST

    def _begin_waiting(self) -> None:
        """Serve the requests that wait, as far as memory and slots allow."""
        bodies = self._bodies
        while bodies.waiting and len(self._slots) < SLOTS_MAX and not self.stalled_since_s:
            call = bodies.waiting[0]
            if not call.held_bytes and call.body and not bodies.admit(call):
                bodies.wait_for_room()
                return
            bodies.waiting.popleft()
            self._slots.append(call)
            self.gate.serve(call)
            if call.closes:
                if self.state == OPEN:
                    self.state = LAST
                self._drop_waiting()

    def _drop_waiting(self) -> None:
        """Discard the requests that wait: the last answer comes before them."""
        held_bytes = self._bodies.drop_waiting()
        self._bodies.drop_arrival()
        if held_bytes:
            self.gate.budget.give(held_bytes)

    def resume_requests(self) -> None:
        """The budget has room again, for a part of what waits at least."""
        bodies = self._bodies
        bodies.is_out_of_memory = False
        if self.state >= LINGERING:
            return
        self._begin_waiting()
        if bodies.is_out_of_memory:
            return
        self._reader.restart_clock()
        self.regulate()
        self._flush_soon()

    def give_up(self) -> None:
        """Memory is short, and admission gives this connection's bodies up."""
        status, line = HTTPStatus.SERVICE_UNAVAILABLE, "too much is arriving at once; try again later"
        if self.state != LAST:
            self.refuse(status, line)
            self._drop_waiting()
        elif self._bodies.has_unadmitted():
            self._answer_last(status, line)
        else:
            self._bodies.drop_arrival()  # A body that the client broke off.

    def regulate(self) -> None:
        """Read only while there is room for what comes."""
        transport = self._transport
        if transport is None or self.state >= LINGERING or self._reading == STOPPED:
            return
        bodies = self._bodies
        is_full = len(self._slots) >= SLOTS_MAX or bool(bodies.waiting)
        pause = is_full or bodies.is_out_of_memory or self.stalled_since_s > 0.0
        if pause and self._reading == READING:
            self._reading = PAUSED
            transport.pause_reading()
        elif not pause and self._reading == PAUSED:
            self._reading = READING
            self._reader.restart_clock()
            transport.resume_reading()

    def stop_reading(self) -> None:
        """Take no more requests; the answers to those that came still leave."""
        if self._transport is None or self.state >= LINGERING:
            return
        if self._reading == READING:
            self._transport.pause_reading()
        self._reading = STOPPED

    # Answers

    def answer_interim(self, answer: bytes) -> None:
        """Send an answer without a request of its own, before that of the request that arrives."""
        interim = HttpCall(self, b"", b"", {})
        interim.answer = answer
        self._slots.append(interim)

    def refuse(self, status: HTTPStatus, line: str) -> None:
        """Answer what is no proper request, after all requests before it, and close."""
        if self.state == OPEN:
            self.state = REFUSED
            self._answer_last(status, line)

    def _answer_last(self, status: HTTPStatus, line: str) -> None:
        call = HttpCall(self, b"", b"", {})
        call.answer = self.gate.refusal(status, line)
        call.closes = True
        self._drop_waiting()
        self._slots.append(call)
        self._flush_soon()

    def answered(self, call: HttpCall, size_bytes: int) -> None:
        """An answer is ready. A large one counts until the client has read it, even beyond the budget."""
        if size_bytes > SMALL_BYTES_MAX and self.state < LINGERING:
            call.held_bytes += size_bytes
            self.gate.budget.used_bytes += size_bytes
        if self._slots and self._slots[0] is call:
            alone = len(self._slots) == 1 and not self._bodies.waiting  # No other answer could share its write.
            if alone and self._writing == IDLE and self.state < LINGERING:
                self._flush()
            else:
                self._flush_soon()

    def _flush_soon(self) -> None:
        if self._writing == IDLE and self.state < LINGERING:
            self._writing = SCHEDULED
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._writing = IDLE
        transport = self._transport
        if transport is None or self.state >= LINGERING:
            return
        slots = self._slots
        out: list[bytes] = []
        freed_bytes = 0
        closes = False
        now_s = self.loop.time()
        while slots and slots[0].answer is not None and not self.stalled_since_s:
            call = slots.popleft()
            assert call.answer is not None
            out.append(call.answer)
            freed_bytes += call.held_bytes
            if call.action:
                self.gate.observe(call, now_s)
            if call.closes:
                closes = True
                break
        if out:
            self.active_s = now_s
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self.stalled_since_s:
            self._unsent_bytes += freed_bytes
        elif freed_bytes:
            self.gate.budget.give(freed_bytes)
        bodies = self._bodies
        if bodies.waiting and not bodies.is_out_of_memory and not closes:
            self._begin_waiting()
            self._flush_soon()
        if closes and self.state == REFUSED:
            self._linger()
        elif closes or (self.state != OPEN and not slots and not bodies.waiting):
            self.close()
        elif self._reading != READING:
            self.regulate()

    # The end

    def _linger(self) -> None:
        """Send the end, and read on without parsing until the client ends too."""
        self.state = LINGERING
        self.stalled_since_s = self.loop.time()
        if self._transport is not None:
            self._transport.write_eof()
            if self._reading != READING:
                self._reading = READING
                self._transport.resume_reading()  # A paused transport does not report the client's end.

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        if self.state != CLOSED:
            self.state = CLOSING
        self.stalled_since_s = self.loop.time()  # The answer timeout applies to what is left to send.
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection and discard what was not sent."""
        if self.state != CLOSED:
            self.state = CLOSING
        if self._transport is not None:
            self._transport.abort()
