"""The management API of the node under test, asked as a tool asks it."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from typing import Any, NamedTuple
from urllib.parse import quote

LOGIN = "Basic " + b64encode(b"guest:guest").decode()


class Told(NamedTuple):
    """Status and value of an answer."""

    status: int
    value: Any


class Management:
    """One node. `/` of the default virtual host is written as it is; paths are quoted here."""

    def __init__(self, address: str, login: str = LOGIN) -> None:
        self._address = address
        self._login = login

    def ask(self, method: str, *parts: str, body: object = None, query: str = "") -> Told:
        path = "/api/" + "/".join(quote(part, safe="") for part in parts) + (f"?{query}" if query else "")
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            headers = {"Authorization": self._login, "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        return Told(answer.status, json.loads(data) if data else None)

    def get(self, *parts: str, query: str = "") -> Any:
        told = self.ask("GET", *parts, query=query)
        assert told.status == 200, told
        return told.value

    def put(self, *parts: str, body: object = None) -> int:
        return self.ask("PUT", *parts, body=body if body is not None else {}).status

    def delete(self, *parts: str, query: str = "") -> int:
        return self.ask("DELETE", *parts, query=query).status


def fields_of(row: dict[str, Any], names: str) -> None:
    """Every one of these fields is there; a dot is a field of a field."""
    for name in names.split():
        value: Any = row
        for part in name.split("."):
            assert isinstance(value, dict), (name, row)
            assert part in value, (name, sorted(value))
            value = value[part]
