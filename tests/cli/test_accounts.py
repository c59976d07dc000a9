"""`longhall user`, `tenant` and `token` against a node: what they change, what they print, and what they refuse."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.node import Node
from tests.cli.conftest import Run
from tests.clients.accounts import ROOT, ROOT_PASSWORD, Administrator

SECRET = "carols password"


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("accounts") / "data") as running:
        yield running


@pytest.fixture
def administrator(node: Node, monkeypatch: pytest.MonkeyPatch, run: Run) -> Administrator:
    """The commands of the test run as the administrator."""
    found = Administrator(node.http)
    log_in(monkeypatch, node, ROOT, ROOT_PASSWORD)
    return found


def log_in(monkeypatch: pytest.MonkeyPatch, node: Node, user: str, password: str) -> None:
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    monkeypatch.setenv("LONGHALL_ADDRESS", node.bootstrap)
    monkeypatch.setenv("LONGHALL_USER", user)
    monkeypatch.setenv("LONGHALL_PASSWORD", password)


def test_users_tenants_and_tokens(
    node: Node, administrator: Administrator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("tenant", "add", "acme").code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    added = run("user", "add", "carol", "--tenant", "acme", "--password-file", "-")
    assert (added.code, SECRET in added.out) == (0, False), added.err
    assert administrator.status("GET", "queues", header=basic("carol", SECRET)) == 200
    rotated = run("user", "rotate", "carol", "--generate", "--overlap", "1h", "-o", "json")
    assert administrator.status("GET", "queues", header=basic("carol", json.loads(rotated.out)["password"])) == 200
    assert administrator.status("GET", "queues", header=basic("carol", SECRET)) == 200, "for an hour"
    token = json.loads(run("token", "add", "carol", "--label", "ci", "-o", "json").out)
    assert administrator.status("GET", "queues", header=f"Bearer {token['token']}") == 200
    assert "ci" in run("token", "list").out
    assert run("token", "delete", token["token_id"]).code == 0
    assert administrator.status("GET", "queues", header=f"Bearer {token['token']}") == 401
    assert run("user", "disable", "carol").code == 0
    assert administrator.status("GET", "queues", header=basic("carol", SECRET)) == 401
    assert run("user", "enable", "carol").code == 0
    assert run("tenant", "disable", "acme").code == 0
    assert administrator.status("GET", "queues", header=basic("carol", SECRET)) == 401
    assert run("tenant", "enable", "acme").code == 0
    assert all(name in run("user", "list").out for name in ("carol", "acme", ROOT))
    refused = run("tenant", "delete", "acme", "--yes")
    assert (refused.code, "has users" in refused.err) == (1, True)
    assert run("user", "delete", "carol", "--yes").code == 0
    assert run("tenant", "delete", "acme", "--yes").code == 0
    assert "acme" not in run("tenant", "list").out


def test_commands_of_topics_log_in_by_scram(
    node: Node, administrator: Administrator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    administrator.add_user("dan", "the password of dan")
    log_in(monkeypatch, node, "dan", "the password of dan")
    assert run("topic", "list").code == 0
    log_in(monkeypatch, node, "dan", "wrong password")
    wrong = run("topic", "list")
    assert (wrong.code, "SASL_AUTHENTICATION_FAILED" in wrong.err) == (1, True)
    monkeypatch.setenv("LONGHALL_TOKEN", administrator.ask("POST", "users/dan/tokens", {})["token"])
    assert run("topic", "list").code == 0
    monkeypatch.delenv("LONGHALL_USER")
    assert run("queue", "list").code == 0, "a token alone is enough for the HTTP API"


def test_imports(administrator: Administrator, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "aws"
    file.write_text("[dave]\naws_access_key_id = AKIADAVE\naws_secret_access_key = secret/of+dave\n")
    assert run("user", "import-aws", str(file)).code == 0
    assert administrator.status("GET", "queues", header=basic("AKIADAVE", "secret/of+dave")) == 200
    file.write_text(file.read_text() + "[dana]\naws_access_key_id = AKIADANA\naws_secret_access_key = secret/of+dana\n")
    assert json.loads(run("user", "import-aws", str(file), "-o", "json").out) == {"imported": ["dana"]}, "again"
    definitions = {
        "users": [
            {"name": "erin", "tags": ["administrator"], "password_hash": "x"},
            {"name": "finn", "tags": "monitoring,policymaker", "password_hash": "x"},
        ],
        "permissions": [{"user": "finn", "vhost": "/", "configure": "", "write": "^eu\\.", "read": ".*"}],
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(definitions)))
    imported = run("user", "import-rabbitmq", "-", "-o", "json")
    erin, finn = json.loads(imported.out)
    assert "finn: the tags policymaker have no counterpart" in imported.err
    assert administrator.status("GET", "users", header=basic("erin", erin["password"])) == 200
    for queue, action, code in (("eu.orders", "write", 0), ("us.orders", "write", 1), ("us.orders", "read", 0)):
        assert run("access", "explain", "finn", action, f"queue:{queue}").code == code, (queue, action)
    assert administrator.status("GET", "queues", header=basic("finn", finn["password"])) == 200, "a viewer"
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"users": [{"tags": []}]}'))
    assert "'name' is missing" in run("user", "import-rabbitmq", "-").err
    key = json.loads(run("user", "rotate", "dave", "--access-key", "-o", "json").out)
    assert administrator.status("GET", "queues", header=basic(key["access_key"], key["secret"])) == 200
    assert administrator.status("GET", "queues", header=basic("AKIADAVE", "secret/of+dave")) == 401, "no overlap"


def test_a_secret_has_to_come_from_somewhere(administrator: Administrator, run: Run, tmp_path: Path) -> None:
    nowhere = run("user", "add", "x")
    assert (nowhere.code, "--password-file" in nowhere.err) == (2, True)
    assert run("user", "add", "x", "--generate", "--password-file", "y").code == 2
    assert run("user", "add", "x", "--password-file", str(tmp_path / "absent")).code == 2
    assert run("user", "rotate", "x", "--overlap", "soon", "--generate").code == 2
    assert run("user", "delete", "nobody", "--yes").code == 1
