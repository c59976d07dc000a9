"""The log-in page of a real node, with a browser's requests: sessions, their ends, and what pages of others get."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.serving import Served

OWN = {"Sec-Fetch-Site": "same-origin"}
FORM = "application/x-www-form-urlencoded"


class Page(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def cookie(self) -> str:
        """The cookie that it sets, as a browser sends it back."""
        return self.headers.get("set-cookie", "").partition(";")[0]


def ask(node: Node, method: str, path: str, body: str = "", **headers: str) -> Page:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(node.http, timeout=30)
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, shown)
    response = connection.getresponse()
    fields = {name.lower(): value for name, value in reversed(response.getheaders())}  # The first of a name counts.
    page = Page(response.status, fields, response.read().decode())
    connection.close()
    return page


def log_in(node: Node, user: str, password: str = PASSWORD, **fields: str) -> Page:
    form = urlencode({"user": user, "password": password, **fields})
    return ask(node, "POST", "/login", form, Content_Type=FORM, Sec_Fetch_Site="same-origin")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Administrator]]:
    with Served(tmp_path_factory.mktemp("login") / "data", options=["--set", "console.session_ms=1h"]) as node:
        assert "nobody has to log in" in ask(node, "GET", "/login").body
        yield node, Administrator(node.http)


def test_a_browser_logs_in_and_out(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("browser", administrator=False)
    page = ask(node, "GET", "/login?next=/api/v1/queues")
    assert page.status == 200
    assert 'name="password"' in page.body
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    entered = log_in(node, "browser", next="/api/v1/queues")
    assert (entered.status, entered.headers["location"]) == (303, "/api/v1/queues")
    flags = entered.headers["set-cookie"].split("; ")[1:]
    assert {"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=3600"} <= set(flags)
    assert ask(node, "GET", "/api/v1/queues", Cookie=entered.cookie).status == 200
    assert "logged in as <strong>browser</strong>" in ask(node, "GET", "/login", Cookie=entered.cookie).body
    left = ask(node, "POST", "/login/out", Cookie=entered.cookie, Sec_Fetch_Site="same-origin")
    assert (left.status, left.cookie) == (303, "longhall-session=")
    assert ask(node, "GET", "/api/v1/queues", Cookie=entered.cookie).status == 401, "the session has ended"


def test_a_wrong_log_in_gets_the_form_again(secured: tuple[Node, Administrator]) -> None:
    node, _ = secured
    for user, password in (("<b>odd</b>", "wrong"), ("nobody", PASSWORD), ("", "")):
        page = log_in(node, user, password)
        assert page.status == 401
        assert "set-cookie" not in page.headers
        assert "User or password is wrong" in page.body
        assert "<b>odd" not in page.body
    assert (
        ask(node, "POST", "/login", "{}", Content_Type="application/json", **{"Sec-Fetch-Site": "none"}).status == 400
    )
    assert ask(node, "GET", "/login/nothing").status == 404


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x=y", ""]
)
def test_nobody_is_sent_to_another_site(secured: tuple[Node, Administrator], path: str) -> None:
    node, administrator = secured
    if administrator.status("GET", "users/sent") == 404:
        administrator.add_user("sent")
    entered = log_in(node, "sent", next=path)
    assert entered.headers["location"] == "/login"
    assert entered.cookie.startswith("longhall-session=")


def test_pages_of_other_sites_use_no_session(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("victim")
    cookie = log_in(node, "victim").cookie
    body = '{"name": "forged"}'
    json = "application/json"
    for said in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
        {"Origin": "http://evil.example"},
    ):
        assert ask(node, "POST", "/api/v1/queues", body, Cookie=cookie, Content_Type=json, **said).status == 403
    assert "forged" not in str(administrator.ask("GET", "queues"))
    assert ask(node, "POST", "/api/v1/queues", body, Cookie=cookie, Content_Type=json, **OWN).status == 201
    form = urlencode({"user": "victim", "password": PASSWORD})
    foreign = ask(node, "POST", "/login", form, Content_Type=FORM, **{"Sec-Fetch-Site": "cross-site"})
    assert (foreign.status, "set-cookie" in foreign.headers) == (403, False)
    assert ask(node, "POST", "/login/out", Cookie=cookie, **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert ask(node, "GET", "/api/v1/queues", Cookie=cookie).status == 200


def test_sessions_end_with_their_user_and_its_password(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured

    def serves(cookie: str) -> bool:
        return ask(node, "GET", "/api/v1/queues", Cookie=cookie).status == 200

    administrator.add_user("leaver")
    cookie = log_in(node, "leaver").cookie
    assert serves(cookie)
    administrator.ask("PATCH", "users/leaver", {"enabled": False})
    assert not serves(cookie)
    assert log_in(node, "leaver").status == 401
    administrator.ask("PATCH", "users/leaver", {"enabled": True})
    assert not serves(cookie), "it does not come back with its user"
    cookie = log_in(node, "leaver").cookie
    assert serves(cookie)
    administrator.rotate("leaver", "a second password", overlap_ms=3_600_000)
    assert not serves(cookie)
    cookie = log_in(node, "leaver", "a second password").cookie
    administrator.ask("DELETE", "users/leaver")
    administrator.add_user("leaver")
    assert not serves(cookie), "another user of the same name has sessions of its own"


def test_a_forged_cookie_is_nothing(secured: tuple[Node, Administrator]) -> None:
    node, administrator = secured
    administrator.add_user("forged")
    name, _, value = log_in(node, "forged").cookie.partition("=")
    text, _, signature = value.partition(".")
    for forged in (
        text,
        f"{text}.",
        f"{text}.{signature[:-2]}",
        f"A{text[1:]}.{signature}",
        "x" * 4000,
        f".{signature}",
    ):
        assert ask(node, "GET", "/api/v1/queues", Cookie=f"{name}={forged}").status == 401
    again = ask(node, "GET", "/api/v1/queues", Cookie=f"other=1; {name}={value}; more=2")
    assert again.status == 200
    assert ask(node, "GET", "/api/v1/queues", Cookie=f"{name}={value}", Authorization="Bearer x").status == 401
