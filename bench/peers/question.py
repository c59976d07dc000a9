"""One request on a connection of its own, in SQS's JSON 1.0 or to the HTTP API: for set-up and readiness checks.

Measurements use the load generator; this client has no retries, no valid signatures and no keep-alive.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

# Servers that check no signature still require its shape: moto takes the account from its scope.
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
)


class Refused(RuntimeError):
    """The server answered with an error; the text is the server's."""


def ask(address: str, action: str, seconds_max: float = 30.0, **members: Any) -> Any:
    """The server's answer to one action."""
    connection = http.client.HTTPConnection(address, timeout=seconds_max)
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
        "X-Amz-Date": "20260101T000000Z",
        "Authorization": AUTHORIZATION,
    }
    try:
        connection.request("POST", "/", json.dumps(members), headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise Refused(f"{action}: {response.status} {body[:500].decode(errors='replace')}")
    return json.loads(body) if body else {}


def tell(address: str, method: str, path: str, body: Any = None, seconds_max: float = 30.0) -> Any:
    """The answer of Longhall's own API, for what SQS does not offer."""
    connection = http.client.HTTPConnection(address, timeout=seconds_max)
    try:
        connection.request(method, f"/api/v1/{path}", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.status >= 300:
        raise Refused(f"{method} {path}: {response.status} {content[:500].decode(errors='replace')}")
    return json.loads(content) if content else {}


def answers_list_queues(address: str) -> bool:
    try:
        ask(address, "ListQueues", seconds_max=2.0)
    except (OSError, http.client.HTTPException, Refused, ValueError):
        return False
    return True
