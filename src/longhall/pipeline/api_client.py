"""The HTTP API of a node for jobs: one connection, JSON both ways, and every failure one `PipelineError`.

Queues have states that no topic shows (leases, messages that wait for a retry), so their tables are read here. The
module knows paths and pages, not their content. The client can be pickled: it connects where it is used.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, final
from urllib.parse import quote, urlencode

from longhall.client.tls import http_connection, tls_of_environment
from longhall.pipeline.refusals import PipelineError

DEFAULT_HTTP: Final = "127.0.0.1:8080"
PREFIX: Final = "/api/v1/"
TIMEOUT_S: Final = 60.0

_ADVICE: Final = {
    "unknown-queue": "`longhall queue list` shows what there is",
    "unauthorized": "set LONGHALL_ACCESS_KEY and LONGHALL_SECRET",
    "move-running": "wait for it, or stop it with `longhall dlq cancel`",
}


@final
class ApiClient:
    """A client of one node. Without an access key it uses that of the environment, if there is one."""

    def __init__(self, address: str = DEFAULT_HTTP, access_key: str = "", secret: str = "") -> None:
        self._is_https = address.startswith("https://") or ("://" not in address and tls_of_environment().is_on)
        self.address = address.removeprefix("http://").removeprefix("https://").rstrip("/")
        self._access_key = access_key or os.environ.get("LONGHALL_ACCESS_KEY", "")
        self._secret = secret or os.environ.get("LONGHALL_SECRET", "")
        self._connection: http.client.HTTPConnection | None = None

    def __getstate__(self) -> dict[str, str]:
        scheme = "https" if self._is_https else "http"
        return {"address": f"{scheme}://{self.address}", "access_key": self._access_key, "secret": self._secret}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__init__(**state)

    def ask(self, method: str, path: str, value: object = None, query: Mapping[str, object] | None = None) -> Any:
        """Send one request and return the decoded JSON. Raises PipelineError."""
        target = PREFIX + path + (f"?{urlencode(query)}" if query else "")
        body = None if value is None else json.dumps(value).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if self._access_key:
            shown = base64.b64encode(f"{self._access_key}:{self._secret}".encode()).decode()
            headers["Authorization"] = f"Basic {shown}"
        status, data = self._exchange(method, target, body, headers)
        try:
            answer = json.loads(data)
        except ValueError:
            raise PipelineError(f"what answers at {self.address} is no Longhall API; give its HTTP address") from None
        if status >= 400:
            raise _refused(status, answer)
        return answer

    def pages(self, path: str, field: str, query: Mapping[str, object]) -> Iterator[list[dict[str, Any]]]:
        """Every page of a listing."""
        after = ""
        while True:
            answer = self.ask("GET", path, query={**query, **({"after": after} if after else {})})
            yield answer[field]
            after = answer.get("next", "")
            if not after:
                return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send a request. A kept connection may be closed by the node meanwhile, so a GET is tried a second time."""
        for again in (method == "GET" and self._connection is not None, False):
            try:
                if self._connection is None:
                    host, _, port = self.address.rpartition(":")
                    context = tls_of_environment().context() if self._is_https else None
                    self._connection = http_connection(host.strip("[]"), int(port), context, TIMEOUT_S)
                self._connection.request(method, target, body, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except ValueError:
                raise PipelineError(f"{self.address!r} is no address; write HOST:PORT") from None
            except (OSError, http.client.HTTPException):
                self.close()
                if not again:
                    raise PipelineError(
                        f"no node answers at {self.address}; is it running, and is that its HTTP address?"
                    ) from None
        raise AssertionError("the second failure was raised")


def queue_path(name: str, *below: str) -> str:
    """The path of a queue, or of a resource below it."""
    return "/".join(["queues", *(quote(part, safe="") for part in (name, *below))])


def _refused(status: int, answer: object) -> PipelineError:
    refusal = answer if isinstance(answer, dict) else {}
    words = str(refusal.get("message", f"refused with status {status}")).rstrip(". ")
    words = words[:1].lower() + words[1:]
    advice = _ADVICE.get(str(refusal.get("code", "")))
    return PipelineError(f"{words}; {advice}" if advice else words)
