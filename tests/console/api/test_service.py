"""Who may ask the API, and what is answered to those who may not."""

from __future__ import annotations

import base64
import json
import urllib.request
from http.client import HTTPConnection
from pathlib import Path

import pytest

from soak.node import Node
from tests.console.api.asking import Asking

pytestmark = pytest.mark.clients


def test_pages_of_a_browser_may_not_ask(ask: Asking, node: Node) -> None:
    assert ask("GET", "queues", Origin="http://elsewhere.example")[0] == 403
    assert ask("GET", "queues", Origin="null")[0] == 403
    assert ask("GET", "queues", Host="elsewhere.example")[0] == 403
    assert ask("GET", "queues", Host=f"localhost:{node.http.rpartition(':')[2]}")[0] == 200
    assert ask("GET", "queues", Origin=f"http://{node.http}")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nothing", 404),
        ("GET", "", 404),
        ("GET", "queues/%ff", 400),
        ("PUT", "queues", 405),
        ("GET", "queues/a/purge", 405),
        ("GET", "queues?limit=0", 400),
        ("GET", "queues?limit=many", 400),
        ("GET", "queues?" + "a=1&" * 200, 400),
    ],
)
def test_what_is_not_there(ask: Asking, method: str, path: str, status: int) -> None:
    answered, refusal = ask(method, path)
    assert answered == status
    assert refusal["code"]
    assert refusal["message"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(ask: Asking) -> None:
    length = {"Content-Length": str(17 * 1024 * 1024), "Content-Type": "application/json"}
    status, refusal = ask.raw("POST", "queues/a/messages", b"", length)
    assert (status, refusal["code"]) == (413, "request-entity-too-large")


def test_with_credentials_strangers_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[alice]\naws_access_key_id = ALICE\naws_secret_access_key = wonderland\n")
    file.chmod(0o600)
    with Node(tmp_path / "data", options=("--credentials", str(file))) as node:
        ask = Asking(node.http)
        status, refusal = ask("GET", "queues")
        assert (status, refusal["code"]) == (401, "unauthorized")
        wrong = base64.b64encode(b"ALICE:x").decode()
        assert ask("GET", "queues", Authorization=f"Basic {wrong}")[0] == 401
        right = base64.b64encode(b"ALICE:wonderland").decode()
        assert ask("GET", "queues", Authorization=f"Basic {right}")[0] == 200
        ask.close()


def test_off_loopback_it_asks_for_a_login_also_if_the_node_is_insecure(tmp_path: Path) -> None:
    with Node(tmp_path / "data", options=("--http", "0.0.0.0:0", "--insecure")) as node:
        port = node.http.rpartition(":")[2]
        ask = Asking(f"127.0.0.1:{port}")
        status, refusal = ask("GET", "queues")
        assert (status, refusal["code"]) == (401, "unauthorized")
        ask.close()


def test_who_waits_is_told_when_the_node_stops(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        ask = Asking(node.http)
        ask.good("POST", "queues", {"name": "jobs"})
        ask.close()
        host, _, port = node.http.rpartition(":")
        waiting = HTTPConnection(host, int(port), timeout=20)
        body = json.dumps({"wait_ms": 50_000})
        waiting.request("POST", "/api/v1/queues/jobs/receive", body, {"Content-Type": "application/json"})
        for _ in range(5):  # Answered one after another on connections that came later: by then the node has read it.
            assert "longhall_queue_deliveries_total" in _scraped(node)
        node.stop()
        response = waiting.getresponse()
        answer = json.loads(response.read())
        waiting.close()
    assert (response.status, answer["code"]) == (503, "service-unavailable")


def _scraped(node: Node) -> str:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    return text
