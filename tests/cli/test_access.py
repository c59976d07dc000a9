"""`longhall access` and `longhall role`: rules and roles by commands, and explanations of decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from soak.node import Node
from tests.cli.conftest import Run
from tests.clients.accounts import PASSWORD, ROOT, ROOT_PASSWORD, Administrator


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("access") / "data") as running:
        Administrator(running.http).add_user("shop", administrator=False)
        yield running


@pytest.fixture
def as_root(node: Node, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    monkeypatch.setenv("LONGHALL_USER", ROOT)
    monkeypatch.setenv("LONGHALL_PASSWORD", ROOT_PASSWORD)
    return run


def test_rules_are_added_listed_explained_and_removed(as_root: Run) -> None:
    assert as_root("access", "explain", "shop", "write", "queue:orders-eu").code == 1
    allowed = as_root("access", "allow", "user:shop", "write", "queue:orders-*", "--from", "10.0.0.0/8", "-o", "json")
    assert allowed.code == 0, allowed.err
    rule = json.loads(allowed.out)["id"]
    assert as_root("access", "deny", "*", "all", "topic:salaries").code == 0
    listed = json.loads(as_root("access", "list", "-o", "json").out)
    assert {(one["subject"], one["name"], one.get("allow", True)) for one in listed} == {
        ("user:shop", "orders-", True),
        ("*", "salaries", False),
    }
    shown = as_root("access", "list").out
    assert "queue:orders-*" in shown
    assert "from 10.0.0.0/8" in shown
    near = as_root("access", "explain", "shop", "write", "queue:orders-eu", "--from", "10.1.2.3")
    assert near.code == 0
    assert "allowed: a rule allows it" in near.out
    assert rule in near.out
    far = as_root("access", "explain", "shop", "write", "queue:orders-eu", "--from", "192.0.2.1")
    assert far.code == 1
    assert "conditions" in far.out
    assert as_root("access", "remove", rule).code == 0
    assert as_root("access", "remove", rule).code != 0
    assert as_root("access", "explain", "shop", "write", "queue:orders-eu", "--from", "10.1.2.3").code == 1


def test_what_means_nothing_is_refused(as_root: Run) -> None:
    assert as_root("access", "allow", "shop", "write", "queue:q").code != 0
    assert as_root("access", "allow", "user:shop", "juggle", "queue:q").code != 0
    assert as_root("access", "allow", "user:shop", "write", "orders").code == 2
    assert as_root("access", "allow", "user:shop", "write", "queue:q", "--from", "nowhere").code != 0
    assert as_root("access", "explain", "shop", "write", "queue:q*").code == 2


def test_roles_are_granted_and_revoked(as_root: Run) -> None:
    assert as_root("access", "allow", "role:billing", "read", "topic:bills").code == 0
    assert as_root("role", "grant", "shop", "producer", "billing").code == 0
    assert as_root("access", "explain", "shop", "write", "topic:anything").code == 0
    assert as_root("access", "explain", "shop", "read", "topic:bills").code == 0
    roles = {one["role"]: one["users"] for one in json.loads(as_root("role", "list", "-o", "json").out)}
    assert roles["billing"] == ["shop"]
    assert roles["viewer"] == []
    assert as_root("role", "revoke", "shop", "producer").code == 0
    assert as_root("access", "explain", "shop", "write", "topic:anything").code == 1
    assert as_root("access", "explain", "shop", "read", "topic:bills").code == 0


def test_others_may_not_change_rules(as_root: Run, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("LONGHALL_USER", "shop")
    monkeypatch.setenv("LONGHALL_PASSWORD", PASSWORD)
    refused = as_root("access", "allow", "user:shop", "all", "topic:*")
    assert refused.code != 0
    assert "no permission to alter cluster" in refused.err
