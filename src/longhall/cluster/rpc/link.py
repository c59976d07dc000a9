"""One connection between two nodes: frames in, frames out, and a callback when it is lost.

It does not know the meaning of frames. Writers must observe the transport's limit themselves: see `is_full` and
`on_drained`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, cast, final

import msgspec

from longhall.cluster.rpc.wire import PEER_FRAME_BYTES_MAX, Splitter, encode
from longhall.errors import LonghallError
from longhall.world.ports import Buffer

UNHEARD_MS_MAX: Final = 5_000  # Without an acknowledgement of sent bytes for this time the connection is dead.

OnFrame = Callable[[int, bytes], None]


def _nothing() -> None:
    """The callback before one is set: does nothing."""


@final
class Link(asyncio.BufferedProtocol):
    """The transport's protocol of one connection. If `on_frame` raises LonghallError, the connection is closed."""

    def __init__(self, on_frame: OnFrame, on_made: Callable[[Link], None] | None = None) -> None:
        self.on_frame = on_frame
        self.on_lost: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.is_full = False
        self.is_open = False
        self.why = ""
        self.is_garbled = False  # The received bytes were not valid frames.
        self.on_known: list[asyncio.TimerHandle] = []  # Timers to cancel when the handshake is complete.
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._splitter = Splitter()

    def greeted(self) -> None:
        """The handshake is complete: frames may be large from now on."""
        self._splitter.bytes_max = PEER_FRAME_BYTES_MAX

    def send(self, kind: int, message: msgspec.Struct) -> None:
        """Write a message; does nothing if the connection is lost."""
        self.write(encode(kind, message))

    def write(self, *pieces: Buffer) -> None:
        """Write the pieces of a frame; does nothing if the connection is lost."""
        if self.is_open and self._transport is not None:
            self._transport.writelines(pieces)

    def close(self, why: str = "") -> None:
        """Close the connection; what was written is still sent."""
        self.why = self.why or why
        if self.is_open and self._transport is not None:
            self.is_open = False
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close the connection and discard what was not sent."""
        self.why = self.why or why
        if self._transport is not None:
            self.is_open = False
            self._transport.abort()

    # Calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        _end_when_unheard(transport)
        if self._on_made is not None:
            self._on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for kind, body in self._splitter.received(nbytes):
                self.on_frame(kind, body)
                if not self.is_open:
                    return
        except LonghallError as error:
            self.is_garbled = True
            self.abort(str(error))
        except Exception as error:  # Reported here: the loop ignores an OSError of a connection.
            self.abort("an internal error")
            told = {"message": "a frame of another node could not be handled", "exception": error, "protocol": self}
            asyncio.get_running_loop().call_exception_handler(told)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.on_drained()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self.why = self.why or (str(error) if error is not None else "the other side closed the connection")
        self.on_lost()

    def peer(self) -> Any:
        """The address of the other side, for the log."""
        return self._transport.get_extra_info("peername") if self._transport is not None else None


def _end_when_unheard(transport: asyncio.BaseTransport) -> None:
    """Have the system end a connection whose network path broke. By default it would retransmit for minutes, at growing
    intervals: such a connection stays silent for seconds after the path works again, while a new one would not.
    """
    plug = transport.get_extra_info("socket")  # None in a simulated world.
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it.
    if plug is not None and option is not None:
        plug.setsockopt(socket.IPPROTO_TCP, option, UNHEARD_MS_MAX)
