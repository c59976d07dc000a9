"""Commands of exchanges and definitions against a running node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.cli.exchange import dot_graph
from longhall.cli.exits import Exit
from soak.node import Node
from tests.cli.conftest import Ended, Run

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    home = tmp_path_factory.mktemp("cli-exchanges")
    with Node(home / "first") as first, Node(home / "second") as second:
        yield [first, second]


@pytest.fixture
def hall(run: Run, nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Like `run`, with the first node as the address."""
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", nodes[0].http)
    return run


def good(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


def declare(hall: Run) -> None:
    for words in (
        ("create", "news", "--type", "topic", "--argument", "alternate-exchange=rest"),
        ("create", "rest", "--type", "fanout", "--internal"),
        ("create", "typed", "--type", "headers"),
        ("bind", "news", "sports", "--key", "sport.#"),
        ("bind", "news", "typed", "--to-exchange", "--key", "typed"),
        ("bind", "typed", "urgent", "--argument", "x-match=all", "--argument", "urgent=true"),
        ("bind", "rest", "others"),
    ):
        good(hall("exchange", *words))


def test_exchanges_are_made_bound_asked_and_drawn(hall: Run, nodes: list[Node], tmp_path: Path) -> None:
    for queue in ("sports", "urgent", "others"):
        good(hall("queue", "create", queue))
    declare(hall)
    declare(hall)  # The same again changes nothing.

    def goes(*words: str) -> list[str]:
        return [row["queue"] for row in json.loads(good(hall("exchange", "test", *words, "-o", "json")))]

    assert goes("news", "sport.football") == ["sports"]
    assert goes("news", "typed", "--header", "urgent=true") == ["urgent"]
    assert goes("news", "weather") == ["others"]
    assert goes("typed") == []
    assert goes("amq.default", "sports") == ["sports"]
    assert "no queue" in hall("exchange", "test", "typed").err

    rows = {row["exchange"]: row for row in json.loads(good(hall("exchange", "list", "-o", "json")))}
    assert (rows["news"]["type"], rows["news"]["bindings"], rows["rest"]["internal"]) == ("topic", 2, True)
    assert "sport.#" in good(hall("exchange", "graph"))
    drawn = good(hall("exchange", "graph", "--dot"))
    assert '"x:news" -> "q:sports" [label="sport.#"];' in drawn
    assert '"x:news" -> "x:rest" [style=dashed, label=alternate];' in drawn

    refused = hall("exchange", "create", "news", "--type", "direct")
    assert (refused.code, "inequivalent arg 'type'" in refused.err) == (Exit.USAGE, True)
    assert hall("exchange", "bind", "nothing", "sports").code == Exit.REFUSED
    assert hall("exchange", "delete", "news").code == Exit.USAGE  # Nobody can be asked.
    assert hall("exchange", "bind", "news", "sports", "--argument", "x").code == Exit.USAGE
    good(hall("exchange", "unbind", "news", "sports", "--key", "sport.#", "--yes"))
    assert goes("news", "sport.football") == ["others"]
    assert hall("exchange", "unbind", "news", "sports", "--key", "sport.#", "--yes").code == Exit.REFUSED
    good(hall("exchange", "delete", "news", "--yes"))
    assert hall("exchange", "test", "news", "x").code == Exit.REFUSED
    assert hall("exchange", "delete", "amq.topic", "--yes").code == Exit.USAGE


def test_definitions_of_one_node_make_another_route_alike(hall: Run, nodes: list[Node], tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    given = {
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
            for name in ("eu", "us", "lost")
        ],
        "exchanges": [
            {"name": "world", "vhost": "/", "type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}}
        ],
        "bindings": [
            {"source": "world", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": key}
            for name, key in (("eu", "eu.*"), ("us", "us.*"), ("us", "#.urgent"))
        ]
        + [
            {
                "source": "amq.fanout",
                "vhost": "/",
                "destination": "lost",
                "destination_type": "queue",
                "routing_key": "",
            }
        ],
        "policies": [{"vhost": "/", "name": "short", "pattern": "^eu$", "definition": {"max-length": 3}}],
        "users": [{"name": "bob"}],
    }
    file.write_text(json.dumps(given))
    imported = hall("definitions", "import", str(file), "--yes")
    assert (imported.code, "1 users" in imported.err) == (0, True)
    written = tmp_path / "written.json"
    good(hall("definitions", "export", str(written)))
    second = ("-a", nodes[1].http)
    good(hall("definitions", "import", str(written), "--yes", *second))
    for key in ("eu.x", "us.x", "eu.urgent", "nowhere", "eu.x.urgent"):
        here = good(hall("exchange", "test", "world", key, "-o", "json"))
        assert here == good(hall("exchange", "test", "world", key, "-o", "json", *second)), key
        assert json.loads(here) != []
    again = json.loads(good(hall("definitions", "export", "-", *second)))
    assert [row["name"] for row in again["policies"]] == ["short"]
    assert {row["name"] for row in again["queues"]} == {"eu", "us", "lost"}

    file.write_text('{"queues": 3}')
    assert hall("definitions", "import", str(file), "--yes").code == Exit.USAGE
    file.write_text("{")
    assert hall("definitions", "import", str(file), "--yes").code == Exit.USAGE
    assert hall("definitions", "import", str(tmp_path / "missing"), "--yes").code == Exit.USAGE


def test_names_cannot_leave_their_place_in_a_graph() -> None:
    exchanges = [{"name": 'a"b', "type": "direct", "arguments": {}}]
    bindings = [
        {"source": 'a"b', "destination": 'q"]; x', "destination_type": "queue", "routing_key": "\\", "arguments": {}}
    ]
    drawn = dot_graph(exchanges, bindings)
    assert '"q:q\\"]; x"' in drawn
    assert '[label="\\\\"]' in drawn
