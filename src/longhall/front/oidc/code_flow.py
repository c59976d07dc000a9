"""The log-in of browsers at an identity provider: OpenID Connect, authorization code flow with PKCE (RFC 7636).

    browser                    this node                         provider
    GET /login/provider   ->   cookie with `state`, redirect ->  asks the user
    GET /login/callback   <-------------------------- redirect with `code` and `state`
                          ->   POST code and verifier        ->  ID token: signature, issuer, audience, nonce

The state is random, and bound to the browser by a signed cookie. Verifier and nonce follow from the state under a key
of this node, so nothing is stored and any process of the node can end what another one began. An ID token proves who
the user is; what the user may do is in the directory.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple, final
from urllib.parse import quote, urlencode, urlsplit

from longhall.errors import Code, LonghallError
from longhall.front.http_client import IDENTITY_PROVIDER, HttpEndpoint
from longhall.front.oidc.identity_provider import WELL_KNOWN, IdentityProvider, check_address
from longhall.front.oidc.web_token import Expected, InvalidToken, VerifiedToken

STATE_BYTES: Final = 16
FLOW_SECONDS_MAX: Final = 600  # Within which a user has to log in at the provider.
EXCHANGES_MAX: Final = 16  # Under way at the provider.
EXCHANGE_S_MAX: Final = 10.0
KEYS_PAUSE_S: Final = 0.2
CODE_CHARACTERS_MAX: Final = 4_096
_OK: Final = 200


class ClientRegistration(NamedTuple):
    """This node as the provider knows it: `secret` is empty for a public client."""

    client_id: str
    secret: str
    redirect_uri: str


class _Endpoints(NamedTuple):
    authorization: str
    token: HttpEndpoint


@final
class CodeFlow:
    """The flow of one node with one provider."""

    def __init__(
        self,
        provider: IdentityProvider,
        expected: Expected,
        client: ClientRegistration,
        authority: str,
        secret: bytes,
        randomness: Callable[[int], bytes],
    ) -> None:
        """`expected` has the issuer and the claim of the user; the audience of an ID token is the client id."""
        self._provider = provider
        self._expected = expected._replace(audience=client.client_id)
        self._client = client
        self._authority = authority
        self._key = hmac.digest(secret, b"longhall code flow", "sha256")
        self._randomness = randomness
        self._endpoints: _Endpoints | None = None
        self._places = asyncio.Semaphore(EXCHANGES_MAX)

    async def begin(self) -> tuple[str, str]:
        """A new state, and the address at the provider that the browser is sent to. NOT_READY without an answer."""
        endpoints = await self._find()
        state = self._randomness(STATE_BYTES).hex()
        challenge = _base64url(hashlib.sha256(self._verifier(state).encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": self._client.redirect_uri,
            "scope": "openid",
            "state": state,
            "nonce": self._derived("nonce", state),
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(endpoints.authorization).query else "?"
        return state, f"{endpoints.authorization}{separator}{urlencode(query)}"

    async def finish(self, code: str, state: str, now_ms: int) -> VerifiedToken:
        """The user that has logged in at the provider. InvalidToken if it is refused, NOT_READY without an answer."""
        if not 0 < len(code) <= CODE_CHARACTERS_MAX:
            raise InvalidToken("the code is empty or too long")
        if self._places.locked():
            raise LonghallError(Code.NOT_READY, "too many log-ins are under way; try again in a moment")
        async with self._places:
            try:
                async with asyncio.timeout(EXCHANGE_S_MAX):
                    token = await self._exchange(code, state)
                    verified = await self._verify(token, now_ms)
            except TimeoutError:
                raise LonghallError(Code.NOT_READY, "the identity provider did not answer in time") from None
        if not hmac.compare_digest(verified.nonce, self._derived("nonce", state)):
            raise InvalidToken("the ID token belongs to another log-in")
        return verified

    async def _exchange(self, code: str, state: str) -> str:
        endpoints, client = await self._find(), self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.redirect_uri,
            "client_id": client.client_id,
            "code_verifier": self._verifier(state),
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if client.secret:
            shown = f"{quote(client.client_id, safe='')}:{quote(client.secret, safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(shown.encode()).decode()
        reply = await endpoints.token.post("", headers, urlencode(form).encode())
        token = reply.body.get("id_token")
        if reply.status != _OK or not isinstance(token, str):
            raise InvalidToken(f"the provider refused the code: {reply.status} {str(reply.body.get('error'))[:100]}")
        return token

    async def _verify(self, token: str, now_ms: int) -> VerifiedToken:
        """The user of an ID token. A new key of the provider is waited for."""
        while True:
            try:
                return self._provider.check(token, now_ms, self._expected)
            except LonghallError:
                await asyncio.sleep(KEYS_PAUSE_S)  # The time of the exchange ends it.

    async def _find(self) -> _Endpoints:
        """The provider's endpoints, which are asked for once."""
        if self._endpoints is None:
            issuer = self._expected.issuer
            try:
                async with asyncio.timeout(EXCHANGE_S_MAX):
                    reply = await check_address(issuer.rstrip("/") + WELL_KNOWN, self._authority).get("")
            except TimeoutError:
                raise LonghallError(Code.NOT_READY, "the identity provider did not answer in time") from None
            authorization, token = (reply.body.get(f"{name}_endpoint") for name in ("authorization", "token"))
            if reply.status != _OK or not isinstance(authorization, str) or not isinstance(token, str):
                raise LonghallError(Code.NOT_READY, "the identity provider names no endpoints for a log-in")
            check_address(authorization.partition("?")[0], self._authority)
            self._endpoints = _Endpoints(authorization, HttpEndpoint(token, self._authority, IDENTITY_PROVIDER))
            check_address(token, self._authority)
        return self._endpoints

    def _verifier(self, state: str) -> str:
        return self._derived("verifier", state)

    def _derived(self, purpose: str, state: str) -> str:
        return _base64url(hmac.digest(self._key, f"{purpose} {state}".encode(), "sha256"))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
