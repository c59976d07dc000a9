"""The log-in of browsers: a form, a session cookie, and the identity provider.

    GET  /login             the form; for a browser with a session, who it is
    POST /login             user and password: a session, or the form again
    POST /login/out         the end of the session
    GET  /login/provider    to the identity provider, if there is one (`oidc.client_id`)
    GET  /login/callback    back from it

Passwords are checked as at every other door, with the same slowing of failed tries. Forms of other sites are refused,
so that nobody is logged in or out by a page that it visits.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final, final
from urllib.parse import parse_qs

from longhall.console.http import Response, Work
from longhall.console.login_page import SECURITY_HEADERS, STYLE, login_page, notice_page, session_page
from longhall.errors import LonghallError
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.front.calls import HttpCall
from longhall.front.identity import Principal, is_encrypted
from longhall.front.oidc.code_flow import FLOW_SECONDS_MAX, CodeFlow
from longhall.front.oidc.web_token import InvalidToken
from longhall.front.web_sessions import SAFE_METHODS, WebSessions, cookie_name, cookie_of, is_same_origin, set_cookie

HTML: Final = "text/html; charset=utf-8"
FORM: Final = b"application/x-www-form-urlencoded"
FORM_BYTES_MAX: Final = 8 * 1024
FIELDS_MAX: Final = 8
FOLLOWING_CHARACTERS_MAX: Final = 512
WRONG: Final = "User or password is wrong, or there were too many failed tries."
FLOW_COOKIE: Final = "longhall-flow"

_log = logging.getLogger("longhall.authentication")


@final
class LoginService:
    """The pages below /login. Fulfils `Service` of `console.http`."""

    prefix = "/login"
    body_bytes_max = FORM_BYTES_MAX

    def __init__(
        self, authentication: DoorAuthentication, sessions: WebSessions, budget: Budget, flow: CodeFlow | None = None
    ) -> None:
        self.budget = budget
        self._authentication = authentication
        self.sessions = sessions
        self._flow = flow
        self._stopping = False

    def login(self, call: HttpCall) -> Coroutine[Any, Any, Response | None] | None:
        """None: the form is read first."""
        return None

    def begin(self, call: HttpCall, path: str, query: str) -> Work:
        return Work(self._answer(call, path, query), False)

    def overloaded(self) -> Response | None:
        return None  # It delivers no messages.

    def close(self) -> None:
        """Refuse log-ins from now on: the node stops."""
        self._stopping = True

    async def _answer(self, call: HttpCall, path: str, query: str) -> Response:
        try:
            return await self._route(call, path, query)
        except LonghallError as error:
            return _shown(HTTPStatus.SERVICE_UNAVAILABLE, notice_page(str(error)), "Retry-After: 1\r\n")
        except Exception:
            _log.exception("log-in failed", extra={"path": path})
            return _shown(HTTPStatus.INTERNAL_SERVER_ERROR, notice_page("Failed; the log of the node says why."))

    async def _route(self, call: HttpCall, path: str, query: str) -> Response:
        method = call.method if call.method != b"HEAD" else b"GET"
        found = {
            (b"GET", ""): self._show,
            (b"POST", ""): self._log_in,
            (b"POST", "/out"): self._log_out,
            (b"GET", "/provider"): self._go,
            (b"GET", "/callback"): self._come_back,
        }.get((method, path))
        if path == "/style.css" and method == b"GET":
            return Response(HTTPStatus.OK, STYLE, "text/css; charset=utf-8")
        if found is None:
            return _shown(HTTPStatus.NOT_FOUND, notice_page("There is nothing here: try /login."))
        if self._stopping:
            return _shown(HTTPStatus.SERVICE_UNAVAILABLE, notice_page("The node is stopping."), "Retry-After: 1\r\n")
        if method not in SAFE_METHODS and not is_same_origin(call.headers):
            return _shown(HTTPStatus.FORBIDDEN, notice_page("Forms of other sites are refused."))
        return await found(call, query)

    # Password

    async def _show(self, call: HttpCall, query: str) -> Response:
        if not self._authentication.required:
            return _shown(HTTPStatus.OK, notice_page("This node has no users: nobody has to log in."))
        principal = self.sessions.principal_of(cookie_of(call.headers, cookie_name(tls=_tls(call))))
        if principal is not None:
            return _shown(HTTPStatus.OK, session_page(principal.user, principal.tenant))
        return self._form(HTTPStatus.OK, _following(_fields(query)))

    async def _log_in(self, call: HttpCall, query: str) -> Response:
        kind = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != FORM or len(call.body) > FORM_BYTES_MAX:
            return _shown(HTTPStatus.BAD_REQUEST, notice_page("This is not the form of the log-in."))
        fields = _fields(call.body.decode("latin-1"))
        user, password, following = fields.get("user", ""), fields.get("password", ""), _following(fields)
        await self._authentication.prepare_login(user, password, call.connection.peer)
        principal = self._authentication.check(user, password, call.connection.peer)
        if principal is None:
            return self._form(HTTPStatus.UNAUTHORIZED, following, WRONG, user)
        return self._enter(call, principal, following)

    async def _log_out(self, call: HttpCall, query: str) -> Response:
        tls = _tls(call)
        name = cookie_name(tls=tls)
        try:
            await self.sessions.end(cookie_of(call.headers, name))
        except LonghallError:
            return _shown(HTTPStatus.SERVICE_UNAVAILABLE, notice_page("Not all nodes know of the log-out: try again."))
        return _redirect("/login", set_cookie(name, "", 0, tls=tls))

    def _form(self, status: HTTPStatus, following: str, error: str = "", user: str = "") -> Response:
        page = login_page(error=error, user=user, following=following, with_provider=self._flow is not None)
        return _shown(status, page)

    def _enter(self, call: HttpCall, principal: Principal, following: str, headers: str = "") -> Response:
        tls = _tls(call)
        seconds = self.sessions.lifetime_ms // 1000
        cookie = set_cookie(cookie_name(tls=tls), self.sessions.begin(principal), seconds, tls=tls)
        return _redirect(following or "/login", cookie + headers)

    # Identity provider

    async def _go(self, call: HttpCall, query: str) -> Response:
        if self._flow is None:
            return _shown(HTTPStatus.NOT_FOUND, notice_page("There is no identity provider here."))
        state, address = await self._flow.begin()
        following = _following(_fields(query))
        until_ms = self._authentication.authenticator.now_ms() + FLOW_SECONDS_MAX * 1000
        value = self.sessions.signed(f"flow {state} {until_ms} {following}".encode())
        return _redirect(address, set_cookie(FLOW_COOKIE, value, FLOW_SECONDS_MAX, tls=_tls(call)))

    async def _come_back(self, call: HttpCall, query: str) -> Response:
        if self._flow is None:
            return _shown(HTTPStatus.NOT_FOUND, notice_page("There is no identity provider here."))
        fields, now_ms = _fields(query), self._authentication.authenticator.now_ms()
        payload = self.sessions.payload_of(cookie_of(call.headers, FLOW_COOKIE)) or b""
        word, state, until, following = [*payload.decode("latin-1").split(" ", 3), "", "", "", ""][:4]
        begun = word == "flow" and until.isdecimal() and now_ms < int(until)
        if not begun or not hmac.compare_digest(state.encode(), fields.get("state", "").encode()):
            return self._form(HTTPStatus.BAD_REQUEST, "", "This log-in was not begun here, or took too long.")
        peer = call.connection.peer
        if self._authentication.is_shut_out(peer):
            return self._form(HTTPStatus.UNAUTHORIZED, following, WRONG)
        if "error" in fields:
            return self._form(HTTPStatus.UNAUTHORIZED, following, "The identity provider has refused the log-in.")
        principal, user = None, ""
        try:
            user = (await self._flow.finish(fields.get("code", ""), state, now_ms)).user
            principal = self._authentication.authenticator.principal_of_user(user)
        except InvalidToken as error:
            _log.info("a log-in by the identity provider is refused", extra={"reason": str(error)})
        self._authentication.note(principal, user, peer, now_ms)
        if principal is None:
            return self._form(HTTPStatus.UNAUTHORIZED, following, "The identity provider's user may not log in here.")
        return self._enter(call, principal, following, set_cookie(FLOW_COOKIE, "", 0, tls=_tls(call)))


def _shown(status: HTTPStatus, page: bytes, headers: str = "") -> Response:
    return Response(status, page, HTML, SECURITY_HEADERS + headers)


def _redirect(address: str, headers: str) -> Response:
    return Response(HTTPStatus.SEE_OTHER, b"", HTML, f"Location: {address}\r\n{SECURITY_HEADERS}{headers}")


def _tls(call: HttpCall) -> bool:
    return is_encrypted(call.connection.origin)


def _fields(text: str) -> dict[str, str]:
    """The fields of a form or a query; none if it cannot be read."""
    try:
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except (UnicodeDecodeError, ValueError):
        return {}
    return {name: values[0] for name, values in found.items()}


def _following(fields: dict[str, str]) -> str:
    """The path to go to afterwards: one of this origin, or none."""
    path = fields.get("next", "")
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and len(path) <= FOLLOWING_CHARACTERS_MAX
    return path if is_local and path.isascii() and path.isprintable() and " " not in path else ""
