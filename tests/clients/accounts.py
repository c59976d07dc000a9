"""An administrator of the directory, by the HTTP API and nothing else."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any

ROOT = "root"
ROOT_PASSWORD = "the password of root"
PASSWORD = "correct horse battery staple"


class Administrator:
    """Makes the first user of a node, an administrator, and acts as it from then on."""

    def __init__(self, http: str, tls: ssl.SSLContext | None = None) -> None:
        self.http = http
        self._tls = tls
        self._header = ""
        if self.status("GET", "users") == 200:
            self.ask("POST", "users", {"name": ROOT, "password": ROOT_PASSWORD, "administrator": True})
        shown = b64encode(f"{ROOT}:{ROOT_PASSWORD}".encode()).decode()
        self._header = f"Basic {shown}"

    def add_user(self, name: str, password: str = PASSWORD, **fields: Any) -> None:
        """Create a user, who may do everything: the tests of logins do not need rules."""
        self.ask("POST", "users", {"name": name, "password": password, "administrator": True, **fields})

    def rotate(self, name: str, password: str, overlap_ms: int) -> None:
        """Replace a password."""
        self.ask("POST", f"users/{name}/password", {"password": password, "overlap_ms": overlap_ms})

    def ask(self, method: str, path: str, body: object = None, header: str | None = None) -> Any:
        """One request; the JSON of the response."""
        request = urllib.request.Request(
            f"{'http' if self._tls is None else 'https'}://{self.http}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json"} | _authorization(self._header if header is None else header),
        )
        with urllib.request.urlopen(request, timeout=30, context=self._tls) as response:
            return json.loads(response.read() or b"null")

    def status(self, method: str, path: str, body: object = None, header: str | None = None) -> int:
        """The status of one request."""
        try:
            self.ask(method, path, body, header)
        except urllib.error.HTTPError as error:
            return error.code
        return 200


def _authorization(header: str) -> dict[str, str]:
    return {"Authorization": header} if header else {}
