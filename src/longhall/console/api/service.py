"""The service below one path: authentication, parsing of requests, and dispatch to handlers.

The HTTP API of queues and the management API of RabbitMQ differ in their dialect: the path, whom they let in, and how
they say what they refuse.

Invariant: every response is JSON with a matching status, and no exception leaves `begin` or the work that it began.
Without authentication the API is open on loopback only, and there to programs only: a web page in a browser must not be
able to purge a queue, so requests from another origin, or for a host name that is not the machine's own, are refused.

It knows nothing of queues: the handlers do.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, final
from urllib.parse import parse_qsl, unquote

import msgspec

from longhall.console.api.asked import BYTES, JSON, PREFIX, Asked, Reply
from longhall.console.api.content_digest import digest_header, verify_digest, wanted_digest
from longhall.console.api.refusals import ApiRefusal, refuse
from longhall.console.api.throttling import ApiThrottling
from longhall.console.http import Response, Work
from longhall.console.route_permissions import permission_of
from longhall.errors import Code, LonghallError
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.front.calls import HttpCall
from longhall.front.guard import AccessGuard
from longhall.front.identity import ANONYMOUS, Principal, caller_of, is_encrypted
from longhall.front.origins import Origin
from longhall.front.rate_limits import RateLimited, RateLimits
from longhall.front.refused_requests import RefusedRequests
from longhall.front.web_sessions import WebSessions
from longhall.service.router import Router

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
QUERY_FIELDS_MAX: Final = 128

_log = logging.getLogger("longhall.api")

Handler = Callable[[Router, Asked], Coroutine[Any, Any, Reply]]


class Route(NamedTuple):
    """One method and path of the API, with its handler. In a path, `*` is a name.

    A request that `waits` may be cancelled without loss. A request that `gives` messages is refused while responses
    that clients do not read fill the memory. `limited_as` is its class of operation for rate limits; by default
    that follows from the other fields.
    """

    method: str
    path: str
    handler: Handler
    waits: bool = False
    gives: bool = False
    limited_as: str = ""


class Dialect(Protocol):
    """What differs between two APIs."""

    prefix: str

    def who(self, headers: dict[bytes, bytes], peer: str, origin: Origin | None) -> Principal | None:
        """The client; None if it must log in first."""

    def refused(self, status: HTTPStatus, line: str) -> Response:
        """The refusal of a request by its form."""

    def refuse(self, error: LonghallError) -> Response:
        """The refusal of a request by its meaning."""

    def accepts(self, media_type: bytes) -> bool:
        """True if a body may be of this type."""


@final
class QueueDialect:
    """The dialect of the HTTP API of queues. Without authentication a client is known by its address."""

    prefix = PREFIX

    def __init__(self, authentication: DoorAuthentication | None = None) -> None:
        self._authentication = authentication

    def who(self, headers: dict[bytes, bytes], peer: str, origin: Origin | None) -> Principal | None:
        authentication = self._authentication
        if authentication is None or not authentication.required:
            return ANONYMOUS.shown_as(peer)
        return authentication.of_request(headers.get(b"authorization"), origin, peer)

    def refused(self, status: HTTPStatus, line: str) -> Response:
        code = status.phrase.lower().replace(" ", "-")
        response = Response(status, msgspec.json.encode(ApiRefusal(code, line)), JSON)
        if status is HTTPStatus.UNAUTHORIZED:
            return response._replace(headers='WWW-Authenticate: Basic realm="longhall", charset="UTF-8"\r\n')
        return response

    def refuse(self, error: LonghallError) -> Response:
        return refuse(error)

    def accepts(self, media_type: bytes) -> bool:
        return media_type in _KINDS


@final
class Api:
    """One API of a node. `closed` is the reason to refuse all requests; empty to serve them. Without authentication
    only requests for a name of the machine itself are served.
    """

    body_bytes_max = BODY_BYTES_MAX

    def __init__(
        self,
        service: Router,
        routes: tuple[Route, ...],
        budget: Budget,
        authentication: DoorAuthentication | None = None,
        closed: str = "",
        dialect: Dialect | None = None,
        access: AccessGuard | None = None,
        rates: RateLimits | None = None,
        sessions: WebSessions | None = None,
    ) -> None:
        self._access = access
        self._throttling = ApiThrottling(rates) if rates is not None else None
        self._sessions = sessions  # Of browsers; None: this API takes no cookies.
        self.budget = budget
        self._service = service
        self._authentication = authentication
        self._dialect = dialect if dialect is not None else QueueDialect(authentication)
        self.prefix = self._dialect.prefix
        self._closed = closed
        self._stopping = False
        self._refused = RefusedRequests("http")
        self._routes: dict[_Shape, list[tuple[Route, tuple[str, ...]]]] = {}
        self.answer_also(routes)

    def answer_also(self, routes: tuple[Route, ...]) -> None:
        """Add routes."""
        for route in routes:
            parts = tuple(route.path.split("/"))
            assert parts[0] != "*"
            self._routes.setdefault(_shape(parts), []).append((route, parts))

    def close(self) -> None:
        """Refuse all requests from now on: the node stops."""
        self._stopping = True

    def login(self, call: HttpCall) -> Coroutine[Any, Any, Response | None] | None:
        """See `console.http.Service`."""
        logins = self._authentication
        shown = call.headers.get(b"authorization")
        if shown is None or logins is None or not logins.required or not logins.is_slow(shown):
            return None
        return self._prepare(logins, call, shown)

    async def _prepare(self, logins: DoorAuthentication, call: HttpCall, shown: bytes) -> Response | None:
        try:
            await logins.prepare_request(shown, call.connection.peer)
        except LonghallError as error:  # Too many logins wait.
            return self._dialect.refuse(error)
        return None

    def begin(self, call: HttpCall, path: str, query: str) -> Work:
        """See `console.http.Service`."""
        try:
            who = self._dialect.who(call.headers, call.connection.peer, call.connection.origin)
            if who is None and self._sessions is not None and b"authorization" not in call.headers:
                tls = is_encrypted(call.connection.origin)
                who = self._sessions.of_request(call.method, call.headers, tls=tls)
        except LonghallError as error:
            return Work(_answered(self._dialect.refuse(error)), False)
        refusal = self._refusal(call, who)
        if refusal is not None:
            return Work(_answered(refusal), False)
        assert who is not None
        try:
            names = _names(path)
            fields = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
        except (UnicodeDecodeError, ValueError):
            return Work(_answered(self._dialect.refused(HTTPStatus.BAD_REQUEST, "the address cannot be read")), False)
        method = "GET" if call.method == b"HEAD" else call.method.decode("latin-1")
        allowed: list[str] = []
        for route, parts in self._candidates(names):
            if not _fits(parts, names):
                continue
            if route.method != method:
                allowed.append(route.method)
                continue
            found = tuple(name for part, name in zip(parts, names, strict=True) if part == "*")
            kind = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
            overloaded = self.overloaded() if route.gives else None
            if overloaded is not None:
                return Work(_answered(overloaded), False)
            given = call.headers.get(b"content-digest")
            if given is not None:
                try:
                    verify_digest(given, call.body)
                except LonghallError as error:
                    return Work(_answered(self._dialect.refuse(error)), False)
            wanted = wanted_digest(call.headers.get(b"want-content-digest"))
            asked = Asked(
                found,
                dict(fields),
                call.body,
                kind,
                caller_of(who, call.connection.peer, is_encrypted(call.connection.origin), door="http"),
                wanted,
            )
            return Work(self._answer(route, asked), route.waits)
        if allowed:
            line = f"use {' or '.join(allowed)}"
            headers = f"Allow: {', '.join(allowed)}\r\n"
            not_allowed = self._dialect.refused(HTTPStatus.METHOD_NOT_ALLOWED, line)
            return Work(_answered(not_allowed._replace(headers=headers)), False)
        line = "there is nothing of this name; see docs/http.md"
        return Work(_answered(self._dialect.refused(HTTPStatus.NOT_FOUND, line)), False)

    def _candidates(self, names: tuple[str, ...]) -> list[tuple[Route, tuple[str, ...]]]:
        """The routes that a path of these names may fit."""
        count, first, last = _shape(names)
        return self._routes.get((count, first, last), []) + self._routes.get((count, first, "*"), [])

    def overloaded(self) -> Response | None:
        if not self.budget.is_overdrawn:
            return None
        return self._dialect.refuse(LonghallError(Code.OVERLOADED, "too much is under way; ask again in a moment"))

    async def _answer(self, route: Route, asked: Asked) -> Response:
        try:
            if self._access is not None and self._access.active:
                self._permit(self._access, route, asked)
            if self._throttling is not None and self._throttling.rates.active:
                return await self._answer_limited(self._throttling, route, asked)
            return _response(await route.handler(self._service, asked), asked)
        except LonghallError as error:
            now_s = asyncio.get_running_loop().time()
            self._refused.note(f"{route.method} {route.path}", error.code.value, str(error), now_s)
            return self._dialect.refuse(error)
        except Exception:
            _log.exception("handler failed", extra={"route": f"{route.method} {route.path}"})
            return self._dialect.refused(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the log of the node says why")

    async def _answer_limited(self, throttling: ApiThrottling, route: Route, asked: Asked) -> Response:
        """Answer a request that counts in rate limits, or refuse it with 429."""
        limited = throttling.of(route.limited_as, route.gives, route.path, asked)
        try:
            limited.admit()
        except RateLimited as error:
            refusal = self._dialect.refuse(error)
            return refusal._replace(status=HTTPStatus.TOO_MANY_REQUESTS, headers=limited.headers(error.allowance))
        reply = await route.handler(self._service, asked)
        response = _response(reply, asked)
        limited.charge(reply.value, len(response.body))
        return response._replace(headers=response.headers + limited.headers())

    def _permit(self, access: AccessGuard, route: Route, asked: Asked) -> None:
        """Raises ACCESS_REFUSED if the route needs a permission that the client does not have."""
        permission = permission_of(self.prefix, route.method, route.path)
        if permission is None:
            raise LonghallError(Code.ACCESS_REFUSED, f"no permission is known for {route.method} {route.path}")
        if permission.need is not None:
            access.require(asked.caller, [(permission.need,)])

    # Authentication

    def _refusal(self, call: HttpCall, who: Principal | None) -> Response | None:
        """The refusal of a request that must not be handled; None if it is allowed."""
        if self._stopping:
            return self._dialect.refuse(LonghallError(Code.NOT_READY, "the node is stopping; ask again in a moment"))
        if self._closed:
            return self._dialect.refused(HTTPStatus.FORBIDDEN, self._closed)
        headers = call.headers
        host = headers.get(b"host", b"")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            return self._dialect.refused(HTTPStatus.FORBIDDEN, "pages of other sites may not ask")
        asks = self._authentication is not None and self._authentication.required
        if not asks and not _is_own_name(host.decode("latin-1")):
            line = "ask 127.0.0.1 or localhost: other names are refused here"
            return self._dialect.refused(HTTPStatus.FORBIDDEN, line)
        if who is None:
            line = "show a user and its password (or an access key and its secret) as HTTP Basic, or a token as Bearer"
            refused = self._dialect.refused(HTTPStatus.UNAUTHORIZED, line)
            # A page of the console has its own log-in: the browser must not ask.
            is_of_page = headers.get(b"sec-fetch-mode", b"navigate") != b"navigate"
            return refused._replace(headers="") if is_of_page else refused
        call.connection.know()
        if call.body and not self._dialect.accepts(
            headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        ):
            line = f"say Content-Type: {JSON} (or {BYTES} for a message)"
            return self._dialect.refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, line)
        return None


def _response(reply: Reply, asked: Asked) -> Response:
    if isinstance(reply.value, bytes):  # Bytes have no field for a checksum, so the response always has one.
        return Response(reply.status, reply.value, BYTES, digest_header(asked.digest or "crc32c", reply.value))
    body = msgspec.json.encode(reply.value) if reply.status not in _EMPTY or reply.value is not None else b""
    headers = reply.headers + (digest_header(asked.digest, body) if asked.digest else "")
    return Response(reply.status, body, JSON, headers)


_EMPTY: Final = (HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)  # Without a value they have no body.
_KINDS: Final = (JSON.encode(), BYTES.encode())


_Shape = tuple[int, str, str]  # Of a path: how many parts it has, the first and the last.


def _shape(parts: tuple[str, ...]) -> _Shape:
    return len(parts), parts[0], parts[-1]


def _names(path: str) -> tuple[str, ...]:
    parts = path.removesuffix("/").split("/")
    return tuple(unquote(part, errors="strict") for part in parts) if "%" in path else tuple(parts)


def _fits(parts: tuple[str, ...], names: tuple[str, ...]) -> bool:
    if len(parts) != len(names):
        return False
    return all(name != "" if part == "*" else part == name for part, name in zip(parts, names, strict=True))


def _is_own_name(host: str) -> bool:
    """True if a Host header names the machine itself. A web page can have any other name resolve to this address."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name == "127.0.0.1" or name.lower() == "localhost":  # Not parsed: most requests have it.
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _answered(response: Response) -> Response:
    return response
