"""TCP through the running loop.

Both asyncio and uvloop set TCP_NODELAY on every stream, which small replies need; a test checks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.world.ports import Listener

BACKLOG: Final = 1024  # Connections that the kernel queues while the loop is busy; further ones must retry.
CONNECT_TIMEOUT_S: Final = 30.0


@final
class RealNetwork:
    """Listening and connecting. After that, transport and protocol work together directly.

    On shared ports other processes listen as well, and the kernel distributes connections.
    """

    def __init__(self, shared_ports: frozenset[int] = frozenset()) -> None:
        self._shared_ports = shared_ports

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        loop = asyncio.get_running_loop()
        shared = True if port in self._shared_ports else None
        server = await loop.create_server(factory, host, port, backlog=BACKLOG, reuse_address=True, reuse_port=shared)
        return server, int(server.sockets[0].getsockname()[1])

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.BaseProtocol:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, protocol = await loop.create_connection(factory, host, port)
        return protocol
