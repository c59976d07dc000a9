"""The HTTP port of the console: a table of routes for GET requests, and a service below a path.

`front.http` parses requests and refuses malformed ones; this module has the connection limits, the timeouts and the
routing. Everything that a client can make grow has a bound: connections, bytes of a request, the time until it is
complete, the time until the response is read.

It does not know the meaning of requests: routes are a table from path to handler, and a service gets all requests below
its path, with any method and with a body.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, final

import httptools

from longhall.front.admission import Budget
from longhall.front.calls import HttpCall, HttpGate
from longhall.front.http import HttpConnection, factory_of
from longhall.front.refused_connections import RefusedConnections
from longhall.world.ports import Listener, Network

CONNECTIONS_MAX: Final = 64
SERVICE_CONNECTIONS_MAX: Final = 1024  # With a service, whose receivers may wait for messages.
# Connections beyond these limits get health and metrics, one response each, and nothing else:
RESERVED_MAX: Final = 64
RESERVED_OF_ADDRESS_MAX: Final = 16
RESERVED_SECONDS_MAX: Final = 5.0  # For a request to come.
HEAD_SECONDS_MAX: Final = 10.0
BODY_SECONDS_MAX: Final = 30.0  # For a complete request, if requests may have bodies.
IDLE_SECONDS_MAX: Final = 75.0
ANSWER_SECONDS_MAX: Final = 30.0
SWEEP_SECONDS: Final = 1.0
DRAIN_STEP_SECONDS: Final = 0.01
RECEIVE: Final = "/receive"

_TO_CONFIRM: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)  # Final refusals that have changed nothing.

_log = logging.getLogger("longhall.console")


class Response(NamedTuple):
    """The response of a handler."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: str = ""  # Additional header lines, each with its line end.


Handler = Callable[[], Awaitable[Response]]


class Work(NamedTuple):
    """A request that a service has begun. One that `waits` may be cancelled without loss."""

    answer: Coroutine[Any, Any, Response]
    waits: bool


class Service(Protocol):
    """The handler of all requests below one path."""

    @property
    def prefix(self) -> str: ...

    @property
    def body_bytes_max(self) -> int: ...

    @property
    def budget(self) -> Budget: ...

    def login(self, call: HttpCall) -> Coroutine[Any, Any, Response | None] | None:
        """The slow part of the client's login, before `begin`, which may end in a refusal; None if there is none. It
        must not raise.
        """

    def begin(self, call: HttpCall, path: str, query: str) -> Work:
        """Begin a request below the prefix; `path` does not have the prefix. Must not raise."""

    def overloaded(self) -> Response | None:
        """The refusal of deliveries while responses that clients do not read fill the memory; None otherwise."""

    def close(self) -> None:
        """Refuse all requests from now on."""


