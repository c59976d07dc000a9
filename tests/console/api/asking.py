"""A program that speaks to the API with nothing but HTTP and JSON."""

from __future__ import annotations

import http.client
import json
from typing import Any

Answer = tuple[int, Any]


class Asking:
    """One connection, kept."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address, timeout=30)

    def __call__(self, method: str, path: str, value: object = None, **headers: str) -> Answer:
        body = None if value is None else json.dumps(value).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        return self.raw(
            method, path, body, {**kind, **{name.replace("_", "-"): text for name, text in headers.items()}}
        )

    def raw(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        self._connection.request(method, f"/api/v1/{path}", body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if answer.headers["Content-Type"] == "application/json" else data

    def good(self, method: str, path: str, value: object = None) -> Any:
        status, answer = self(method, path, value)
        assert status in (200, 201), answer
        return answer

    def close(self) -> None:
        self._connection.close()
