"""Kafka and HTTP clients log in with tokens of an identity provider, over the provider's real HTTP interface."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.accounts import Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served
from tests.front.oidc.issuer import AUDIENCE, SigningKey, claims

_kept: list[Any] = []  # A client that could not log in calls back while it is collected.


class Provider(ThreadingHTTPServer):
    """An identity provider: its configuration and its keys."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = SigningKey("RS256")
        self.keys = [self.key]
        self.is_broken = False
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def token(self, user: str, seconds: float = 600, **changed: Any) -> str:
        made = {"sub": user, "iss": self.issuer, "exp": time.time() + seconds, **changed}
        return self.keys[-1].token(claims(time.time(), **made))


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        provider = self.server
        pages: dict[str, object] = {
            "/.well-known/openid-configuration": {"issuer": provider.issuer, "jwks_uri": f"{provider.issuer}/keys"},
            "/keys": {"keys": [key.public() for key in provider.keys]},
        }
        found = pages.get(self.path) if not provider.is_broken else None
        body = json.dumps(found or {}).encode()
        self.send_response(200 if found else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    server = Provider()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def guarded(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    data = tmp_path_factory.mktemp("oidc") / "data"
    options = ["--set", f"oidc.issuer={provider.issuer}", "--set", f"oidc.audience={AUDIENCE}"]
    with served(data, options=[*options, "--set", "oidc.refresh_ms=1s"]) as node:
        administrator = Administrator(node.http)
        administrator.add_user("alice")
        yield node, administrator


def bearer(token: str) -> str:
    return f"Bearer {token}"


def settings(node: Node, token: str, lifetime_s: float = 600) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + lifetime_s),
        "error_cb": lambda error: None,
        "log_level": 0,
    }


def topics(node: Node, token: str) -> set[str]:
    client = AdminClient(settings(node, token))
    _kept.append(client)
    client.poll(0)  # The token is asked for here.
    return set(client.list_topics(timeout=3).topics)


def test_a_kafka_client_logs_in_with_a_token(provider: Provider, guarded: tuple[Node, Administrator]) -> None:
    node, _ = guarded
    admin = AdminClient(settings(node, provider.token("alice")))
    _kept.append(admin)
    admin.poll(0)
    admin.create_topics([NewTopic("by-token", 1)])["by-token"].result(20)
    producer = Producer(settings(node, provider.token("alice")))
    _kept.append(producer)
    errors: list[Any] = []
    producer.produce("by-token", b"x", on_delivery=lambda error, _: errors.append(error))
    eventually(lambda: producer.poll(0.1) > 0 or bool(errors), "the message is acknowledged")
    assert errors == [None]


def test_a_session_ends_with_its_token_and_is_renewed_on_the_same_connection(
    provider: Provider, guarded: tuple[Node, Administrator]
) -> None:
    node, _ = guarded
    issued: list[float] = []

    def issue(_: str) -> tuple[str, float]:
        issued.append(time.time())
        return provider.token("alice", seconds=4), time.time() + 4

    options: dict[str, Any] = {**settings(node, ""), "oauth_cb": issue}
    client = AdminClient(options)
    _kept.append(client)
    deadline = time.monotonic() + 9
    while time.monotonic() < deadline:
        client.poll(0.2)
        assert client.list_topics(timeout=8).brokers
    assert len(issued) >= 2


@pytest.mark.parametrize(
    "changed", [{"aud": "another"}, {"iss": "https://else.example.org"}, {"exp": 1_000}, {"sub": "nobody"}]
)
def test_other_tokens_are_refused(
    provider: Provider, guarded: tuple[Node, Administrator], changed: dict[str, Any]
) -> None:
    node, administrator = guarded
    token = provider.token("alice", **changed)
    assert administrator.status("GET", "queues", header=bearer(token)) == 401
    with pytest.raises(KafkaException):
        topics(node, token)


def test_http_clients_log_in_with_a_token(provider: Provider, guarded: tuple[Node, Administrator]) -> None:
    _, administrator = guarded
    assert administrator.status("GET", "queues", header=bearer(provider.token("alice"))) == 200
    assert administrator.status("GET", "queues", header=bearer(provider.token("alice")[:-8])) == 401
    administrator.add_user("leaver")
    token = provider.token("leaver")
    assert administrator.status("GET", "queues", header=bearer(token)) == 200
    administrator.ask("PATCH", "users/leaver", {"enabled": False})
    assert administrator.status("GET", "queues", header=bearer(token)) == 401


def test_a_new_key_is_found_and_a_provider_that_is_away_refuses_nobody(
    provider: Provider, guarded: tuple[Node, Administrator]
) -> None:
    _, administrator = guarded
    old = provider.token("alice")
    provider.keys.append(SigningKey("ES256", "two"))
    eventually(
        lambda: administrator.status("GET", "queues", header=bearer(provider.token("alice"))) == 200, "a new key"
    )
    provider.is_broken = True
    try:
        time.sleep(2.5)  # The keys would have been read again.
        assert administrator.status("GET", "queues", header=bearer(old)) == 200
        assert administrator.status("GET", "queues", header=bearer(provider.token("alice"))) == 200
    finally:
        provider.is_broken = False
