"""One connection of the Kafka door: frames in, answers out, in the order of the requests.

Every request gets a slot; an answer waits in its slot until all earlier ones are ready, because the protocol promises
this order. Answers that become ready in one turn of the loop leave in one write. When too much is under way, or the
client does not read, the connection stops reading: requests that it has not read cost no memory.

    received bytes -> frames -> `serve(call)` -> ... -> `call.ready(buffers)` -> slots -> one write

A frame that does not fit the buffer which all connections share is received into pieces of its own, taken one after
another as its bytes come: an announced size costs no memory either. `front.admission` says what happens when there is
no room for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, cast, final

from mypy_extensions import mypyc_attr

from longhall.cluster.rpc.operation import Caller
from longhall.doors.kafka.sasl import SaslSession
from longhall.doors.kafka.wire.headers import RequestHeader
from longhall.front.admission import SHORT_READ_BYTES, SMALL_BYTES_MAX, Arrival, Budget
from longhall.front.handshake_refusals import note_tls
from longhall.front.identity import ANONYMOUS, caller_of, is_encrypted
from longhall.front.origins import Origin, client_address, origin_of
from longhall.world.ports import Buffer

SHARED_BYTES: Final = 256 * 1024
PIECE_BYTES_MIN: Final = 64 * 1024  # Of a large frame; the next one has four times what has come so far,
PIECE_BYTES_MAX: Final = 1024 * 1024 + 64 * 1024  # up to what the usual clients send at most in one request.
SLOTS_MAX: Final = 1024  # Requests of one connection that are under way.
WAITS_MAX: Final = 32  # Of these, requests that wait and may have a large answer.
ANSWERS_BYTES_MAX: Final = 16 * 1024 * 1024  # Answers that are ready and not sent: beyond this no request is taken.
WRITE_BYTES_HIGH: Final = 1024 * 1024
_numbers: Final = count(1)
NEVER_S: Final = 1e18
# Fetch, JoinGroup, SyncGroup, ShareFetch: they wait for other clients, and their clients repeat them.
WAITING_APIS: Final = (1, 11, 14, 78)


@final
class Call:
    """One request under way. `on_close` is called if the client goes away before the answer is ready."""

    __slots__ = ("at", "buffers", "connection", "frame", "header", "on_close", "started_s")

    def __init__(self, connection: Connection, header: RequestHeader, frame: bytes, started_s: float) -> None:
        self.connection = connection
        self.header = header
        self.frame = frame
        self.at = header.at
        self.started_s = started_s
        self.buffers: Sequence[Buffer] | None = None
        self.on_close: Callable[[], None] | None = None

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self.connection.peer

    @property
    def caller(self) -> Caller:
        """The client, for operations of the service."""
        connection = self.connection
        return caller_of(connection.principal, connection.peer, is_encrypted(connection.origin), door="kafka")

    def ready(self, buffers: Sequence[Buffer]) -> None:
        """The answer is complete; an empty one is for requests that are not answered."""
        assert self.buffers is None, "answered twice"
        self.buffers = buffers
        self.on_close = None
        self.connection.answered(self)


@final
class ForwardedCall:
    """A request that another process was asked: its handlers know no more of it than this."""

    __slots__ = ("caller", "header", "peer")

    def __init__(self, header: RequestHeader, caller: Caller) -> None:
        self.header = header
        self.caller = caller
        self.peer = caller.address


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """The server, as a connection sees it."""

    budget: Budget
    request_bytes_max: int
    shared: memoryview

    def opened(self, connection: Connection) -> bool:
        """Register a connection; False if there are too many."""
        raise NotImplementedError

    def closed(self, connection: Connection) -> None:
        """A connection is closed."""
        raise NotImplementedError

    def serve(self, connection: Connection, frame: bytes) -> None:
        """Handle one frame; must not raise."""
        raise NotImplementedError

    def take_buffer(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes for a piece of a request."""
        raise NotImplementedError

    def give_buffer(self, buffer: bytearray) -> None:
        """Return a buffer of `take_buffer`."""
        raise NotImplementedError

    def observe(self, call: Call, now_s: float) -> None:
        """The answer to a call leaves now."""
        raise NotImplementedError


