"""Authentication of Kafka connections by SASL: the states of a connection, and the steps of each mechanism.

    state          request                      what happens
    new            SaslHandshake, known name    exchanging; raw after version 0: tokens without headers follow
                   SaslHandshake, other name    error 33 with the list of names; the client may try another
                   SaslAuthenticate             error 34, closed
                   anything but ApiVersions     closed, if the door asks; else the connection is anonymous
    exchanging     SaslAuthenticate, last step  authenticated, or error 58 and closed after a delay
                   SaslAuthenticate, a step     exchanging
                   SaslHandshake                error 34, closed
    raw            a token                      as SaslAuthenticate, without codes: a failure closes
    authenticated  SaslHandshake                exchanging once more, if sessions end; else error 34
                   SaslAuthenticate             error 34

OAUTHBEARER (RFC 7628) is offered if the node has an identity provider. A refused token is answered with a JSON object;
the client acknowledges that with one byte, and the exchange ends with error 58, as Kafka's own servers do it.

A session that ends (`kafka_session_ms_max`, or the end of the client's token) is renewed by a second exchange on the
same connection, with the same principal. A request after its end closes the connection. While a client exchanges once
more, its answers wait.

The delay of a failure is the client's penalty: it costs this side a timer. This module does not write to connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from longhall.directory.accounts import MECHANISMS, ScramKey
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.front.authenticator import DoorAuthentication
from longhall.front.identity import ANONYMOUS, Principal
from longhall.front.scram import ScramExchange, ScramFailure
from longhall.world.ports import Entropy

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
OFFERED: Final = (PLAIN, *MECHANISMS)
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
FAILURE_DELAY_S: Final = 0.1  # As Kafka has it.
NONCE_BYTES: Final = 18
TOKEN_BYTES_MAX: Final = 16 * 1024
NEVER_S: Final = 1e18
REFUSED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism "

NEW: Final = "new"
EXCHANGING: Final = "exchanging"
RAW: Final = "raw"
AUTHENTICATED: Final = "authenticated"


class SaslStep(NamedTuple):
    """The answer to a step. With an error the connection is closed after the answer."""

    error: int = 0
    reason: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0


@final
class SaslSession:
    """The authentication of one connection."""

    def __init__(self, logins: DoorAuthentication, entropy: Entropy, peer: str, lifetime_ms: int = 0) -> None:
        """`lifetime_ms`: how long a login is valid; 0 for as long as the connection."""
        self.state = NEW
        self.principal = ANONYMOUS
        self.ends_s = NEVER_S  # In the time of the loop.
        self.mechanism = ""
        self._logins = logins
        self._entropy = entropy
        self._peer = peer
        self._lifetime_ms = lifetime_ms
        self._scram: ScramExchange | None = None
        self._is_last = False  # The next step of SCRAM is the last one, or the client's answer to a refused token.

    @property
    def offered(self) -> tuple[str, ...]:
        """The mechanisms that a client can choose from."""
        return OFFERED if self._logins.authenticator.provider is None else (*OFFERED, OAUTHBEARER)

    def handshake(self, mechanism: str, version: int) -> int:
        """The error code of a handshake; it decides the mechanism."""
        is_renewal = self.state == AUTHENTICATED and self.ends_s < NEVER_S and version > 0
        if self.state != NEW and not is_renewal:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.offered:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism = mechanism
        self.state = EXCHANGING if version > 0 else RAW
        self._is_last = False
        self._scram = None
        if mechanism in MECHANISMS:
            nonce = self._entropy.bytes(NONCE_BYTES).hex()
            self._scram = ScramExchange(mechanism, nonce, self._keys_of)
        return 0

    def step(self, token: bytes, now_s: float) -> SaslStep:
        """Take a token of the client. NOT_READY while the users are not known."""
        if self.state not in (EXCHANGING, RAW):
            return SaslStep(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate comes after SaslHandshake")
        if len(token) > TOKEN_BYTES_MAX:
            return self._refused("")
        if self.mechanism == OAUTHBEARER:
            return self._bearer(token, now_s)
        if self._scram is None:
            return self._plain(token, now_s)
        return self._scram_step(self._scram, token, now_s)

    async def prepare(self, token: bytes) -> None:
        """Do the slow part of `step`, which is to follow at once. NOT_READY if too many logins wait."""
        if self.mechanism == PLAIN and self.state in (EXCHANGING, RAW) and len(token) <= TOKEN_BYTES_MAX:
            login = _plain_login(token)
            if login is not None:
                await self._logins.prepare_login(login[1], login[2], self._peer)

    def _plain(self, token: bytes, now_s: float) -> SaslStep:
        login = _plain_login(token)
        if login is None:
            return self._refused("")
        acts_for, user, password = login
        if acts_for not in ("", user):
            return self._refused(user)
        principal = self._logins.check(user, password, self._peer)
        return self._logged_in(principal, now_s) if principal is not None else self._failure()

    def _bearer(self, token: bytes, now_s: float) -> SaslStep:
        if self._is_last:
            return self._failure()
        shown = bearer_token(token)
        login = self._logins.of_token(shown, self._peer) if shown else None
        if login is not None:
            return self._logged_in(login.principal, now_s, until_ms=login.until_ms)
        if not shown:
            self._logins.note(None, "", self._peer, self._logins.authenticator.now_ms())
        self._is_last = True
        return SaslStep(token=INVALID_TOKEN)

    def _scram_step(self, scram: ScramExchange, token: bytes, now_s: float) -> SaslStep:
        try:
            if not self._is_last:
                self._is_last = True
                return SaslStep(token=scram.first(token))
            if self._logins.is_shut_out(self._peer, scram.user):
                return self._failure()
            answer = scram.final(token)
        except ScramFailure:
            return self._refused(scram.user)
        principal = self._logins.authenticator.principal_of_user(scram.user)
        if principal is None:  # The user is disabled.
            return self._refused(scram.user)
        self._logins.note(principal, scram.user, self._peer, self._logins.authenticator.now_ms())
        return self._logged_in(principal, now_s, answer)

    def _keys_of(self, user: str) -> Sequence[ScramKey]:
        return self._logins.authenticator.scram_keys(user, self.mechanism)

    def _logged_in(self, principal: Principal, now_s: float, token: bytes = b"", until_ms: int = 0) -> SaslStep:
        """`until_ms`: when what the client has shown ends; 0: not by itself."""
        if not self.principal.is_anonymous and not principal.is_same(self.principal):
            return SaslStep(ErrorCode.SASL_AUTHENTICATION_FAILED, "Cannot change principals during re-authentication")
        self.principal = principal
        self.state = AUTHENTICATED
        lifetime_ms = self._lifetime_ms
        until_ms = until_ms or principal.until_ms
        if until_ms:
            left_ms = max(until_ms - self._logins.authenticator.now_ms(), 1)
            lifetime_ms = min(lifetime_ms, left_ms) if lifetime_ms else left_ms
        self.ends_s = now_s + lifetime_ms / 1000 if lifetime_ms else NEVER_S
        return SaslStep(token=token, lifetime_ms=lifetime_ms)

    def _refused(self, user: str) -> SaslStep:
        """The failure of a login that `DoorAuthentication.check` has not counted."""
        self._logins.note(None, user, self._peer, self._logins.authenticator.now_ms())
        return self._failure()

    def _failure(self) -> SaslStep:
        self.state = NEW
        return SaslStep(ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED + self.mechanism)


def _plain_login(token: bytes) -> tuple[str, str, str] | None:
    """Whom a client acts for, its user and its password; None if a token of PLAIN is malformed."""
    try:
        acts_for, user, password = (part.decode() for part in token.split(b"\0"))
    except ValueError:  # Not three parts, or not UTF-8.
        return None
    return acts_for, user, password


def bearer_token(message: bytes) -> str:
    """The token of a client's first message, `n,,^Aauth=Bearer TOKEN^A^A` (RFC 7628); empty if it is none."""
    head, _, rest = message.partition(b"\x01")
    if head[:2] not in (b"n,", b"y,") or not rest.endswith(b"\x01\x01"):
        return ""
    for pair in rest[:-2].split(b"\x01"):
        key, _, value = pair.partition(b"=")
        scheme, _, token = value.partition(b" ")
        if key == b"auth" and scheme.lower() == b"bearer":
            return token.strip().decode("latin-1")
    return ""
