"""The requests of one HTTP/1.1 connection: heads and bodies from the bytes that arrive.

    received bytes -> `feed` -> httptools -> on_message_begin, on_url, on_header, on_headers_complete, on_body,
    on_message_complete -> `connection.begin(call)`

Invariant: the end of a request is never ambiguous. What two parsers could read in two ways (two lengths, a length
beside chunks, a second host, a folded line, a bare line feed) is refused. Every part of a request has a bound: the
target and the headers together, the number of headers, the body, and what surrounds the chunks of a body.

The reader does not know what a request asks for, nor how it is answered.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, final

import httptools

from longhall.front.admission import SMALL_BYTES_MAX
from longhall.front.calls import HttpCall
from longhall.front.handshake_refusals import note_tls
from longhall.front.http_bodies import BodyAdmission
from longhall.front.http_states import BETWEEN, BODY, HEAD, LAST, OPEN

if TYPE_CHECKING:
    from longhall.front.http import HttpConnection

HEAD_BYTES_MAX: Final = 16 * 1024
HEADERS_MAX: Final = 100
CHUNKING_BYTES_MAX: Final = 64 * 1024  # Beside twice the body: sizes and ends of chunks, and trailers.

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# Headers that decide what a request is: two proxies could each believe another one of two values.
_ONCE: Final = frozenset(
    {b"authorization", b"content-length", b"content-type", b"expect", b"host", b"transfer-encoding"}
)


@final
class RequestReader:
    """The parser of one connection and the request that arrives now.

    A callback that finds a fault calls `connection.refuse`, which leaves OPEN; all later callbacks of the same bytes
    return at once, because httptools parses what it was given to the end.
    """

    def __init__(self, connection: HttpConnection, bodies: BodyAdmission) -> None:
        self.count = 0  # Whole requests.
        self.arriving_since_s = 0.0  # The time of the first bytes of the current request; 0 if there is none.
        self._connection = connection
        self._bodies = bodies
        self._phase = BETWEEN
        self._fed_bytes = 0  # Since the last end of a head or of a request.
        self._is_http_1_1 = True
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse bytes of the client."""
        if not self.arriving_since_s:
            self.arriving_since_s = self._connection.loop.time()
        self._fed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._connection.refuse(HTTPStatus.NOT_IMPLEMENTED, "nothing is upgraded here")
        except httptools.HttpParserError:
            if not self.count:
                note_tls("http", self._connection.peer, data, self._connection.loop.time())
            self._connection.refuse(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
        if self._fed_bytes > HEAD_BYTES_MAX:
            self._check_bounds()
        if self._phase == BETWEEN and not self._fed_bytes:
            self.arriving_since_s = 0.0

    def restart_clock(self) -> None:
        """Reading was paused: the time of the request that arrives counts from now."""
        if self.arriving_since_s:
            self.arriving_since_s = self._connection.loop.time()

    def _check_bounds(self) -> None:
        """Bound a head that does not end, and what surrounds the chunks of a body and follows them."""
        if self._phase != BODY:
            self._connection.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large")
        elif self._fed_bytes > 2 * self._bodies.body_bytes + CHUNKING_BYTES_MAX:
            self._connection.refuse(
                HTTPStatus.BAD_REQUEST, "the body comes in too small pieces or with too much behind it"
            )

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        self._phase = HEAD
        self._target = b""
        self._lines = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come here too, after `_read_headers`: nothing behind a body changes the request.
        self._lines.append((name, value))

    def on_headers_complete(self) -> None:
        connection = self._connection
        if connection.state != OPEN:
            return
        self._phase = BODY
        self._fed_bytes = 0
        headers = self._headers = self._read_headers()
        if connection.state != OPEN:
            return
        # HTTP/1.0 keeps a connection only with a `Connection` header, and this test is cheaper than the version.
        self._is_http_1_1 = b"connection" not in headers and self._parser.should_keep_alive()
        if not self._is_http_1_1:
            version = self._parser.get_http_version()
            self._is_http_1_1 = version == "1.1"
            if not self._is_http_1_1 and version != "1.0":
                connection.refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")
                return
        if b"upgrade" in headers or self._parser.get_method() == b"CONNECT":
            # httptools takes the body for the other protocol, so the request cannot be answered without the upgrade.
            connection.refuse(HTTPStatus.NOT_IMPLEMENTED, "nothing is upgraded here")
            return
        length = headers.get(b"content-length")
        if length is not None:
            if len(length) > 18 or int(length) > connection.gate.body_bytes_max:
                connection.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")
                return
        elif b"transfer-encoding" in headers and not self._accepts_chunks(headers[b"transfer-encoding"]):
            return
        if b"host" not in headers and self._is_http_1_1:
            connection.refuse(HTTPStatus.BAD_REQUEST, "a request names its host")
            return
        if b"expect" in headers:
            self._expect(headers[b"expect"])

    def _read_headers(self) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {}
        size = len(self._target)
        for name, value in self._lines:
            size += len(name) + len(value) + 4
            name = name.lower()
            if name in headers:
                if name in _ONCE or name.startswith(b"x-amz-"):
                    self._connection.refuse(HTTPStatus.BAD_REQUEST, "a header came twice that may come once")
                value = headers[name] + b"," + value
            headers[name] = value
        if size > HEAD_BYTES_MAX or len(self._lines) > HEADERS_MAX:
            self._connection.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large")
        return headers

    def _accepts_chunks(self, encoding: bytes) -> bool:
        """False if a request with this transfer encoding was refused."""
        connection = self._connection
        if not self._is_http_1_1:
            connection.refuse(HTTPStatus.BAD_REQUEST, "HTTP/1.0 knows no transfer encoding")
            return False
        if encoding.strip().lower() != b"chunked":
            connection.refuse(HTTPStatus.NOT_IMPLEMENTED, "no transfer encoding but chunked is known")
            return False
        if not connection.gate.body_bytes_max:
            connection.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "nothing here takes a body")
            return False
        return True

    def _expect(self, expectation: bytes) -> None:
        if expectation.strip().lower() == b"100-continue":
            self._connection.answer_interim(_CONTINUE)
        else:
            self._connection.refuse(HTTPStatus.EXPECTATION_FAILED, "nothing can be expected but 100-continue")

    def on_body(self, piece: bytes) -> None:
        connection = self._connection
        if connection.state != OPEN:
            return
        bodies = self._bodies
        bodies.body_bytes += len(piece)
        if bodies.body_bytes > connection.gate.body_bytes_max:
            connection.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")
            return
        bodies.pieces.append(piece)
        if bodies.body_bytes > SMALL_BYTES_MAX:
            bodies.hold_body()

    def on_message_complete(self) -> None:
        connection = self._connection
        if connection.state != OPEN:
            return
        self._phase = BETWEEN
        self._fed_bytes = 0
        call = HttpCall(connection, self._parser.get_method(), self._target, self._headers)
        bodies = self._bodies
        pieces = bodies.pieces
        if pieces:
            call.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            bodies.pieces = []
            bodies.body_bytes = bodies.held_bytes = 0
        self.arriving_since_s = 0.0
        self.count += 1
        connection.active_s = call.started_s = connection.loop.time()
        if not self._is_http_1_1 or not self._parser.should_keep_alive():
            call.closes = True
            connection.state = LAST
        connection.begin(call)
