"""Clients log in with tokens of an identity provider, and browsers at it, over the provider's real HTTP interface."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pika
import pytest
import stomp
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.accounts import Administrator
from tests.clients.conftest import eventually
from tests.clients.serving import served
from tests.clients.test_logins import amqp, basic, stomp_login
from tests.console.test_login_page import ask
from tests.front.oidc.issuer import AUDIENCE, SigningKey, claims

CLIENT = "longhall-console"
CLIENT_SECRET = "a-secret-of-the-client"
PUBLIC = "http://console.example.org"  # Where the provider sends browsers; the tests go to the node instead.

_kept: list[Any] = []  # A client that could not log in calls back while it is collected.


class Provider(ThreadingHTTPServer):
    """An identity provider: its configuration and its keys."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = SigningKey("RS256")
        self.keys = [self.key]
        self.is_broken = False
        self.goes_on = threading.Event()  # While it is not set, the provider takes connections and answers nothing.
        self.goes_on.set()
        self.user = "alice"  # Who is logged in at the provider, in every browser.
        self.codes: dict[str, dict[str, str]] = {}
        self.id_token_changes: dict[str, Any] = {}
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def token(self, user: str, seconds: float = 600, **changed: Any) -> str:
        made = {"sub": user, "iss": self.issuer, "exp": time.time() + seconds, **changed}
        return self.keys[-1].token(claims(time.time(), **made))


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        provider = self.server
        provider.goes_on.wait(60)
        configuration = {
            "issuer": provider.issuer,
            "jwks_uri": f"{provider.issuer}/keys",
            "authorization_endpoint": f"{provider.issuer}/authorize",
            "token_endpoint": f"{provider.issuer}/token",
        }
        pages: dict[str, object] = {
            "/.well-known/openid-configuration": configuration,
            "/keys": {"keys": [key.public() for key in provider.keys]},
        }
        if self.path.startswith("/authorize?"):
            self._authorize(dict(parse_qsl(urlsplit(self.path).query)))
            return
        found = pages.get(self.path) if not provider.is_broken else None
        self._answer(200 if found else 500, found or {})

    def _authorize(self, asked: dict[str, str]) -> None:
        """Log the user in without a question, and send the browser back with a code."""
        code = secrets.token_hex(8)
        self.server.codes[code] = asked
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """The token of a code, once, for whoever knows the verifier and the client's secret."""
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        asked = self.server.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = b64encode(digest, altchars=b"-_").rstrip(b"=").decode()
        shown = "Basic " + b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        right = asked is not None and (asked["code_challenge"], asked["redirect_uri"]) == (
            challenge,
            form["redirect_uri"],
        )
        if not right or self.headers["Authorization"] != shown or asked is None:
            self._answer(400, {"error": "invalid_grant"})
            return
        changed = {"aud": CLIENT, "nonce": asked["nonce"], **self.server.id_token_changes}
        self._answer(200, {"id_token": self.server.token(self.server.user, **changed), "access_token": "x"})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
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
    file = data.parent / "client-secret"
    file.touch(mode=0o600)
    file.write_text(CLIENT_SECRET + "\n")
    settings = {
        "issuer": provider.issuer,
        "audience": AUDIENCE,
        "refresh_ms": "1s",
        "client_id": CLIENT,
        "client_secret": str(file),
        "public_url": PUBLIC,
    }
    options = [word for name, value in settings.items() for word in ("--set", f"oidc.{name}={value}")]
    with served(data, options=options) as node:
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
        return provider.token("alice", seconds=8), time.time() + 8

    options: dict[str, Any] = {**settings(node, ""), "oauth_cb": issue}
    client = AdminClient(options)
    _kept.append(client)
    deadline = time.monotonic() + 14  # The client renews a token after four fifths of its time.
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
    eventually(lambda: administrator.status("GET", "queues", header=bearer(token)) == 200, "every node knows the user")
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


def test_a_provider_that_hangs_refuses_only_clients_with_new_keys_and_heals(
    provider: Provider, guarded: tuple[Node, Administrator]
) -> None:
    _, administrator = guarded
    known = provider.token("alice")
    eventually(lambda: administrator.status("GET", "queues", header=bearer(known)) == 200, "a known key")
    provider.goes_on.clear()
    provider.keys.append(SigningKey("ES256", "three"))
    try:
        new = provider.token("alice")
        for _ in range(5):  # All of it while the provider hangs.
            assert administrator.status("GET", "queues", header=bearer(new)) in (401, 503)
            assert administrator.status("GET", "queues", header=bearer(known)) == 200
            assert administrator.status("GET", "queues") == 200, "a password needs no provider"
    finally:
        provider.goes_on.set()
    eventually(lambda: administrator.status("GET", "queues", header=bearer(new)) == 200, "the provider is back")


