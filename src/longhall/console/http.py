"""A small HTTP/1.1 server for questions without bodies, on an asyncio protocol.

One request at a time on a connection. Everything a client can make grow has a bound: connections, bytes of a request's
head, the time until the head is complete, the time until the answer is taken. What cannot be answered safely (a body, a
second length, a second host, a line without its return) is refused and the connection closed. A client that pipelines
gets its first answer with `Connection: close`, which tells it to ask the rest again.

It knows nothing of what is asked: routes are a table from path to handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, cast, final

import httptools

from longhall.world.ports import Listener, Network

HEAD_BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 100
CONNECTIONS_MAX: Final = 64
HEAD_SECONDS_MAX: Final = 10.0
IDLE_SECONDS_MAX: Final = 75.0
ANSWER_SECONDS_MAX: Final = 30.0

_log = logging.getLogger("longhall.console")


class Response(NamedTuple):
    """What a handler answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[], Awaitable[Response]]


@final
class HttpServer:
    """A table of routes behind one listener."""

    def __init__(self, routes: Mapping[str, Handler], connections_max: int = CONNECTIONS_MAX) -> None:
        self._routes = routes
        self._connections_max = connections_max
        self._connections: set[HttpConnection] = set()
        self._listener: Listener | None = None

    async def start(self, network: Network, host: str, port: int) -> int:
        """Open the port and return its number. Raises OSError when it cannot be had."""
        self._listener, bound_port = await network.listen(lambda: HttpConnection(self), host, port)
        return bound_port

    def close(self) -> None:
        """Accept nothing more and let go of everybody."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    def admit(self, connection: HttpConnection) -> bool:
        """Whether there is room for one more."""
        if len(self._connections) >= self._connections_max:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: HttpConnection) -> None:
        """The connection is gone."""
        self._connections.discard(connection)

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


@final
class HttpConnection(asyncio.Protocol):
    """One client.

    | state     | a request's head    | more bytes          | the answer is out | time runs out |
    |-----------|---------------------|---------------------|-------------------|---------------|
    | reading   | answering           | reading             |                   | abort         |
    | answering |                     | close after answer  | reading or close  | abort         |
    | closing   | ignored             | ignored             | gone              | abort         |
    """

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._answering = False
        self._closing = False
        self._writable = True
        self._start_request()

    def _start_request(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._head_bytes = 0
        self._url = b""
        self._header_count = 0
        self._hosts = 0
        self._complete = False
        self._pipelined = False
        self._refusal: Response | None = None

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.admit(self):
            self._refuse(plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later"))
            return
        self._arm(IDLE_SECONDS_MAX)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._answering:
            self._pipelined = True
            return
        if not self._head_bytes:
            self._arm(HEAD_SECONDS_MAX)  # Not armed again by later bytes: a slow head is as good as none.
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete or self._refusal is not None:
                self._refuse(self._refusal or plain(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1"))
                return
            self._pipelined = True  # The first request was good; what follows it is not, and will not be answered.
        if self._refusal is not None:
            self._refuse(self._refusal)
        elif self._complete:
            self._dispatch()

    def eof_received(self) -> bool:
        # A client may close its half after asking; it still gets the answer that is under way.
        self._pipelined = True
        return self._answering

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self._answering and self._task is None:
            self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._server.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    # What the parser says.

    def on_message_begin(self) -> None:
        if self._complete:
            self._pipelined = True

    def on_url(self, url: bytes) -> None:
        if not self._complete:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._complete:
            return
        self._header_count += 1
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        if self._header_count > HEADERS_MAX:
            self._refusal = plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers")
        elif name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0"):
            self._refusal = plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "nothing here takes a body")

    def on_headers_complete(self) -> None:
        if self._complete or self._refusal is not None:
            return
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._refusal = plain(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")
        elif self._hosts > 1 or (version == "1.1" and self._hosts == 0):
            self._refusal = plain(HTTPStatus.BAD_REQUEST, "a request names its host once")
        elif self._parser.get_method() not in (b"GET", b"HEAD"):
            self._refusal = plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")

    def on_message_complete(self) -> None:
        if self._complete:
            return
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()
        self._with_body = self._parser.get_method() != b"HEAD"

    # Answering.

    def _dispatch(self) -> None:
        try:
            path = httptools.parse_url(self._url).path or b"/"
        except httptools.HttpParserInvalidURLError:
            self._refuse(plain(HTTPStatus.BAD_REQUEST, "this is no address"))
            return
        self._answering = True
        self._arm(ANSWER_SECONDS_MAX)
        self._task = asyncio.get_running_loop().create_task(self._answer(path.decode("latin-1")))

    async def _answer(self, path: str) -> None:
        response = await self._server.answer(path)
        self._task = None
        if self._closing:
            return
        self._keep_alive = self._keep_alive and not self._pipelined
        self._write(response, keep_alive=self._keep_alive, with_body=self._with_body)
        if self._writable:
            self._answered()

    def _answered(self) -> None:
        """The answer has left our hands, or as good as."""
        self._answering = False
        if not self._keep_alive or self._pipelined:
            self._finish()
            return
        self._start_request()
        self._arm(IDLE_SECONDS_MAX)

    def _refuse(self, response: Response) -> None:
        self._write(response, keep_alive=False, with_body=True)
        self._finish()

    def _finish(self) -> None:
        self._closing = True
        self._arm(ANSWER_SECONDS_MAX)
        assert self._transport is not None
        self._transport.close()

    def _write(self, response: Response, *, keep_alive: bool, with_body: bool) -> None:
        assert self._transport is not None
        head = (
            f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
        )
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
            head += "Allow: GET, HEAD\r\n"
        head += "\r\n" if keep_alive else "Connection: close\r\n\r\n"
        self._transport.write(head.encode("latin-1") + (response.body if with_body else b""))

    # Time.

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Let go at once."""
        if self._transport is not None:
            self._transport.abort()


def plain(status: HTTPStatus, line: str) -> Response:
    """An answer of one line of text."""
    return Response(status, line.encode() + b"\n")
