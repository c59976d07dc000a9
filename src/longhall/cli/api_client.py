"""The HTTP API client of commands: one connection, JSON both ways, and every failure as one line."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, TypeVar, final
from urllib.parse import quote, urlencode

import msgspec

from longhall.cli.addresses import parse_http_address, unreachable, untrusted, wants_tls
from longhall.cli.exits import CommandError, Exit
from longhall.cli.profiles import HttpTarget, find_http
from longhall.client.tls import http_connection
from longhall.console.api.asked import BYTES, JSON, PREFIX
from longhall.console.api.content_digest import digest_value, verify_digest
from longhall.console.api.refusals import ApiRefusal
from longhall.errors import LonghallError

TIMEOUT_S: Final = 30.0
_DIGEST: Final = "crc32c"

_T = TypeVar("_T")


class ListPage(Protocol):
    """A page of a list in JSON."""

    next: str  # What the request for the page behind it says as `after`; empty on the last one.


_Paged = TypeVar("_Paged", bound=ListPage)
_ADVICE: Final = {
    "unknown-queue": "`longhall queue list` shows what there is",
    "unknown-exchange": "`longhall exchange list` shows what there is",
    "unknown-virtual-host": "`rabbitmqadmin list vhosts` shows what there is",
    "unknown-topic": "`longhall topic list` shows what there is",
    "unknown-message": "`longhall dlq list` shows what there is",
    "topic-exists": "`longhall queue create QUEUE --topic NAME` makes a queue over a topic",
    "queue-exists": "choose another name, or `longhall queue alter` it",
    "queue-full": "receive from it, purge it, or raise its bound with `longhall queue alter`",
    "message-too-large": "raise --message-bytes or --whole-bytes of the queue",
    "message-leased": "wait until its consumer is done with it",
    "purge-running": "wait a minute",
    "move-running": "wait for it, or stop it with `longhall dlq cancel`",
    "move-unknown": "`longhall dlq moves` shows what there is",
    "not-kept": "`longhall queue alter --settled keep` makes it keep what is settled from now on",
    "too-many-in-flight": "settle some, or raise --in-flight of the queue",
    "storage-full": "free space on the node's disk; it recovers by itself",
    "not-ready": "the node is starting or stopping; try again in a moment",
    "overloaded": "try again in a moment",
    "unauthorized": "set LONGHALL_USER and LONGHALL_PASSWORD (or LONGHALL_TOKEN), or write them into a profile",
    "unknown-entry": "`longhall user list`, `longhall tenant list` and `longhall limit list` show what there is",
}


@final
class ApiClient:
    """A client of one node. The connection stays open until the process ends."""

    def __init__(self, place: HttpTarget, patience_s: float = TIMEOUT_S) -> None:
        self.place = place
        self._patience_s = patience_s
        self._address = parse_http_address(place.address)
        context = place.tls.context() if wants_tls(place.address, place.tls) else None
        self._connection = http_connection(self._address.host, self._address.port, context)

    def ask(
        self,
        method: str,
        path: str,
        shape: type[_T],
        value: object = None,
        query: Mapping[str, object] | None = None,
        wait_s: float = 0.0,
    ) -> _T:
        """Send one request and decode the response. `wait_s` is how long the node may block on purpose."""
        body = None if value is None else msgspec.json.encode(value)
        return self._decoded(self._raw(method, path, body, JSON, query, wait_s), shape)

    def pages(self, path: str, shape: type[_Paged], query: Mapping[str, object]) -> Iterator[_Paged]:
        """All pages of a list, from the first to the last."""
        after = ""
        while True:
            page = self.ask("GET", path, shape, query={**query, "after": after})
            yield page
            after = page.next
            if not after:
                return

    def give(
        self, method: str, path: str, data: bytes, shape: type[_T], query: Mapping[str, object] | None = None
    ) -> _T:
        """Send one request whose body is plain bytes."""
        return self._decoded(self._raw(method, path, data, BYTES, query, 0.0), shape)

    def take(self, method: str, path: str, value: object) -> bytes:
        """Send one request and return the response as plain bytes."""
        return self._raw(method, path, msgspec.json.encode(value), JSON, None, 0.0)

    def _decoded(self, data: bytes, shape: type[_T]) -> _T:
        try:
            return msgspec.json.decode(data, type=shape)
        except msgspec.DecodeError:
            raise self._stranger() from None

    def _raw(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        query: Mapping[str, object] | None,
        wait_s: float,
    ) -> bytes:
        target = PREFIX + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Want-Content-Digest": f"{_DIGEST}=1"}
        if body is not None:
            headers |= {"Content-Type": kind, "Content-Digest": digest_value(_DIGEST, body)}
        if self.place.secret and not self.place.access_key:
            headers["Authorization"] = f"Bearer {self.place.secret}"
        elif self.place.access_key:
            shown = f"{self.place.access_key}:{self.place.secret}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(shown).decode()}"
        connection = self._connection
        connection.timeout = self._patience_s + wait_s
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        try:
            answer = self._exchange(method, target, body, headers)
            data = answer.read()
        except TimeoutError:
            raise CommandError(f"the node at {self.place.address} did not answer in time", Exit.TIMED_OUT) from None
        except http.client.HTTPException:
            raise self._stranger() from None
        except (ConnectionResetError, BrokenPipeError):
            raise CommandError(
                f"the connection to {self._address} was closed; the node has stopped, or it is no HTTP door",
                Exit.UNREACHABLE,
            ) from None
        except ssl.SSLError as error:
            raise untrusted(self._address, error) from None
        except OSError:
            raise unreachable(self._address) from None
        if answer.status >= 400:
            raise self._refused(answer.status, data)
        self._verify(answer, data)
        return data

    def _verify(self, answer: http.client.HTTPResponse, data: bytes) -> None:
        """Refuse a response that was damaged on its way. Old nodes give no checksum."""
        given = answer.headers.get("Content-Digest")
        if given is None:
            return
        try:
            verify_digest(given.encode("latin-1"), data)
        except LonghallError:
            raise CommandError(
                f"the answer of {self.place.address} was damaged on its way; try again", Exit.REFUSED
            ) from None

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request. A kept connection may be closed by the node meanwhile, so a GET is tried a second time."""
        kept = self._connection.sock is not None
        try:
            self._connection.request(method, target, body, headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._connection.close()
            if not kept or method != "GET":
                raise
            self._connection.request(method, target, body, headers)
            return self._connection.getresponse()

    def _refused(self, status: int, data: bytes) -> CommandError:
        try:
            refusal = msgspec.json.decode(data, type=ApiRefusal)
        except msgspec.DecodeError:
            return self._stranger()
        words = refusal.message.rstrip(". ")
        advice = _ADVICE.get(refusal.code)
        code = Exit.USAGE if status == 400 else Exit.TIMED_OUT if status == 504 else Exit.REFUSED
        return CommandError(f"{words}; {advice}" if advice else words, code)

    def _stranger(self) -> CommandError:
        return CommandError(
            f"what answers at {self._address} is not Longhall's HTTP API; another door or program listens there: "
            "give the HTTP address with --address",
            Exit.REFUSED,
        )


def open_client(address: str | None, profile: str | None, patience_s: float = TIMEOUT_S) -> ApiClient:
    """A client of the node that the command line, the environment or a profile names."""
    return ApiClient(find_http(address, profile), patience_s)


def queue_path(name: str, *below: str) -> str:
    """The path of a queue, or of a resource below it."""
    return "/".join(["queues", *(quote(part, safe="") for part in (name, *below))])
