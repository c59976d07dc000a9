"""TCP through the running loop.

Both asyncio and uvloop set TCP_NODELAY on every stream, which small replies need; a test checks it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, final

from longhall.world.ports import Listener

BACKLOG: Final = 1024  # Connections that the kernel queues while the loop is busy; further ones must retry.
CONNECT_TIMEOUT_S: Final = 30.0
SHUTDOWN_S: Final = 5.0  # For the other side to answer the end of TLS.


@final
class RealNetwork:
    """Listening and connecting. After that, transport and protocol work together directly.

    On shared ports other processes listen as well, and the kernel distributes connections.
    """

    def __init__(self, shared_ports: frozenset[int] = frozenset(), context: ssl.SSLContext | None = None) -> None:
        """`context` is the TLS of connections that go out; None for clear text."""
        self._shared_ports = shared_ports
        self._context = context

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        loop = asyncio.get_running_loop()
        shared = True if port in self._shared_ports else None
        server = await loop.create_server(factory, host, port, backlog=BACKLOG, reuse_address=True, reuse_port=shared)
        return server, int(server.sockets[0].getsockname()[1])

    async def bind(self, host: str, port: int) -> list[socket.socket]:
        """Listening sockets for a caller that accepts connections itself, all with the same port."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                one = socket.socket(family, kind, protocol)
                sockets.append(one)
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if port in self._shared_ports:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                chosen = port or int(sockets[0].getsockname()[1])
                one.bind((address[0], chosen, *address[2:]))
                one.listen(BACKLOG)
        except OSError as error:
            for one in sockets:
                one.close()
            raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from None
        return sockets

    async def connect(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
    ) -> asyncio.BaseProtocol:
        """Open a connection, with TLS if there is a context for it. A context of this object holds otherwise."""
        loop = asyncio.get_running_loop()
        context = context or self._context
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if context is None:
                _, protocol = await loop.create_connection(factory, host, port)
            else:
                _, protocol = await loop.create_connection(
                    factory, host, port, ssl=context, server_hostname=host, ssl_shutdown_timeout=SHUTDOWN_S
                )
        return protocol