@final
class Connection:
    """The protocol of one connection. It has the methods of `asyncio.BufferedProtocol` without being one: a subclass
    could not be compiled. Invariant: answers leave in the order of `_slots`.
    """

    def __init__(self, gate: Gate, loop: asyncio.AbstractEventLoop) -> None:
        self.number = next(_numbers)
        self.peer = ""
        self.origin: Origin | None = None  # What TLS or a balancer says of the client.
        self.active_s = 0.0  # When the last complete request came.
        self.requests = 0
        self.principal = ANONYMOUS
        self.sasl: SaslSession | None = None  # From the first request on.
        self.is_cleared = True  # False while the client must authenticate first.
        self.cleared_until_s = NEVER_S
        self._gate = gate
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._slots: deque[Call] = deque()
        self._held: dict[int, int] = {}  # Bytes of the budget by call.
        self._rest = b""
        self._large_size = 0  # Of the large frame that is arriving; 0 if none is.
        self._large_filled = 0
        self._pieces: list[bytearray] = []  # Of that frame; the last one is being filled.
        self._piece_filled = 0
        self._arrival: Arrival | None = None  # What a frame that is not served yet holds of the budget.
        self._parked_bytes = 0  # Of the budget, for frames that wait until something was answered.
        self._pool: Budget = gate.budget.unauthenticated
        self.arriving_since_s = 0.0  # When the frame that is arriving began; 0 if none is.
        self._serving = False
        self._flushing = False
        self._waits = 0
        self._ready_bytes = 0
        self._full = False  # Requests wait in `_rest` until there is room for their answers.
        self._holds = 0  # Reasons to take no requests: other topics come first, or the client is over its quota.
        self._paused_by_client = False
        self._paused = False
        self._wanting = False
        self._stopped = False
        self._closing = False

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's are not of this class, only of its shape.
        self._transport = stream
        stream.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self.peer = client_address(transport)
        self.origin = origin_of(transport)
        self.active_s = self._loop.time()
        if transport.get_extra_info("carried"):  # By another node, which knows whose it is.
            self._pool = self._gate.budget
        if not self._gate.opened(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._transport = None
        for call in self._slots:
            if call.buffers is None and call.on_close is not None:
                call.on_close()
        self._slots.clear()
        for size in self._held.values():
            self._gate.budget.give(size)
        self._held.clear()
        self._drop_arrival()
        self._gate.closed(self)

    def close(self) -> None:
        """Close the connection after the bytes that are written already."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    @property
    def idle(self) -> bool:
        """True if no request is under way."""
        return not self._slots

    @property
    def is_owed(self) -> bool:
        """True if an answer is outstanding to a request that the client cannot simply repeat at another node."""
        return self.owed_since_s < NEVER_S

    @property
    def owed_since_s(self) -> float:
        """The time since which such an answer is outstanding; NEVER_S if none is."""
        for call in self._slots:
            if call.buffers is None and call.header.api_key not in WAITING_APIS:
                return call.started_s
        return NEVER_S

    def stop_reading(self) -> None:
        """Take no more requests; those that came are still answered."""
        self._stopped = True
        self._regulate()

    def hold_back(self) -> None:
        """Take no more requests until `let_go` was called as often as this."""
        self._holds += 1
        self._regulate()

    def let_go(self) -> None:
        """One reason to hold back is over. After the last one take requests again, first those that have come."""
        assert self._holds > 0, "let go without a hold"
        self._holds -= 1
        if self._holds:
            return
        self.active_s = self._loop.time()  # Until now this side caused the silence.
        if self._closing:
            return
        self._take_rest()
        self._regulate()

    @property
    def mid_frame(self) -> bool:
        """True if a part of a request has arrived."""
        return self._large_size > 0 or bool(self._rest)

    def is_overdue(self, now_s: float, frame_s: float, rate_bytes: int) -> bool:
        """True if a frame takes longer to arrive than `frame_s` plus the time of its bytes at `rate_bytes` a second,
        while this side reads.
        """
        if not self.arriving_since_s or self._paused:
            return False
        came = self._large_filled if self._large_size else len(self._rest)
        return now_s - self.arriving_since_s > frame_s + came / rate_bytes

    def pause_writing(self) -> None:
        self._paused_by_client = True
        self._regulate()

    def resume_writing(self) -> None:
        self._paused_by_client = False
        self._regulate()
        self._flush_soon()

    def _regulate(self) -> None:
        """Read only while there is room for more."""
        transport = self._transport
        if transport is None or self._closing:
            return
        stop = self._stopped or self._paused_by_client or self._wanting or self._full or self._holds > 0
        if stop and not self._paused:
            self._paused = True
            transport.pause_reading()
        elif not stop and self._paused:
            self._paused = False
            if self.arriving_since_s:
                self.arriving_since_s = self._loop.time()  # This side did not read.
            transport.resume_reading()

    # Receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large_size:
            if self._piece_filled == len(self._pieces[-1]):
                self._add_piece()
            left = self._large_size - self._large_filled
            return memoryview(self._pieces[-1])[self._piece_filled : self._piece_filled + left]
        if self._pool.used_bytes >= self._pool.bytes_max:
            return self._gate.shared[:SHORT_READ_BYTES]
        return self._gate.shared

    def data_received(self, data: bytes) -> None:
        """Received bytes, from a loop that recognises buffered protocols by their class alone."""
        at = 0
        while at < len(data) and not self._closing:
            room = self.get_buffer(-1)
            size = min(len(room), len(data) - at)
            room[:size] = data[at : at + size]
            self.buffer_updated(size)
            at += size

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        if self._large_size:
            self._large_filled += nbytes
            self._piece_filled += nbytes
            if self._large_filled == self._large_size:
                self._end_large()
            elif self._arrival is not None:
                self._arrival.came_bytes += nbytes
                if not self._wanting and not self._pool.has_room(self._arrival):
                    self._want()
            return
        shared = self._gate.shared
        at = 0
        if self._rest:
            at = self._missing(nbytes)
            first = self._rest + bytes(shared[:at])
            self._take(first, 0, len(first))
            if self._closing or at == nbytes:
                return
            if self._rest:  # There is no room for it now, nor for the bytes behind it.
                self._rest += bytes(shared[at:nbytes])
                return
        self._take(shared, at, nbytes)

    def _missing(self, nbytes: int) -> int:
        """How many of these bytes complete the request that has begun; all of them if they do not."""
        if len(self._rest) < 4:
            return nbytes
        missing = 4 + int.from_bytes(self._rest[:4], "big", signed=True) - len(self._rest)
        return missing if 0 < missing < nbytes else nbytes

    def eof_received(self) -> bool:
        return False

    def _take(self, data: bytes | memoryview, at: int, end: int) -> None:
        """Cut these bytes into frames, each copied once out of the shared buffer. An incomplete frame has to wait."""
        self._rest = b""
        if self._parked_bytes:
            self._unpark()
        while end - at >= 4:
            if self._has_enough():
                self._park(bytes(data[at:end]))
                return
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            if size < 0 or size > self._gate.request_bytes_max:
                if not self.requests:
                    note_tls("kafka", self.peer, data[at:end], self._loop.time())
                self.close()  # Not a frame of this protocol, or too large: the rest of the stream has no meaning.
                return
            if end - at - 4 < size:
                if size > SHARED_BYTES:
                    self._begin_large(size, data, at, end)
                    return
                break
            if not self._admit(size):
                self._keep_rest(bytes(data[at:end]))
                self._want()
                return
            at += 4 + size
            self._serve(bytes(data[at - size : at]))
            if self._closing:
                return
        self._keep_rest(bytes(data[at:end]))
        if self._arrival is not None and not self._pool.has_room(self._arrival):
            self._want()

    def _admit(self, size: int) -> bool:
        """True if a complete frame may be served now; its bytes are taken from the budget then."""
        budget = self._gate.budget
        arrival = self._arrival
        if arrival is None or size <= SMALL_BYTES_MAX:
            return budget.take(size)
        if self._pool is not budget:  # Of a connection without a request so far: from here on it is one like any other.
            self._pool.leave(arrival)
            self._pool = budget
            budget.hold(arrival, size)
        if not budget.has_room(arrival):
            return False
        self._arrival = None
        self._wanting = False
        budget.settle(arrival, size)
        if arrival.held_bytes:  # For the bytes behind it, or for the end of a piece.
            budget.leave(arrival)
        return True

    def _park(self, rest: bytes) -> None:
        """Keep these bytes until an answer is sent: the client has as many requests in flight as it may have."""
        self._full = True
        self._rest = rest
        if self._arrival is not None:
            arrival, self._arrival = self._arrival, None
            self._pool.leave(arrival)
            self._wanting = False
        if len(rest) > SMALL_BYTES_MAX:
            self._parked_bytes = len(rest)
            self._gate.budget.used_bytes += len(rest)
        self._regulate()

    def _unpark(self) -> None:
        parked, self._parked_bytes = self._parked_bytes, 0
        self._gate.budget.give(parked)

    def _keep_rest(self, rest: bytes) -> None:
        """Keep bytes that are not served: an incomplete frame, or one that has to wait."""
        self._rest = rest
        if not rest:
            self.arriving_since_s = 0.0
        elif not self.arriving_since_s:
            self.arriving_since_s = self._loop.time()
        size = len(rest)
        arrival = self._arrival
        if arrival is None:
            if size <= SMALL_BYTES_MAX:
                return
            arrival = self._arrival = Arrival(self._resume, self._give_up)
        if not size:
            self._pool.leave(arrival)
            self._arrival = None
            return
        arrival.came_bytes += max(size - arrival.held_bytes, 0)
        self._pool.hold(arrival, size - arrival.held_bytes)

    def _begin_large(self, size: int, data: bytes | memoryview, at: int, end: int) -> None:
        """Receive the rest of a large request into pieces of its own, without the shared buffer."""
        if not self.arriving_since_s:
            self.arriving_since_s = self._loop.time()
        if self._arrival is None:
            self._arrival = Arrival(self._resume, self._give_up)
        elif self._arrival.held_bytes:
            self._pool.hold(self._arrival, -self._arrival.held_bytes)
        self._large_size = size
        self._large_filled = 0
        at += 4
        while at < end:
            if not self._pieces or self._piece_filled == len(self._pieces[-1]):
                self._add_piece(end - at)
            piece = self._pieces[-1]
            count = min(len(piece) - self._piece_filled, end - at)
            piece[self._piece_filled : self._piece_filled + count] = data[at : at + count]
            self._piece_filled += count
            self._large_filled += count
            at += count
        if not self._pieces:
            self._add_piece()
        self._arrival.came_bytes += self._large_filled
        if not self._pool.has_room(self._arrival):
            self._want()

    def _add_piece(self, size_min: int = 0) -> None:
        """Take a piece for more of a large frame: not much larger than what has come so far."""
        arrival = self._arrival
        assert arrival is not None
        wanted = max(min(4 * (self._large_filled + size_min), PIECE_BYTES_MAX), PIECE_BYTES_MIN)
        piece = self._gate.take_buffer(min(wanted, self._large_size - self._large_filled))
        self._pieces.append(piece)
        self._piece_filled = 0
        self._pool.hold(arrival, len(piece))

    def _end_large(self) -> None:
        """A large frame is complete."""
        size = self._large_size
        pieces = self._pieces
        if len(pieces) == 1:
            frame = bytes(memoryview(pieces[0])[:size])
        else:
            last = memoryview(pieces[-1])[: self._piece_filled]
            frame = b"".join([*pieces[:-1], last])
        self._large_size = 0
        self._pieces = []
        for piece in pieces:
            self._gate.give_buffer(piece)
        if self._wanting or not self._admit(
            size
        ):  # Forwarded by a node that cannot wait, or the first request of its connection.
            self._keep_rest(size.to_bytes(4, "big") + frame)
            self._want()
            return
        self.arriving_since_s = 0.0
        self._serve(frame)

    def _want(self) -> None:
        """Wait for room in the budget, and do not read until then."""
        arrival = self._arrival
        assert arrival is not None
        self._wanting = True
        self._regulate()
        self._pool.wait(arrival)

    def _resume(self) -> None:
        self._wanting = False
        if self._closing:
            return
        if not self._large_size:
            self._take(self._rest, 0, len(self._rest))
        self._regulate()

    def _give_up(self) -> None:
        """Memory is short and others come first. The client tries again on a new connection."""
        self._drop_arrival()
        self.close()

    def _drop_arrival(self) -> None:
        self._large_size = 0
        self._rest = b""
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            self._gate.give_buffer(piece)
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self._pool.leave(arrival)
        if self._parked_bytes:
            self._unpark()

    def _serve(self, frame: bytes) -> None:
        self.active_s = self._loop.time()
        self.requests += 1
        before = len(self._slots)
        self._serving = True
        self._gate.serve(self, frame)
        self._serving = False
        if self._arrival is None and self.is_cleared:
            self._pool = self._gate.budget  # Its first request could be read.
        if len(self._slots) > before:
            self._held[id(self._slots[-1])] = len(frame)
        else:
            self._gate.budget.give(len(frame))

    def _has_enough(self) -> bool:
        """True if as much is under way as one client may have."""
        return (
            self._holds > 0
            or len(self._slots) >= SLOTS_MAX
            or self._waits >= WAITS_MAX
            or self._ready_bytes >= ANSWERS_BYTES_MAX
        )

    def _take_rest(self) -> None:
        """Take the frames that have come and had to wait, if there is room now."""
        if self._full and not self._paused_by_client and not self._closing and not self._has_enough():
            self._full = False
            self._take(self._rest, 0, len(self._rest))

    # Answering

    def begin(self, call: Call) -> None:
        """Give a call its place in the order of answers."""
        self._slots.append(call)
        if call.header.api_key in WAITING_APIS:
            self._waits += 1

    def answered(self, call: Call) -> None:
        """The answer of a call is ready."""
        assert call.buffers is not None
        for buffer in call.buffers:
            self._ready_bytes += len(buffer)
        if self._slots and self._slots[0] is call:
            alone = (
                len(self._slots) == 1 and not self._full
            )  # No other answer could leave with it, and no request waits behind it.
            if alone and not self._serving and not self._flushing and not self._closing:
                self._flush()
            else:
                self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing and not self._closing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        transport = self._transport
        if transport is None:
            return
        slots = self._slots
        out: list[Buffer] = []
        freed = 0
        now_s = self._loop.time()
        while slots and slots[0].buffers is not None and not self._paused_by_client:
            call = slots.popleft()
            assert call.buffers is not None
            out.extend(call.buffers)
            if call.header.api_key in WAITING_APIS:
                self._waits -= 1
            freed += self._held.pop(id(call), 0)
            self._gate.observe(call, now_s)
        if out:
            for buffer in out:
                self._ready_bytes -= len(buffer)
            if len(out) == 1:
                transport.write(out[0])
            else:
                transport.writelines(out)
        if freed:
            self._gate.budget.give(freed)
        self._take_rest()
        if self._paused:
            self._regulate()