# Browsers


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The tests go where they are sent by themselves."""


def sent_by(provider_address: str) -> str:
    """Where the provider sends a browser that asks for this."""
    try:
        urllib.request.build_opener(_NoRedirect).open(provider_address, timeout=30)
    except urllib.error.HTTPError as redirect:
        return str(redirect.headers["Location"])
    raise AssertionError("the provider sent nobody anywhere")


def back_from(node: Node) -> tuple[str, str]:
    """The path with which a browser comes back from the provider, and the cookie that it has."""
    gone = ask(node, "GET", "/login/provider?next=/api/v1/queues")
    assert gone.status == 303
    query = dict(parse_qsl(urlsplit(gone.headers["location"]).query))
    assert (query["code_challenge_method"], query["response_type"], query["scope"]) == ("S256", "code", "openid")
    address = sent_by(gone.headers["location"])
    assert address.startswith(f"{PUBLIC}/login/callback?")
    return address.removeprefix(PUBLIC), gone.cookie


def test_a_browser_logs_in_at_the_provider(provider: Provider, guarded: tuple[Node, Administrator]) -> None:
    node, administrator = guarded
    assert "identity provider" in ask(node, "GET", "/login").body
    path, flow = back_from(node)
    entered = ask(node, "GET", path, Cookie=flow)
    assert (entered.status, entered.headers["location"]) == (303, "/api/v1/queues")
    assert ask(node, "GET", "/api/v1/queues", Cookie=entered.cookie).status == 200
    assert ask(node, "GET", path, Cookie=flow).status == 401, "a code is good once"
    administrator.ask("PATCH", "users/alice", {"enabled": False})
    try:
        assert ask(node, "GET", "/api/v1/queues", Cookie=entered.cookie).status == 401
        path, flow = back_from(node)
        assert ask(node, "GET", path, Cookie=flow).status == 401
    finally:
        administrator.ask("PATCH", "users/alice", {"enabled": True})


def test_a_browser_comes_back_with_its_own_log_in_only(provider: Provider, guarded: tuple[Node, Administrator]) -> None:
    node, _ = guarded
    path, flow = back_from(node)
    _, other = back_from(node)
    assert ask(node, "GET", path).status == 400, "another browser, to which the address was given"
    assert ask(node, "GET", path, Cookie=other).status == 400
    assert ask(node, "GET", path, Cookie=flow[:-3]).status == 400
    assert ask(node, "GET", path.replace("code=", "code=x"), Cookie=flow).status == 401
    path, flow = back_from(node)
    assert ask(node, "GET", path.replace("code=", "error="), Cookie=flow).status == 401


@pytest.mark.parametrize("changed", [{"nonce": "another"}, {"aud": "another"}, {"exp": 1_000}, {"sub": "nobody"}])
def test_other_id_tokens_log_no_browser_in(
    provider: Provider, guarded: tuple[Node, Administrator], changed: dict[str, Any]
) -> None:
    node, _ = guarded
    provider.id_token_changes = changed
    try:
        path, flow = back_from(node)
        page = ask(node, "GET", path, Cookie=flow)
        assert (page.status, "longhall-session" in page.headers.get("set-cookie", "")) == (401, False)
    finally:
        provider.id_token_changes = {}


# Tokens as passwords


def test_amqp_and_stomp_clients_show_a_token_as_their_password(
    provider: Provider, guarded: tuple[Node, Administrator]
) -> None:
    node, administrator = guarded
    for user in ("alice", ""):
        amqp(node, user, provider.token("alice")).close()
    stomp_login(node, "alice", provider.token("alice"))[0].disconnect()
    assert administrator.status("GET", "queues", header=basic("alice", provider.token("alice"))) == 200
    for user, token in (
        ("bob", provider.token("alice")),
        ("alice", provider.token("alice", aud="another")),
        ("alice", provider.token("alice")[:-8]),
    ):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            amqp(node, user, token)
        with pytest.raises(stomp.exception.ConnectFailedException):
            stomp_login(node, user, token)


def test_a_connection_ends_with_its_token_unless_it_is_renewed(
    provider: Provider, guarded: tuple[Node, Administrator]
) -> None:
    node, _ = guarded
    ending = amqp(node, "alice", provider.token("alice", seconds=3))
    renewed = amqp(node, "alice", provider.token("alice", seconds=3))
    renewed.update_secret(provider.token("alice"), "renewed")
    stomp_ending = stomp_login(node, "alice", provider.token("alice", seconds=3))[1]
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        for _ in range(60):
            ending.process_data_events(0.5)
    assert stomp_ending.gone.wait(20)
    renewed.process_data_events(0.1)
    assert renewed.is_open
    renewed.close()
