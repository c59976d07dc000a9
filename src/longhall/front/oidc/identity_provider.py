"""The identity provider: whose tokens are accepted, and its public keys, which are read again from time to time.

    keys            a token whose key is known    a token whose key is not known
    none yet        -                             NOT_READY, which clients retry
    known           verified at once              the keys are read again, at most every ASK_AGAIN_S; NOT_READY until
                                                  that read has ended, then refused
    too old         NOT_READY                     NOT_READY

No login waits for the provider: one task reads its keys, and a provider that hangs or is gone costs nothing but new
keys until the known ones are too old (`STALE_S_MAX`). The keys come from a URL, from the URL that the provider's own
configuration names (`ISSUER/.well-known/openid-configuration`), or from a file.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, final
from urllib.parse import urlsplit

from longhall.errors import Code, LonghallError
from longhall.front.http_client import IDENTITY_PROVIDER, HttpEndpoint
from longhall.front.oidc.web_keys import WebKeySet, read_key_set
from longhall.front.oidc.web_token import Expected, InvalidToken, VerifiedToken, read_head, verify

READ_S_MAX: Final = 5.0  # One read of the keys.
ASK_AGAIN_S: Final = 10.0  # Between two reads for the sake of unknown keys,
RETRY_S_MIN: Final = 1.0  # and after failures, doubling
RETRY_S_MAX: Final = 30.0  # up to this.
STALE_S_MAX: Final = 24 * 3600.0  # Keys that could not be read again for so long are not used any more.
WELL_KNOWN: Final = "/.well-known/openid-configuration"

_OK: Final = 200
_log = logging.getLogger("longhall.authentication")


@final
class IdentityProvider:
    """The tokens of one issuer."""

    def __init__(
        self, expected: Expected, source: str, authority: str, refresh_s: float, read_file: Callable[[str], str]
    ) -> None:
        """`source` is the URL or the file of the keys; empty if the issuer's configuration names it."""
        self.reads: Counter[str] = Counter({"succeeded": 0, "failed": 0})
        self._expected = expected
        self._source = source
        self._authority = authority
        self._refresh_s = refresh_s
        self._read_file = read_file
        self._keys: WebKeySet | None = None
        self._read_at_s = 0.0  # The last success, and
        self._tried_at_s = 0.0  # the last try.
        self._wanted = asyncio.Event()
        if not source or _is_url(source):
            check_address(source or expected.issuer, authority)

    def check(self, token: str, now_ms: int, expected: Expected | None = None) -> VerifiedToken:
        """The user of a valid token. InvalidToken if it is refused, NOT_READY while that cannot be known. `expected` is
        for tokens of another kind than access tokens.
        """
        head = read_head(token)
        now_s = asyncio.get_running_loop().time()
        keys = self._keys
        if keys is None or now_s - self._read_at_s > STALE_S_MAX:
            raise _not_ready()
        if not keys.candidates(head.key_id, head.algorithm):
            if now_s - self._tried_at_s >= ASK_AGAIN_S:
                self._wanted.set()
            if self._wanted.is_set():
                raise _not_ready()
            raise InvalidToken("the key of the token is not known")
        return verify(token, head, keys, expected or self._expected, now_ms)

    async def run(self) -> None:
        """Read the keys now, and again from time to time. It does not end."""
        pause_s = RETRY_S_MIN
        while True:
            if await self._read():
                pause_s = RETRY_S_MIN
                await self._wait(self._refresh_s)
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _read(self) -> bool:
        """Read the keys; False if they could not be read, and those before stay."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(READ_S_MAX):
                self._keys = await self._key_set()
        except (LonghallError, OSError, ValueError, TimeoutError) as error:
            self.reads["failed"] += 1
            _log.warning(
                "the keys of the identity provider cannot be read",
                extra={"issuer": self._expected.issuer, "reason": str(error) or type(error).__name__},
            )
            self._tried_at_s = loop.time()
            return False
        self.reads["succeeded"] += 1
        self._read_at_s = self._tried_at_s = loop.time()
        self._wanted.clear()
        return True

    async def _key_set(self) -> WebKeySet:
        if self._source and not _is_url(self._source):
            text = self._read_file(self._source)
            document = json.loads(text)
            if not isinstance(document, dict):
                raise ValueError(f"{self._source} is not a JSON object")
            return read_key_set(document)
        return read_key_set(await self._get(self._source or await self._keys_url()))

    async def _keys_url(self) -> str:
        configuration = await self._get(self._expected.issuer.rstrip("/") + WELL_KNOWN)
        if configuration.get("issuer") != self._expected.issuer:
            raise ValueError(f"the configuration is that of another issuer, {configuration.get('issuer')!r}")
        url = configuration.get("jwks_uri")
        if not isinstance(url, str):
            raise ValueError("the configuration has no 'jwks_uri'")
        return url

    async def _get(self, url: str) -> dict[str, object]:
        reply = await check_address(url, self._authority).get("")
        if reply.status != _OK:
            raise ValueError(f"{url} answered with status {reply.status}")
        return reply.body


def _is_url(source: str) -> bool:
    return "://" in source


def check_address(url: str, authority: str) -> HttpEndpoint:
    """The endpoint of a URL. INVALID_CONFIGURATION if its keys could be replaced on their way."""
    endpoint = HttpEndpoint(url, authority, IDENTITY_PROVIDER)
    host = urlsplit(url).hostname or ""
    if endpoint.scheme != "https" and host not in ("localhost", "127.0.0.1", "::1"):
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"oidc: '{url}' needs https, because the keys decide who logs in"
        )
    return endpoint


def _not_ready() -> LonghallError:
    return LonghallError(Code.NOT_READY, "the keys of the identity provider are not known; try again in a moment")
