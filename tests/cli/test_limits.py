"""`longhall limit`: rate limits by commands."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from soak.node import Node
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("limits") / "data") as running:
        yield running


@pytest.fixture
def limited(node: Node, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    return run


def test_limits_are_set_listed_and_deleted(limited: Run) -> None:
    assert "there are no limits" in limited("limit", "list").err
    assert limited("queue", "create", "jobs").code == 0
    made = limited("limit", "set", "--queue", "jobs", "--operation", "send", "--messages", "1", "-o", "json")
    assert made.code == 0, made.err
    assert json.loads(made.out) == {
        "id": "queue=jobs,operation=send",
        "queue": "jobs",
        "operation": "send",
        "messages_a_second": 1,
    }
    assert limited("limit", "set", "--user", "*", "--bytes", "1000000000").code == 0
    shown = limited("limit", "list").out
    assert "jobs" in shown
    assert "1000000000" in shown
    limited("limit", "delete", "--user", "*")
    assert len(json.loads(limited("limit", "list", "-o", "json").out)) == 1
    assert limited("limit", "delete", "--queue", "jobs", "--operation", "send").code == 0
    gone = limited("limit", "delete", "--queue", "jobs", "--operation", "send")
    assert gone.code != 0
    assert "there is no limit" in gone.err


def test_what_means_nothing_is_refused_with_the_reason(limited: Run) -> None:
    for words, reason in (
        (["--bytes", "1"], "a limit is for one of"),
        (["--tenant", "acme"], "a limit has at least one of"),
        (["--operation", "eat", "--bytes", "1"], "send, receive, settle, manage"),
        (["--client-address", "10.0.0.0/8", "--requests", "1"], "one IP address"),
    ):
        refused = limited("limit", "set", *words)
        assert refused.code != 0
        assert reason in refused.err