@final
class HttpServer(HttpGate):
    """A table of routes behind one listener."""

    def __init__(
        self,
        routes: Mapping[str, Handler],
        connections_max: int = 0,
        service: Service | None = None,
        connections_per_address_max: int = SERVICE_CONNECTIONS_MAX,
    ) -> None:
        # Without a service no request has a body, so no budget is needed.
        self.budget = Budget(0) if service is None else service.budget
        self.body_bytes_max = 0 if service is None else service.body_bytes_max
        self._routes = routes
        self._service = service
        self._pages: list[Service] = []
        self._connections_max = connections_max or (CONNECTIONS_MAX if service is None else SERVICE_CONNECTIONS_MAX)
        self._per_address_max = connections_per_address_max
        self._per_address: Counter[str] = Counter()
        self._reserved: dict[HttpConnection, None] = {}  # Connections over a limit: they get routes and no service.
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._connections: dict[HttpConnection, None] = {}
        self.refused = RefusedConnections("http")
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._listener: Listener | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, network: Network, host: str, port: int) -> int:
        """Open the port and return its number. Raises OSError if that fails."""
        loop = asyncio.get_running_loop()
        self._listener, bound_port = await network.listen(factory_of(self, loop), host, port)
        self._sweep(loop)
        return bound_port

    def show(self, path: str, handler: Handler) -> None:
        """Add a route."""
        self._routes = {**self._routes, path: handler}

    def serve_also(self, pages: Service) -> None:
        """Let another service answer below its path. Its requests count in the memory of the first one."""
        self._pages.append(pages)

    def close(self) -> None:
        """Close the listener and all connections."""
        if self._listener is not None:
            self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()

    async def drain(self, seconds: float) -> None:
        """Stop the service: requests that change something are completed, waiting ones are refused with 503."""
        if self._service is None:
            return
        self._service.close()
        for pages in self._pages:
            pages.close()
        for task in list(self._waiting):
            task.cancel()
        for _ in range(int(seconds / DRAIN_STEP_SECONDS)):
            if not self._tasks:
                break
            await asyncio.sleep(DRAIN_STEP_SECONDS)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that exceed a timeout: an incomplete request, an unread response, or idle time."""
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep, loop)  # First: a failure costs one sweep.
        now_s = loop.time()
        for connection in list(self._connections):
            arriving_s, stalled_s = connection.arriving_since_s, connection.stalled_since_s
            patience_s = HEAD_SECONDS_MAX if self._service is None else BODY_SECONDS_MAX
            slow = arriving_s and now_s - arriving_s > patience_s and not connection.is_kept_waiting
            stalled = stalled_s and now_s - stalled_s > ANSWER_SECONDS_MAX
            idle_s = IDLE_SECONDS_MAX if connection not in self._reserved else RESERVED_SECONDS_MAX
            silent = not arriving_s and connection.idle and now_s - connection.active_s > idle_s
            if slow or stalled or silent:
                connection.abort()
        self.budget.drop_slow(now_s)
        self.budget.unauthenticated.drop_slow(now_s)

    # Gate

    def opened(self, connection: HttpConnection) -> bool:
        self._connections[connection] = None
        self._per_address[connection.peer] += 1
        now_s = asyncio.get_running_loop().time()
        if len(self._connections) - len(self._reserved) > self._connections_max:
            self.refused.note(connection.peer, "http connections", self._connections_max, now_s)
        elif self._per_address[connection.peer] > self._per_address_max:
            self.refused.note(connection.peer, "connections_per_address_max", self._per_address_max, now_s)
        else:
            return True
        of_address = sum([one.peer == connection.peer for one in self._reserved])
        if (
            self._service is None
            or not self._routes
            or len(self._reserved) >= RESERVED_MAX
            or of_address >= RESERVED_OF_ADDRESS_MAX
        ):
            return False
        self._reserved[connection] = None
        return True

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self._reserved.pop(connection, None)
        self._per_address[connection.peer] -= 1
        if not self._per_address[connection.peer]:
            del self._per_address[connection.peer]

    def refusal(self, status: HTTPStatus, line: str) -> bytes:
        answer = plain(status, line) if self._service is None else refused(status, line)
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            answer = answer._replace(headers="Retry-After: 1\r\n")
        return _written(answer, closes=True)

    def observe(self, call: HttpCall, now_s: float) -> None:
        """Do nothing: the console has no metrics of requests."""

    def serve(self, call: HttpCall) -> None:
        try:
            url = httptools.parse_url(call.target)
        except httptools.HttpParserInvalidURLError:
            call.closes = True
            call.ready(_written(plain(HTTPStatus.BAD_REQUEST, "this is no address"), closes=True))
            return
        path = (url.path or b"/").decode("latin-1")
        service = self._service_of(path)
        if call.connection in self._reserved:
            call.closes = True
            if path not in self._routes:
                busy = refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")
                call.ready(_written(busy._replace(headers="Retry-After: 1\r\n"), closes=True))
                return
        if service is not None:
            query = (url.query or b"").decode("latin-1")
            login = service.login(call)
            if login is None:
                self._begin(service, call, path, query)
            else:
                self._employ(call, self._begin_after(login, service, call, path, query), True)
            return
        if call.method in (b"GET", b"HEAD"):
            work = Work(self.answer(path), False)
        else:
            call.closes = True
            not_allowed = plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")._replace(headers="Allow: GET, HEAD\r\n")
            call.ready(_written(not_allowed, closes=True))
            return
        self._employ(call, self._finish(call, work), work.waits)

    def _begin(self, service: Service, call: HttpCall, path: str, query: str) -> None:
        work = service.begin(call, path[len(service.prefix) :], query)
        self._employ(call, self._finish(call, work), work.waits)

    async def _begin_after(
        self,
        login: Coroutine[Any, Any, Response | None],
        service: Service,
        call: HttpCall,
        path: str,
        query: str,
    ) -> None:
        try:
            refusal = await login
        except asyncio.CancelledError:  # The node stops, or the client has gone away.
            refusal = refused(HTTPStatus.SERVICE_UNAVAILABLE, "the node is stopping; ask again in a moment")
        if refusal is not None:
            call.ready(_written(refusal, closes=call.closes, with_body=call.method != b"HEAD"))
            return
        call.on_close = None  # From here on the request decides whether it may be cancelled.
        self._begin(service, call, path, query)

    def _service_of(self, path: str) -> Service | None:
        if self._service is not None and path.startswith(self._service.prefix):
            return self._service
        for pages in self._pages:
            if path == pages.prefix or path.startswith(f"{pages.prefix}/"):
                return pages
        return None

    def _employ(self, call: HttpCall, work: Coroutine[Any, Any, None], waits: bool) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        if waits:
            self._waiting[task] = None
            call.on_close = lambda: _let_go(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._waiting.pop(task, None)

    async def _finish(self, call: HttpCall, work: Work) -> None:
        try:
            response = await work.answer
        except asyncio.CancelledError:
            if call.on_close is None:  # The node stops.
                raise
            response = refused(HTTPStatus.SERVICE_UNAVAILABLE, "the node is stopping; ask again in a moment")
        call.ready(_written(response, closes=call.closes, with_body=call.method != b"HEAD"))

    async def answer(self, path: str) -> Response:
        """The response to a route. Never raises: a handler that fails gives a 500 and a log line."""
        handler = self._routes.get(path)
        if handler is None:
            known = sorted(self._routes) if self._service is None else [*sorted(self._routes), self._service.prefix]
            return plain(HTTPStatus.NOT_FOUND, f"not found; there is {' '.join(known)}")
        try:
            return await handler()
        except Exception:
            _log.exception("handler failed", extra={"path": path})
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the log of the node says why")


def _let_go(task: asyncio.Task[None]) -> None:
    task.cancel()


def plain(status: HTTPStatus, line: str) -> Response:
    """A response with one line of text."""
    return Response(status, line.encode() + b"\n")


def refused(status: HTTPStatus, line: str) -> Response:
    """The refusal of a malformed request, in the form that services use."""
    code = status.phrase.lower().replace(" ", "-")
    return Response(status, json.dumps({"code": code, "message": line}).encode(), "application/json")


def _written(response: Response, *, closes: bool, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
    )
    head += response.headers
    head += "Connection: close\r\n\r\n" if closes else "\r\n"
    return head.encode("latin-1") + (response.body if with_body else b"")
