"""One end of a simulated connection, with everything protocols may ask of an asyncio transport.

    write -> outgoing -> (pieces under way) -> incoming -> protocol

`outgoing` is what the writer's limits are about: above the high mark its protocol is asked to pause. Pieces leave it
while fewer than WINDOW_BYTES are under way or wait in `incoming` for a reader that has paused.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast, final

from simulation.loop import Process

if TYPE_CHECKING:
    from simulation.network import Fabric

WINDOW_BYTES: Final = 256 * 1024
PIECE_BYTES_MAX: Final = 64 * 1024
HIGH_BYTES: Final = 64 * 1024
SPLIT_CHANCE: Final = 0.2


@final
class SimulatedTransport(asyncio.Transport):
    """One end of a connection: an asyncio transport over a simulated link.

    `lost` is true once the protocol has received connection_lost(), or will receive it.
    """

    def __init__(self, fabric: Fabric, process: Process, here: tuple[str, int], there: tuple[str, int]) -> None:
        super().__init__({"sockname": here, "peername": there})
        self.process = process
        self.host = here[0]
        self.lost = False
        self._fabric = fabric
        self._peer: SimulatedTransport | None = None
        self._peer_host = there[0]
        self._protocol: asyncio.BaseProtocol | None = None
        self._outgoing = bytearray()
        self._under_way: deque[bytes] = deque()
        self._under_way_bytes = 0
        self._arrives_at = 0.0
        self._incoming = bytearray()
        self._closing = False
        self._ending = False  # No more writes: the peer receives the end after everything was delivered.
        self._ended = False
        self._peer_ended = False
        self._end_told = False
        self._reading = True
        self._writing_paused = False
        self.set_write_buffer_limits()

    # Calls of the fabric.

    def meet(self, peer: SimulatedTransport) -> None:
        self._peer = peer

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._fabric.loop.call_soon(self.process.enter, self._deliver)

    def pump(self) -> None:
        """Send pieces while the window has room and the link is whole."""
        peer = self._peer
        if peer is None or self.lost or self._fabric.is_cut(self.host, self._peer_host):
            return
        chance = self._fabric.chance
        while self._outgoing and self._under_way_bytes + len(peer._incoming) < WINDOW_BYTES:
            size = min(len(self._outgoing), PIECE_BYTES_MAX)
            if size > 1 and chance.random() < SPLIT_CHANCE:
                size = chance.randrange(1, size)
            piece = bytes(self._outgoing[:size])
            del self._outgoing[:size]
            self._under_way.append(piece)
            self._under_way_bytes += size
            self._schedule()
        if self._ending and not self._outgoing and not self._ended:
            self._ended = True
            self._under_way.append(b"")
            self._schedule()
        self._maybe_resume()

    def break_off(self, error: Exception | None) -> None:
        """Break the connection; bytes under way are lost."""
        if self.lost:
            return
        self.lost = True
        self._closing = True
        self._outgoing.clear()
        self._under_way.clear()
        self._incoming.clear()
        if self._protocol is not None:
            self._fabric.loop.call_soon(self.process.enter, self._protocol.connection_lost, error)

    def silence(self) -> None:
        """The process is dead: this end disappears and no protocol is called."""
        self.lost = True
        self._closing = True
        self._outgoing.clear()

    def _schedule(self) -> None:
        """Schedule the next arrival. Pieces arrive in the order in which they were sent, whatever delay each one
        drew.
        """
        loop = self._fabric.loop
        self._arrives_at = max(self._arrives_at + 1e-5, loop.time() + self._fabric.delay_s())
        loop.call_at(self._arrives_at, self._arrive)

    def _arrive(self) -> None:
        peer = self._peer
        if not self._under_way or peer is None:
            return
        if self._fabric.is_cut(self.host, self._peer_host):
            self._fabric.loop.call_later(0.2, self._arrive)  # Retransmitted until the link is whole.
            return
        piece = self._under_way.popleft()
        self._under_way_bytes -= len(piece)
        if peer.lost:
            return
        if piece:
            peer._incoming += piece
            self._fabric.trace.note("piece", self.host, peer.host, len(piece), zlib.crc32(piece))
        else:
            peer._peer_ended = True
        peer.process.enter(peer._deliver)

    def _deliver(self) -> None:
        """Pass arrived bytes to the protocol, unless it has not started or has paused reading."""
        protocol = self._protocol
        if protocol is None or self.lost or not self._reading:
            return
        while self._incoming and self._reading and not self.lost:
            # The class may implement the buffered protocol without deriving from it.
            if hasattr(protocol, "get_buffer"):
                buffered = cast(asyncio.BufferedProtocol, protocol)
                buffer = memoryview(cast(Any, buffered.get_buffer(len(self._incoming))))
                size = min(len(buffer), len(self._incoming))
                buffer[:size] = self._incoming[:size]
                del self._incoming[:size]
                buffered.buffer_updated(size)
            else:
                data = bytes(self._incoming)
                self._incoming.clear()
                cast(asyncio.Protocol, protocol).data_received(data)
            protocol = self._protocol
        if self._peer is not None:
            self._fabric.loop.call_soon(self._peer.pump)
        if self._peer_ended and not self._incoming and self._reading and not self.lost and not self._end_told:
            self._end_told = True
            if not cast(asyncio.Protocol, protocol).eof_received():
                self.close()
        self._maybe_finish()

    # Calls of protocols.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.lost or self._ending or not data:
            return
        self._outgoing += data
        self.pump()
        if len(self._outgoing) > self._high and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._ending = True
        self.pump()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """Send what is left, then the end; the protocol receives no more data."""
        if self._closing:
            return
        self._closing = True
        self._reading = False
        self._incoming.clear()
        self.write_eof()
        self._maybe_finish()

    def abort(self) -> None:
        if self._peer is not None and not self._peer.lost:
            error = ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
            self._fabric.loop.call_later(self._fabric.delay_s(), self._peer.break_off, error)
        self.break_off(None)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing and not self._reading:
            self._reading = True
            self._fabric.loop.call_soon(self.process.enter, self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def _maybe_resume(self) -> None:
        if self._writing_paused and len(self._outgoing) <= self._low and self._protocol is not None:
            self._writing_paused = False
            self._fabric.loop.call_soon(self.process.enter, self._protocol.resume_writing)
        self._maybe_finish()

    def _maybe_finish(self) -> None:
        """Finish this end when it is closed and everything is sent."""
        if self._closing and not self.lost and self._ended:
            self.lost = True
            if self._protocol is not None:
                self._fabric.loop.call_soon(self.process.enter, self._protocol.connection_lost, None)
