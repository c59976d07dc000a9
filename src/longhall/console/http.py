"""The HTTP port of the console: questions without bodies, answered from a table of routes.

How a connection speaks and what it refuses is `front.http`'s; this says who may connect, how long anything may take,
and what is answered. Everything a client can make grow has a bound: connections, bytes of a request's head, the time
until the head is complete, the time until the answer is taken.

It knows nothing of what is asked: routes are a table from path to handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, final

import httptools

from longhall.front.admission import Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.http import HttpConnection
from longhall.world.ports import Listener, Network

CONNECTIONS_MAX: Final = 64
HEAD_SECONDS_MAX: Final = 10.0
IDLE_SECONDS_MAX: Final = 75.0
ANSWER_SECONDS_MAX: Final = 30.0
SWEEP_SECONDS: Final = 1.0

_log = logging.getLogger("longhall.console")


class Response(NamedTuple):
    """What a handler answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Response]]


@final
class HttpServer(HttpGate):
    """A table of routes behind one listener."""

    def __init__(self, routes: Mapping[str, Handler], connections_max: int = CONNECTIONS_MAX) -> None:
        self.budget = Budget(0)  # Nothing here has a body that could take from it.
        self.body_bytes_max = 0
        self._routes = routes
        self._connections_max = connections_max
        self._connections: dict[HttpConnection, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._listener: Listener | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, network: Network, host: str, port: int) -> int:
        """Open the port and return its number. Raises OSError when it cannot be had."""
        loop = asyncio.get_running_loop()
        self._listener, bound_port = await network.listen(lambda: HttpConnection(self, loop), host, port)
        self._sweep(loop)
        return bound_port

    def close(self) -> None:
        """Accept nothing more and let go of everybody."""
        if self._listener is not None:
            self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let go of who stalls: half a head, an answer not taken, silence for too long."""
        now_s = loop.time()
        for connection in list(self._connections):
            arriving_s, stalled_s = connection.arriving_since_s, connection.stalled_since_s
            slow = arriving_s and now_s - arriving_s > HEAD_SECONDS_MAX
            stalled = stalled_s and now_s - stalled_s > ANSWER_SECONDS_MAX
            silent = not arriving_s and connection.idle and now_s - connection.active_s > IDLE_SECONDS_MAX
            if slow or stalled or silent:
                connection.abort()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep, loop)

    # Gate

    def opened(self, connection: HttpConnection) -> bool:
        self._connections[connection] = None
        return len(self._connections) <= self._connections_max

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        return _written(plain(status, line), closes=True)

    def observe(self, call: HttpCall, now_s: float) -> None:
        """Nobody counts."""

    def serve(self, call: HttpCall) -> None:
        if call.method not in (b"GET", b"HEAD"):
            call.closes = True
            call.ready(_written(plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET"), closes=True))
            return
        try:
            path = httptools.parse_url(call.target).path or b"/"
        except httptools.HttpParserInvalidURLError:
            call.closes = True
            call.ready(_written(plain(HTTPStatus.BAD_REQUEST, "this is no address"), closes=True))
            return
        task = asyncio.get_running_loop().create_task(self._finish(call, path.decode("latin-1")))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _finish(self, call: HttpCall, path: str) -> None:
        response = await self.answer(path)
        call.ready(_written(response, closes=call.closes, with_body=call.method != b"HEAD"))

    async def answer(self, path: str) -> Response:
        """Never raises: a handler that fails is a 500 and a line in the log."""
        handler = self._routes.get(path)
        if handler is None:
            return plain(HTTPStatus.NOT_FOUND, f"not found; there is {' '.join(sorted(self._routes))}")
        try:
            return await handler()
        except Exception:
            _log.exception("handler failed", extra={"path": path})
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the log of the node says why")


def plain(status: HTTPStatus, line: str) -> Response:
    """An answer of one line of text."""
    return Response(status, line.encode() + b"\n")


def _written(response: Response, *, closes: bool, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
    )
    if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
        head += "Allow: GET, HEAD\r\n"
    head += "Connection: close\r\n\r\n" if closes else "\r\n"
    return head.encode("latin-1") + (response.body if with_body else b"")
