"""Clients in other languages and command lines log in, are refused, rotated, and disabled between two turns.

Every client runs in clear text, over TLS with a password, and over TLS with a certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from soak.node import Node
from tests.clients import login_clients as clients
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.login_clients import LoggedIn, Login, Refused
from tests.clients.serving import Served
from tests.front.certificates import TestAuthority

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Connect = Callable[[Login], LoggedIn]
KINDS: dict[str, Connect] = {
    "java": clients.java,
    "kafkajs": clients.kafkajs,
    "amqplib": clients.amqplib,
    "aio-pika": clients.aio_pika_client,
    "curl": clients.curl,
}
TRANSPORTS = ("clear", "tls", "certificate")
RETURN_SECONDS_MAX = 90
# What each client says of a refused login, in its own words. Without SASL a Kafka node can only close the connection.
WORDS = {
    "java": ("SaslAuthenticationException", "TimeoutException: Topic"),
    "kafkajs": ("SASL", "uthentication", "Closed connection"),
    "amqplib": ("ACCESS_REFUSED",),
    "aio-pika": ("ACCESS_REFUSED",),
    "curl": ("unauthorized",),
}


class Secured(NamedTuple):
    """A node whose ports take clients with and without TLS, and its users."""

    node: Node
    authority: TestAuthority
    administrator: Administrator
    home: Path

    def login(self, user: str, transport: str, password: str = PASSWORD) -> Login:
        shown = "" if transport == "certificate" else password
        return Login(self.node, self.authority, user, shown, transport != "clear", self.home)

    def disable(self, user: str, is_disabled: bool = True) -> None:
        self.administrator.ask("PATCH", f"users/{user}", {"enabled": not is_disabled})


@contextmanager
def secured_node(home: Path) -> Iterator[Secured]:
    authority = TestAuthority(home / "authority")
    options = authority.options(
        client_ca=authority.path("ca.crt"),
        client_authentication="optional",
        user_name="common_name",
        clear_text="true",
    )
    with Served(home / "data", options=options) as node:
        yield Secured(node, authority, Administrator(node.http), home)


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def secured(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node for each kind of client: clients that go on with a wrong login slow down others at their address."""
    with secured_node(tmp_path_factory.mktemp(kind)) as found:
        yield found


class Clients:
    """The clients of one user, of which the last one is open."""

    def __init__(self, secured: Secured, kind: str, user: str, transport: str) -> None:
        self._secured = secured
        self._kind = kind
        self._user = user
        self._transport = transport
        self._opened: list[LoggedIn] = []

    def connect(self, password: str = PASSWORD) -> LoggedIn:
        self._opened.append(KINDS[self._kind](self._secured.login(self._user, self._transport, password)))
        return self._opened[-1]

    def refusal(self, client: LoggedIn) -> str:
        """What the client is told; it is closed then, so that it does not try again and again."""
        with pytest.raises(Refused) as refused:
            client.turn("refused")
        client.close()
        self._opened.remove(client)
        return str(refused.value)

    def return_with(self, password: str) -> None:
        """Log in again. A client that had tried often without success is shut out for up to half a minute first."""
        deadline = time.monotonic() + RETURN_SECONDS_MAX
        while True:
            try:
                assert self.connect(password).turn("again") == "again"
                return
            except Refused:
                assert time.monotonic() < deadline, f"not let in within {RETURN_SECONDS_MAX} s"
                self.close()
                time.sleep(1)

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_logs_in_and_ends_with_its_user(secured: Secured, kind: str, transport: str) -> None:
    user = f"{kind}-{transport}"
    secured.administrator.add_user(user)
    with closing(Clients(secured, kind, user, transport)) as clients:
        client, newest = clients.connect(), PASSWORD
        assert client.turn("first") == "first"
        if transport != "certificate":
            client, newest = _rotate(secured, kind, user, clients, client)
        secured.disable(user)
        clients.refusal(client)
        assert _is_told(kind, clients.refusal(clients.connect(newest)))
        clients.close()
        secured.disable(user, False)
        clients.return_with(newest)


def _rotate(secured: Secured, kind: str, user: str, clients: Clients, client: LoggedIn) -> tuple[LoggedIn, str]:
    """Replace the password twice, with and without an overlap; a client with the newest one."""
    secured.administrator.rotate(user, "a second password", overlap_ms=3_600_000)
    assert client.turn("the open client goes on") == "the open client goes on"
    assert clients.connect("a second password").turn("new") == "new"
    assert clients.connect().turn("old") == "old"
    clients.close()
    secured.administrator.rotate(user, "a third password", overlap_ms=0)
    assert _is_told(kind, clients.refusal(clients.connect("a second password")))
    client = clients.connect("a third password")
    assert client.turn("third") == "third"
    return client, "a third password"


def _is_told(kind: str, said: str) -> bool:
    assert any(word in said for word in WORDS[kind]), said
    return True


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_is_refused_with_a_wrong_login(secured: Secured, kind: str, transport: str) -> None:
    user = f"wrong-{kind}-{transport}"
    if transport != "certificate":  # The certificate names somebody who is no user.
        secured.administrator.add_user(user)
    with closing(Clients(secured, kind, user, transport)) as clients:
        assert _is_told(kind, clients.refusal(clients.connect("wrong password")))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("aws")) as found:
        yield found


@pytest.mark.parametrize("transport", ["clear", "tls"])
def test_the_aws_command_line_signs_with_keys_of_users(signed: Secured, transport: str) -> None:
    user = f"aws-{transport}"
    signed.administrator.add_user(user)
    path = f"users/{user}/access-keys"

    def command_line(key: dict[str, str], secret: str = "") -> LoggedIn:
        login = signed.login(key["access_key"], transport, secret or key["secret"])
        return clients.aws_cli(login)

    first = signed.administrator.ask("POST", path, {})
    assert command_line(first).turn("first") == "first"
    with pytest.raises(Refused, match="SignatureDoesNotMatch"):
        command_line(first, "a wrong secret").turn("wrong")
    second = signed.administrator.ask("POST", path, {"overlap_ms": 3_600_000})
    assert [command_line(key).turn("both") for key in (first, second)] == ["both", "both"]
    signed.administrator.ask("DELETE", f"access-keys/{first['access_key']}")
    with pytest.raises(Refused, match="InvalidClientTokenId"):
        command_line(first).turn("gone")
    signed.disable(user)
    with pytest.raises(Refused, match="InvalidClientTokenId"):
        command_line(second).turn("disabled")
    signed.disable(user, False)
    assert command_line(second).turn("again") == "again"
