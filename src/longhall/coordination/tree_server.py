"""The server of the embedded coordination tree for the workers of one machine: one session per connection.

For `serve --workers N`: the parent stores the tree in its data directory, and every worker uses it like its own. The
server listens on the loopback address only and closes connections without its token.
"""

from __future__ import annotations

import asyncio
import hmac
from functools import partial
from typing import Final, cast, final

from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree
from longhall.coordination.frames import FIRED, FrameError, FrameReader, Reply, Request, failed, frame, read_request
from longhall.coordination.ports import Conflict, CoordinationError
from longhall.coordination.tree import Fired
from longhall.world.ports import Entropy, Listener, Network

TOKEN_BYTES: Final = 32
REQUESTS_MAX: Final = 4096  # Requests of one worker in progress; a worker with more is faulty.
HELLO_S: Final = 10.0


@final
class TreeServer:
    """A listening socket and the connections of the workers, until it is closed."""

    def __init__(self, store: EmbeddedStore, token: bytes) -> None:
        self.store = store
        self.token = token
        self.port = 0
        self._listener: Listener | None = None
        self._connections: set[_Connection] = set()

    async def listen(self, network: Network) -> None:
        self._listener, self.port = await network.listen(partial(_Connection, self), "127.0.0.1", 0)

    def close(self) -> None:
        """Close the listener and all connections, which ends their sessions."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.close()

    def came(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def went(self, connection: _Connection) -> None:
        self._connections.discard(connection)


async def serve_tree(store: EmbeddedStore, network: Network, entropy: Entropy) -> TreeServer:
    """Serve a store. Workers need the `port` and the `token` of the result."""
    server = TreeServer(store, entropy.bytes(TOKEN_BYTES))
    await server.listen(network)
    return server


@final
class _Connection(asyncio.Protocol):
    """One connection, with a session once it has sent the token."""

    def __init__(self, server: TreeServer) -> None:
        self._server = server
        self._tree = EmbeddedTree(server.store)
        self._frames = FrameReader()
        self._greeted = False
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A uvloop transport has the methods of this class but does not derive from it.
        self._transport = cast(asyncio.Transport, transport)
        self._server.came(self)
        self._patience = asyncio.get_running_loop().call_later(HELLO_S, self._hurry)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._take(read_request(body))
        except FrameError:
            self.close()

    def connection_lost(self, failure: Exception | None) -> None:
        self._patience.cancel()
        self._server.went(self)
        self._start(self._tree.close())

    def close(self) -> None:
        self._transport.close()

    def _hurry(self) -> None:
        if not self._greeted:
            self.close()

    def _take(self, request: Request) -> None:
        if not self._greeted:
            if request.verb != "hello" or not hmac.compare_digest(request.token, self._server.token):
                raise FrameError("the first frame has no valid token")
            self._greeted = True
        if len(self._tasks) >= REQUESTS_MAX:
            raise FrameError("too many requests in progress")
        self._start(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            reply = await self._do(request)
        except CoordinationError as failure:
            reply = failed(request.number, failure)
        if not self._transport.is_closing():
            self._transport.write(frame(reply))

    async def _do(self, request: Request) -> Reply:
        number, tree = request.number, self._tree
        fired = self._fired(number) if request.watch else None
        if request.verb == "hello":
            await tree.start(lambda session: None)
            return Reply(number, session=tree.session_id)
        if request.verb == "get":
            return Reply(number, node=await tree.get(request.path, fired))
        if request.verb == "children":
            return Reply(number, names=await tree.children(request.path, fired))
        if request.verb == "commit":
            return Reply(number, versions=await tree.commit(*request.operations))
        if request.verb == "bye":
            await tree.close()
            return Reply(number)
        raise Conflict(f"unknown verb {request.verb}")

    def _fired(self, number: int) -> Fired:
        def fired() -> None:
            if not self._transport.is_closing():
                self._transport.write(frame(Reply(FIRED, watch=number)))

        return fired

    def _start(self, coroutine: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
