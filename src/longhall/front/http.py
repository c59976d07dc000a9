"""One HTTP/1.1 connection: requests with bodies in, answers out, in the order of the requests.

    received bytes -> parser -> `gate.serve(call)` -> ... -> `call.ready(answer)` -> slots -> one write

Invariants. Everything a client can make grow has a bound: the head, the headers, the body, what is under way, what it
does not read, and, through the gate's budget, all bodies and answers of all connections together; bodies are counted
as they arrive, whatever their heads announce. Where a request
ends is never in doubt: what could be read in two ways (two lengths, a length beside chunks, a second host, a folded
line, a bare line feed) is refused and the connection closed. Answers leave in the order of the requests; those that are
ready in one turn of the loop leave in one write. It knows nothing of what is asked.

Time is the gate's: it looks at `arriving_since_s`, `stalled_since_s` and `active_s` now and then and calls `abort`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, cast, final

import httptools

from longhall.front.admission import SHORT_READ_BYTES, SMALL_BYTES_MAX, Arrival, Budget
from longhall.front.calls import HttpCall, HttpGate

HEAD_BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 100
CHUNKING_BYTES_MAX: Final = 64 * 1024  # Beside twice the body: sizes and ends of chunks, and trailers.
SLOTS_MAX: Final = 32  # Requests of one connection that are under way; more of them wait, unread where that can be.
WRITE_BYTES_HIGH: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024

# Where all connections of a process receive, one after another: the parser copies what it keeps.
_shared: Final = memoryview(bytearray(READ_BYTES))
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# Headers that decide what a request is: two of them are one request to us and another one to somebody else.
_ONCE: Final = frozenset(
    {b"authorization", b"content-length", b"content-type", b"expect", b"host", b"transfer-encoding"}
)


def factory_of(gate: HttpGate, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.BaseProtocol]:
    """What a listener calls for each connection."""
    return lambda: cast(asyncio.BaseProtocol, HttpConnection(gate, loop))


@final
class HttpConnection:
    """See the module. Of the shape of `asyncio.BufferedProtocol`, and not of its class, so that it can be compiled."""

    def __init__(self, gate: HttpGate, loop: asyncio.AbstractEventLoop) -> None:
        self.peer = ""
        self.requests = 0
        self.active_s = 0.0  # When the last whole request came or the last answer left.
        self.arriving_since_s = 0.0  # Since when a request has been on its way here; 0 if none is.
        self.stalled_since_s = 0.0  # Since when the client has not read what we wrote; 0 if it reads.
        self._gate = gate
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._slots: deque[HttpCall] = deque()
        self._unadmitted: deque[HttpCall] = deque()  # Whole requests that wait for room in the budget.
        self._in_head = False
        self._in_body = False
        self._is_current = True  # Of HTTP/1.1 and not of 1.0.
        self._fed_bytes = 0  # Since the last thing that was understood: a request's head or its end.
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._arrival: Arrival | None = None  # What a body that is not whole yet, or bodies that wait, hold.
        self._pool: Budget = gate.budget.strangers  # Where they hold it.
        self._body_held_bytes = 0  # Of that, for the body that is not whole yet.
        self._known = False
        self._unsent_bytes = 0  # Of the budget, for answers that were written and not taken.
        self._receiving = False
        self._flushing = False
        self._paused = False
        self._wanting = False
        self._stopped = False
        self._refused = False
        self._ended = False  # The last request that will be answered is in the slots.
        self._client_ended = False  # Its end was seen: nothing more comes, and nothing more is said of it either.
        self._closing = False

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's are not of this class, only of its shape.
        self._transport = stream
        stream.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if isinstance(name, tuple) else str(name or "")
        self.active_s = self._loop.time()
        if transport.get_extra_info("carried"):  # By another node, which knows whose it is.
            self.know()
        if not self._gate.opened(self):
            stream.write(self._gate.refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._transport = None
        budget = self._gate.budget
        self._drop_arrival()
        held = self._unsent_bytes
        self._unsent_bytes = 0
        for call in self._unadmitted:
            held += call.held_bytes
        for call in self._slots:
            held += call.held_bytes
            if call.answer is None and call.on_close is not None:
                call.on_close()
        self._slots.clear()
        self._unadmitted.clear()
        self._pieces.clear()
        if held:
            budget.give(held)
        self._gate.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        budget = self._gate.budget
        if not self._known:
            budget = budget.strangers
        return _shared[:SHORT_READ_BYTES] if budget.used_bytes >= budget.bytes_max else _shared

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(_shared[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """The same for a loop that knows buffered protocols by their class alone."""
        if self._ended or self._closing:
            return
        if not self.arriving_since_s:
            self.arriving_since_s = self._loop.time()
        self._fed_bytes += len(data)
        self._receiving = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED, "nothing is upgraded here")
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
        if self._fed_bytes > HEAD_BYTES_MAX:
            self._bound()
        self._receiving = False
        if not self._in_head and not self._in_body and not self._fed_bytes:
            self.arriving_since_s = 0.0
        if self._slots and self._slots[0].answer is not None:
            self._flush()
        if self._arrival is not None and not self._wanting and not self._pool.has_room(self._arrival):
            self._want()
        elif self._wanting or self._unadmitted or len(self._slots) >= SLOTS_MAX:
            self._regulate()

    def _bound(self) -> None:
        """A head may not grow without end, nor what surrounds the chunks of a body and follows them."""
        if not self._in_body:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large")
        elif self._fed_bytes > 2 * self._body_bytes + CHUNKING_BYTES_MAX:
            self._refuse(HTTPStatus.BAD_REQUEST, "the body comes in too small pieces or with too much behind it")

    def eof_received(self) -> bool:
        # Who waits for messages and hangs up must not be given any; who asked for something else gets the answer.
        self._ended = self._client_ended = True
        waits = any(call.answer is None and call.on_close is not None for call in self._slots)
        return not self.idle and not waits

    def pause_writing(self) -> None:
        self.stalled_since_s = self._loop.time()
        self._regulate()

    def resume_writing(self) -> None:
        self.stalled_since_s = 0.0
        if self._unsent_bytes:
            self._gate.budget.give(self._unsent_bytes)
            self._unsent_bytes = 0
        self._regulate()
        self._flush_soon()

    # What the parser says.

    def on_message_begin(self) -> None:
        self._in_head = True
        self._target = b""
        self._lines = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer comes here as well, when the lines have been read: nothing behind a body changes what was asked.
        self._lines.append((name, value))

    def _read_headers(self) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {}
        size = len(self._target)
        for name, value in self._lines:
            size += len(name) + len(value) + 4
            name = name.lower()
            if name in headers:
                if name in _ONCE or name.startswith(b"x-amz-"):
                    self._refuse(HTTPStatus.BAD_REQUEST, "a header came twice that may come once")
                value = headers[name] + b"," + value
            headers[name] = value
        if size > HEAD_BYTES_MAX or len(self._lines) > HEADERS_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large")
        return headers

    def on_headers_complete(self) -> None:
        if self._ended:
            return
        self._in_head = False
        self._in_body = True
        self._fed_bytes = 0
        headers = self._headers = self._read_headers()
        if self._ended:
            return
        # Who is not of this version keeps a connection only if it says so, and asking that is cheaper than the version.
        self._is_current = b"connection" not in headers and self._parser.should_keep_alive()
        if not self._is_current:
            version = self._parser.get_http_version()
            self._is_current = version == "1.1"
            if not self._is_current and version != "1.0":
                self._refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")
                return
        if b"upgrade" in headers or self._parser.get_method() == b"CONNECT":
            # The parser would take the body for the other protocol, so the request cannot be answered as if it had not
            # asked.
            self._refuse(HTTPStatus.NOT_IMPLEMENTED, "nothing is upgraded here")
            return
        length = headers.get(b"content-length")
        if length is not None:
            if len(length) > 18 or int(length) > self._gate.body_bytes_max:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")
                return
        elif b"transfer-encoding" in headers:
            if not self._is_current:
                self._refuse(HTTPStatus.BAD_REQUEST, "HTTP/1.0 knows no transfer encoding")
                return
            if headers[b"transfer-encoding"].strip().lower() != b"chunked":
                self._refuse(HTTPStatus.NOT_IMPLEMENTED, "no transfer encoding but chunked is known")
                return
            if not self._gate.body_bytes_max:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "nothing here takes a body")
                return
        if b"host" not in headers and self._is_current:
            self._refuse(HTTPStatus.BAD_REQUEST, "a request names its host")
            return
        if b"expect" in headers:
            self._expect(headers[b"expect"])

    def _expect(self, expectation: bytes) -> None:
        if expectation.strip().lower() != b"100-continue":
            self._refuse(HTTPStatus.EXPECTATION_FAILED, "nothing can be expected but 100-continue")
            return
        interim = HttpCall(self, b"", b"", {})
        interim.answer = _CONTINUE
        self._slots.append(interim)

    def on_body(self, piece: bytes) -> None:
        if self._ended:
            return
        self._body_bytes += len(piece)
        if self._body_bytes > self._gate.body_bytes_max:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")
            return
        self._pieces.append(piece)
        if self._body_bytes > SMALL_BYTES_MAX:
            self._hold(self._body_bytes - self._body_held_bytes)

    def on_message_complete(self) -> None:
        if self._ended:
            return
        self._in_body = False
        self._fed_bytes = 0
        call = HttpCall(self, self._parser.get_method(), self._target, self._headers)
        pieces = self._pieces
        if pieces:
            call.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._pieces = []
        self.arriving_since_s = 0.0
        self.requests += 1
        self.active_s = call.started_s = self._loop.time()
        if not self._is_current or not self._parser.should_keep_alive():
            call.closes = True
            self._ended = True
        if self._wanting or not self._admit(call):
            self._body_bytes = self._body_held_bytes = 0
            self._unadmitted.append(call)
            if not self._wanting:
                self._want()
            return
        self._body_bytes = self._body_held_bytes = 0
        if self._unadmitted or len(self._slots) >= SLOTS_MAX:
            self._unadmitted.append(call)
            return
        self._slots.append(call)
        self._gate.serve(call)
        if call.closes:
            self._ended = True  # The gate may say so as well: nothing behind is served that nobody will answer.

    # Admission.

    def know(self) -> None:
        """Its client has shown who it is, or need not: bodies to come count like those of all others."""
        self._known = True

    def _hold(self, size_bytes: int) -> None:
        """So many more bytes of a body are here."""
        arrival = self._arrival
        if arrival is None:
            self._pool = self._gate.budget if self._known else self._gate.budget.strangers
            arrival = self._arrival = Arrival(self._resume, self._give_up)
        self._body_held_bytes += size_bytes
        arrival.came_bytes += size_bytes
        self._pool.hold(arrival, size_bytes)

    def _admit(self, call: HttpCall) -> bool:
        """Whether a whole request may be served as far as memory goes. Its body is counted as held by the call then."""
        budget = self._gate.budget
        size = len(call.body)
        arrival = self._arrival
        if arrival is None or size <= SMALL_BYTES_MAX:
            call.held_bytes = size
            return budget.take(size)  # A large body has an arrival, and what is small is always let in.
        if self._pool is not budget:  # Of a stranger: from here on it is a request like any other.
            held = arrival.held_bytes
            self._pool.leave(arrival)
            self._pool = budget
            budget.hold(arrival, held)
        if not budget.has_room(arrival):
            return False
        call.held_bytes = size
        budget.settle(arrival, size)
        if not arrival.held_bytes:  # Else there are other bodies, which wait as before.
            self._arrival = None
        return True

    def _want(self) -> None:
        """There is no room in the budget: read nothing until there is."""
        arrival = self._arrival
        assert arrival is not None
        self._wanting = True
        self._regulate()
        self._pool.wait(arrival)

    def _resume(self) -> None:
        """There is room again, for some of what waits at least."""
        self._wanting = False
        if self._closing:
            return
        self._serve_waiting()
        if self._wanting:
            return
        if self.arriving_since_s:
            self.arriving_since_s = self._loop.time()  # It was we who kept it waiting.
        self._regulate()
        self._flush_soon()

    def _give_up(self) -> None:
        """Memory is short, and others come first."""
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too much is arriving at once; try again later")
        self._drop_arrival()

    def _drop_arrival(self) -> None:
        arrival, self._arrival = self._arrival, None
        self._wanting = False
        self._body_held_bytes = 0
        self._pieces.clear()
        if arrival is not None:
            self._pool.leave(arrival)

    def _serve_waiting(self) -> None:
        """Whole requests that found no room in the budget or no slot, as far as there is some now."""
        while self._unadmitted and len(self._slots) < SLOTS_MAX and not self.stalled_since_s:
            call = self._unadmitted[0]
            if not call.held_bytes and call.body and not self._admit(call):
                self._want()
                return
            self._unadmitted.popleft()
            self._slots.append(call)
            self._gate.serve(call)
            if call.closes:
                self._ended = True
                self._drop_waiting()

    def _drop_waiting(self) -> None:
        """Those that still wait for room will not be answered: what is before them is the last."""
        held = sum(call.held_bytes for call in self._unadmitted)
        self._unadmitted.clear()
        self._drop_arrival()
        if held:
            self._gate.budget.give(held)

    @property
    def is_kept_waiting(self) -> bool:
        """Whether it is ours and not the client's fault that nothing arrives."""
        return self._paused

    def _regulate(self) -> None:
        """Read only while there is room for what comes."""
        transport = self._transport
        if transport is None or self._closing:
            return
        full = len(self._slots) >= SLOTS_MAX or bool(self._unadmitted)
        stop = self._stopped or self._wanting or self.stalled_since_s > 0.0 or full
        if stop and not self._paused:
            self._paused = True
            transport.pause_reading()
        elif not stop and self._paused:
            self._paused = False
            if self.arriving_since_s:
                self.arriving_since_s = self._loop.time()
            transport.resume_reading()

    # Answering.

    def _refuse(self, status: HTTPStatus, line: str) -> None:
        """Answer what is no proper request, after all that came before it, and end."""
        if self._ended:
            return
        self._ended = self._refused = True
        call = HttpCall(self, b"", b"", {})
        call.answer = self._gate.refusal(status, line)
        call.closes = True
        self._drop_waiting()
        self._slots.append(call)
        self._flush_soon()

    def answered(self, call: HttpCall, size_bytes: int) -> None:
        """An answer is ready. A large one counts until the client took it, though nothing can be refused by now."""
        if size_bytes > SMALL_BYTES_MAX and not self._closing:
            call.held_bytes += size_bytes
            self._gate.budget.used_bytes += size_bytes
        if self._slots and self._slots[0] is call:
            alone = len(self._slots) == 1 and not self._unadmitted  # Nothing could leave with it, or be served behind.
            if alone and not self._receiving and not self._flushing and not self._closing:
                self._flush()
            else:
                self._flush_soon()

    def _flush_soon(self) -> None:
        # What is answered while bytes are being read leaves when they are.
        if not self._flushing and not self._receiving and not self._closing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if transport is None or self._closing:
            return
        slots = self._slots
        out: list[bytes] = []
        freed = 0
        closes = False
        now_s = self._loop.time()
        while slots and slots[0].answer is not None and not self.stalled_since_s:
            call = slots.popleft()
            assert call.answer is not None
            out.append(call.answer)
            freed += call.held_bytes
            if call.action:
                self._gate.observe(call, now_s)
            if call.closes:
                closes = True
                break
        if out:
            self.active_s = now_s
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self.stalled_since_s:
            self._unsent_bytes += freed
        elif freed:
            self._gate.budget.give(freed)
        if self._unadmitted and not self._wanting and not closes:
            self._serve_waiting()
            self._flush_soon()
        if closes and self._refused:
            self._linger()
        elif closes or (self._ended and not slots and not self._unadmitted):
            self.close()
        elif self._paused:
            self._regulate()

    # The end.

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._slots and not self._unadmitted

    @property
    def is_owed(self) -> bool:
        """Whether an answer is outstanding that a client cannot simply ask for again elsewhere."""
        return bool(self._unadmitted) or any(call.answer is None and call.on_close is None for call in self._slots)

    def stop_reading(self) -> None:
        """Take no more requests; the answers to those that came still go out."""
        self._stopped = True
        self._regulate()

    def _linger(self) -> None:
        """End our side and let the client see why: closing with its bytes unread would take the answer from it."""
        if self._client_ended:  # All its bytes are read, and no second end would come to let go of it.
            self.close()
            return
        self._closing = True
        self.stalled_since_s = self._loop.time()
        if self._transport is not None:
            self._transport.write_eof()
            if self._paused:
                self._paused = False
                self._transport.resume_reading()  # Else its end would not be seen either.

    def close(self) -> None:
        """Hang up; what was written still goes out."""
        self._closing = True
        self.stalled_since_s = self._loop.time()  # From here on the client has to take what is left.
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Let go at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
