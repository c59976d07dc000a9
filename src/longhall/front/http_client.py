"""One HTTP request to another service: JSON in, JSON out, a connection of its own, and every size bounded.

Key services (`front/keys`) and the identity provider (`front/oidc`) are asked this way. The caller bounds the time and
the number of requests. Redirects are not followed: a service that moves is an error, and a request may carry
credentials.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, Final, NamedTuple, final
from urllib.parse import urlsplit

from longhall.errors import Code, LonghallError

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 256 * 1024


class HttpReply(NamedTuple):
    """The status of a reply, and the JSON object of its body; empty if it has none."""

    status: int
    body: dict[str, Any]


class Purpose(NamedTuple):
    """What a service is asked for: the setting that names its address, what it is called, and its error."""

    setting: str
    service: str
    unavailable: Code


KEY_SERVICE: Final = Purpose("keys", "key service", Code.KEY_UNAVAILABLE)
IDENTITY_PROVIDER: Final = Purpose("oidc", "identity provider", Code.NOT_READY)


@final
class HttpEndpoint:
    """The address of a service, http:// or https://. With `authority` only certificates of this file count."""

    def __init__(self, url: str, authority: str = "", purpose: Purpose = KEY_SERVICE) -> None:
        """Raises INVALID_CONFIGURATION."""
        self._purpose = purpose
        setting = purpose.setting
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"{setting}: '{url}' is not an address of the {purpose.service}"
            )
        self.scheme = parts.scheme
        self.host = parts.hostname
        try:
            self.port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"{setting}: '{url}' has an invalid port") from None
        self.path = parts.path.rstrip("/")
        self.authority = parts.netloc
        try:
            self._tls = ssl.create_default_context(cafile=authority or None) if parts.scheme == "https" else None
        except (OSError, ssl.SSLError) as error:
            raise LonghallError(Code.INVALID_CONFIGURATION, f"{setting}: {authority}: {error}") from None

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> HttpReply:
        """Post JSON. The error of the purpose if there is no answer that can be read."""
        return await self._ask("POST", path, {**headers, "Content-Length": str(len(body))}, body)

    async def get(self, path: str) -> HttpReply:
        """Get JSON. The error of the purpose if there is no answer that can be read."""
        return await self._ask("GET", path, {"Accept": "application/json"}, b"")

    async def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> HttpReply:
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self._tls, limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise self._unavailable(str(error.strerror or error)) from None
        try:
            lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {self.authority}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            lines += ["", ""]
            writer.write("\r\n".join(lines).encode() + body)
            return await self._read(reader)
        except (OSError, EOFError, ValueError) as error:
            raise self._unavailable(str(error) or type(error).__name__) from None
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> HttpReply:
        head = (await _head(reader)).decode("latin-1").split("\r\n")
        words = head[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
            raise ValueError("the answer is not HTTP")
        fields = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        if fields.get("transfer-encoding", "").lower() == "chunked":
            body = await _chunks(reader)
        elif "content-length" in fields:
            size = int(fields["content-length"])
            if not 0 <= size <= BODY_BYTES_MAX:
                raise ValueError(f"the answer has {size} bytes")
            body = await reader.readexactly(size)
        else:
            body = await _rest(reader)
        try:
            decoded = json.loads(body) if body.strip() else {}
        except ValueError:
            decoded = {}
        return HttpReply(int(words[1]), decoded if isinstance(decoded, dict) else {})

    def _unavailable(self, why: str) -> LonghallError:
        purpose = self._purpose
        return LonghallError(purpose.unavailable, f"the {purpose.service} at {self.authority} did not answer: {why}")


async def _head(reader: asyncio.StreamReader) -> bytes:
    """The status line and the fields."""
    try:
        return (await reader.readuntil(b"\r\n\r\n"))[:-4]
    except asyncio.LimitOverrunError:
        raise ValueError("the head of the answer is too large") from None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size < 0 or len(body) + size > BODY_BYTES_MAX:
            raise ValueError("the answer is too large")
        body += await reader.readexactly(size)
        await reader.readuntil(b"\r\n")
        if size == 0:
            return body


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) <= BODY_BYTES_MAX:
        more = await reader.read(BODY_BYTES_MAX + 1 - len(body))
        if not more:
            return body
        body += more
    raise ValueError("the answer is too large")
