"""Sessions of browsers: a signed cookie that says who has logged in, and when the user had last changed by then.

    base64url(msgpack [version, tenant, user, kind, changed_ms, until_ms, id]) "." base64url(HMAC-SHA256 of that text)

A session is valid until its time ends, unless it was ended before: by a logout, which the directory notes, by a change
of the user's credentials, by disabling or removing the user or its tenant, or by a change of its rights. The time of
the login does not count for that: it is of another clock than the changes. The key of the signature follows from the
secret that the processes of a node, and the nodes of a cluster, share; nothing else is stored.

A request that changes something counts only if the browser says that a page of this origin made it (`is_same_origin`):
a page of another site can make a browser send the cookie, and cannot change what the browser says of it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

import msgspec

from longhall.directory.accounts import ENDED_SESSION
from longhall.errors import Code, LonghallError
from longhall.front.authenticator import Authenticator
from longhall.front.identity import Principal

VERSION: Final = 1
ID_BYTES: Final = 12
COOKIE_CHARACTERS_MAX: Final = 2_048
ENDED_MAX: Final = 10_000  # Sessions that were ended by a logout and are remembered; the oldest are forgotten first.
EndEverywhere = Callable[[str, int], Awaitable[None]]  # Notes the end of a session, with the time of its own end.
SAFE_METHODS: Final = (b"GET", b"HEAD")


class _Session(msgspec.Struct, array_like=True, frozen=True):
    version: int
    tenant: str
    user: str
    kind: str
    changed_ms: int  # Of the user, as this process knew it at the login.
    until_ms: int
    id: bytes


@final
class WebSessions:
    """The sessions of one process."""

    def __init__(
        self,
        authenticator: Authenticator,
        secret: bytes,
        lifetime_ms: int,
        randomness: Callable[[int], bytes],
        end_everywhere: EndEverywhere,
    ) -> None:
        self.lifetime_ms = lifetime_ms
        self._authenticator = authenticator
        self._key = hmac.digest(secret, b"longhall web sessions", "sha256")
        self._randomness = randomness
        self._end_everywhere = end_everywhere
        self._ended: dict[bytes, None] = {}  # At this process; the directory follows.

    def begin(self, principal: Principal) -> str:
        """The value of the cookie of a client that has logged in."""
        now_ms = self._authenticator.now_ms()
        until_ms = now_ms + self.lifetime_ms
        if principal.until_ms:
            until_ms = min(until_ms, principal.until_ms)
        who = (principal.tenant, principal.user, principal.kind)
        session = _Session(VERSION, *who, self._changed_ms(principal.user), until_ms, self._randomness(ID_BYTES))
        return self.signed(_encode(session))

    def principal_of(self, value: str) -> Principal | None:
        """The client of a session; None if it is not valid, or not any more."""
        session = self._read(value)
        if session is None or self._authenticator.now_ms() >= session.until_ms or self._has_ended(session.id):
            return None
        principal = Principal(session.tenant, session.user, session.kind)
        if self._changed_ms(session.user) > session.changed_ms:
            return None
        is_current = not principal.is_anonymous and self._authenticator.is_current(principal)
        return principal if is_current else None

    def _has_ended(self, session_id: bytes) -> bool:
        return session_id in self._ended or session_id.hex() in self._authenticator.directory.entries_of(ENDED_SESSION)

    def _changed_ms(self, name: str) -> int:
        user = self._authenticator.directory.accounts.users.get(name)
        return max(user.changed_ms, user.created_ms) if user is not None else 0

    async def end(self, value: str) -> None:
        """End a session: in this process at once, then in all others. LonghallError if one of those does not answer."""
        session = self._read(value)
        if session is not None and self._authenticator.now_ms() < session.until_ms:
            if len(self._ended) >= ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self._ended[session.id] = None
            await self._end_everywhere(session.id.hex(), session.until_ms)

    def of_request(self, method: bytes, headers: Mapping[bytes, bytes], *, tls: bool) -> Principal | None:
        """The client of a request by its cookie; None without a valid one. ACCESS_REFUSED if a page of another site
        made the request.
        """
        value = cookie_of(headers, cookie_name(tls=tls))
        principal = self.principal_of(value) if value else None
        if principal is not None and method not in SAFE_METHODS and not is_same_origin(headers):
            raise LonghallError(Code.ACCESS_REFUSED, "a page of another site may not use the session of this one")
        return principal

    def signed(self, payload: bytes) -> str:
        """A payload with its signature, as a cookie has it."""
        text = _to_text(payload)
        return f"{text}.{_to_text(hmac.digest(self._key, text.encode(), 'sha256'))}"

    def payload_of(self, value: str) -> bytes | None:
        """The payload of a value that this key has signed; None otherwise."""
        text, _, signature = value.partition(".")
        if len(value) > COOKIE_CHARACTERS_MAX:
            return None
        try:
            right = hmac.compare_digest(_to_bytes(signature), hmac.digest(self._key, text.encode(), "sha256"))
            return _to_bytes(text) if right else None
        except (ValueError, binascii.Error):
            return None

    def _read(self, value: str) -> _Session | None:
        payload = self.payload_of(value)
        try:
            session = _decode(payload) if payload is not None else None
        except msgspec.MsgspecError:
            return None
        return session if session is not None and session.version == VERSION else None


def cookie_name(*, tls: bool) -> str:
    """The name of the session's cookie. With TLS browsers bind a name that begins so to this host, and to TLS."""
    return "__Host-longhall-session" if tls else "longhall-session"


def cookie_of(headers: Mapping[bytes, bytes], name: str) -> str:
    """The value of a cookie of a request; empty without one."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def set_cookie(name: str, value: str, seconds: int, *, tls: bool) -> str:
    """The header line that sets a cookie for so many seconds; 0 removes it."""
    secure = "; Secure" if tls else ""
    return f"Set-Cookie: {name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}\r\n"


def is_same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """True if a page of this origin made the request, or the user by hand. Browsers say so; what says nothing is no
    browser of this decade, and is not believed.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] == headers.get(b"host", b"")


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _to_bytes(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Session).decode
