"""One connection between two nodes: frames in, frames out, and a word when it is gone.

It knows frames, not what they mean. What is written beyond the transport's limit is held back by whoever writes: see
`is_full` and `on_drained`.
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

UNHEARD_MS_MAX: Final = 5_000  # What was written and has not arrived by then will not: the connection is dead.

OnFrame = Callable[[int, bytes], None]


def _nothing() -> None:
    """Until somebody wants to know."""


@final
class Link(asyncio.BufferedProtocol):
    """See the module. `on_frame` may raise LonghallError: the connection ends then."""

    def __init__(self, on_frame: OnFrame, on_made: Callable[[Link], None] | None = None) -> None:
        self.on_frame = on_frame
        self.on_lost: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.is_full = False
        self.is_open = False
        self.why = ""
        self.is_garbled = False  # What came could not be cut into frames.
        self.on_known: list[asyncio.TimerHandle] = []  # What is to be called off when the other side has greeted.
        self._on_made = on_made
        self._transport: asyncio.Transport | None = None
        self._splitter = Splitter()

    def greeted(self) -> None:
        """From here on frames may be large."""
        self._splitter.bytes_max = PEER_FRAME_BYTES_MAX

    def send(self, kind: int, message: msgspec.Struct) -> None:
        """Write a message; nothing if the connection is gone."""
        self.write(encode(kind, message))

    def write(self, *pieces: Buffer) -> None:
        """Write the pieces of a frame; nothing if the connection is gone."""
        if self.is_open and self._transport is not None:
            self._transport.writelines(pieces)

    def close(self, why: str = "") -> None:
        """Let what was written go out, and end."""
        self.why = self.why or why
        if self.is_open and self._transport is not None:
            self.is_open = False
            self._transport.close()

    def abort(self, why: str) -> None:
        """End now."""
        self.why = self.why or why
        if self._transport is not None:
            self.is_open = False
            self._transport.abort()

    # What the transport calls

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
        except Exception as error:  # Said here: a loop takes an OSError for one of the connection's, and is silent.
            self.abort("an internal error")
            told = {"message": "a frame of another node could not be taken", "exception": error, "protocol": self}
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
    """Have the system end a connection that was cut. By itself it would try for minutes, and ever more rarely: such a
    connection is still mute seconds after the other side can be heard again, while a new one would not be.
    """
    plug = transport.get_extra_info("socket")  # None in a simulated world.
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it.
    if plug is not None and option is not None:
        plug.setsockopt(socket.IPPROTO_TCP, option, UNHEARD_MS_MAX)
