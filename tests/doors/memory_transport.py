"""A connection without a socket, for tests: the bytes of a request go in, the first answer comes out.

The door behind it cannot tell the difference: its parser, its budget and its checks all apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast, final

from longhall.errors import Code, LonghallError

PIECE_BYTES: Final = 64 * 1024

Factory = Callable[[], asyncio.BaseProtocol]


@final
class Memory(asyncio.Transport):
    """The transport of such a connection. What is written first is the answer, whole."""

    def __init__(self, peer: str) -> None:
        super().__init__({"peername": (peer, 0), "in_memory": True})
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.protocol: asyncio.BaseProtocol | None = None
        self._lost = False

    def write(self, data: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.end)

    abort = close

    def is_closing(self) -> bool:
        return self._lost

    def end(self) -> None:
        """The connection is over, once."""
        if self._lost:
            return
        self._lost = True
        if self.protocol is not None:
            self.protocol.connection_lost(None)
        if not self.answer.done():
            self.answer.set_exception(LonghallError(Code.NOT_READY, "the door hung up"))
            self.answer.exception()  # Nobody may wait for it any more; that is no bug.

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True


async def answer_in_memory(factory: Factory, peer: str, request: bytes) -> bytes:
    """What the door answers. LonghallError(NOT_READY) if it hangs up instead."""
    transport = Memory(peer)
    protocol = factory()
    transport.protocol = protocol
    protocol.connection_made(transport)
    try:
        _feed(protocol, transport, request)
        return await transport.answer
    finally:
        transport.end()


def _feed(protocol: asyncio.BaseProtocol, transport: Memory, request: bytes) -> None:
    for at in range(0, len(request), PIECE_BYTES):
        if transport.is_closing():
            return
        cast(asyncio.Protocol, protocol).data_received(request[at : at + PIECE_BYTES])
