"""Commands of queues against a running node."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.cli import watch
from longhall.cli.completion import complete_queue
from longhall.cli.exits import Exit
from soak.node import Node
from tests.cli.conftest import Ended, Run

pytestmark = pytest.mark.clients

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("cli-queues") / "data") as running:
        yield running


@pytest.fixture
def hall(run: Run, node: Node, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Like `run`, with the node as the address."""
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    return run


@pytest.fixture
def name() -> str:
    return f"cli-{next(_numbers)}"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """What the next command reads from standard input."""

    def type_bytes(data: bytes) -> None:
        file = tmp_path / f"typed-{next(_numbers)}"
        file.write_bytes(data)
        monkeypatch.setattr(sys, "stdin", file.open())

    return type_bytes


def good(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


def told(ended: Ended) -> Any:
    return json.loads(good(ended))


def test_queue_lifecycle(hall: Run, name: str) -> None:
    assert "created" in hall("queue", "create", name, "--lease", "90s", "--fifo", "--tag", "team=blue").err
    assert name in good(hall("queue", "list"))
    described = told(hall("queue", "describe", name, "-o", "json"))
    assert described["settings"]["lease_ms"] == 90_000
    assert described["settings"]["fifo"] is True
    assert "90 s" in good(hall("queue", "describe", name))
    good(hall("queue", "alter", name, "--delay", "1s", "--unset", "lease", "--tag", "cost=1"))
    settings = told(hall("queue", "describe", name, "-o", "json"))["settings"]
    assert (settings["delay_ms"], settings["lease_ms"], settings["tags"]) == (
        1000,
        30_000,
        {"team": "blue", "cost": "1"},
    )
    assert told(hall("queue", "pause", name, "-o", "json"))["paused"] is True
    assert "fifo paused" in good(hall("queue", "list", name))
    good(hall("queue", "resume", name))
    good(hall("queue", "delete", name, "--yes"))
    assert name not in good(hall("queue", "list"))


def test_sent_arguments_and_lines_are_received(hall: Run, name: str, typed: Callable[[bytes], None]) -> None:
    good(hall("queue", "create", name))
    assert told(hall("send", name, "one", "two", "-o", "json"))["messages"] == 2
    typed(b"three\nfour\n\xff\xfe")
    assert "3 messages sent" in hall("send", name, "-A", "kind=line").err
    assert good(hall("receive", name)) == "one\n"
    assert good(hall("receive", name, "-n", "2")) == "two\nthree\n"
    rest = [json.loads(line) for line in good(hall("receive", name, "--all", "-o", "json")).splitlines()]
    assert [message["body"] for message in rest] == ["four", {"base64": "//4="}]
    assert rest[0]["attributes"] == {"kind": "line"}
    empty = hall("receive", name, "--wait", "10ms")
    assert (empty.code, empty.out) == (0, "")
    assert "nothing is available" in empty.err
    assert told(hall("queue", "describe", name, "-o", "json"))["depth"]["in_flight"] == 0


def test_several_queues_are_received_by_weight(hall: Run, name: str) -> None:
    other = name + "-other"
    for queue in (name, other):
        good(hall("queue", "create", queue))
        good(hall("send", queue, *[f"{queue} {number}" for number in range(4)]))
    lines = good(hall("receive", f"{name}=3", other, "-n", "4")).splitlines()
    assert sorted(line.split()[0] for line in lines) == [name, name, name, other]
    rest = [json.loads(line) for line in good(hall("receive", f"{name}=3", other, "--all", "-o", "json")).splitlines()]
    assert sorted(one["queue"] for one in rest) == [name, other, other, other]
    assert hall("receive", name, other, "--wait", "10ms").err.strip().endswith(f"{name}, {other}")
    for wrong in (f"{name}=0", f"{name}=many", f"{name}={10**9}"):
        assert hall("receive", wrong, other).code == Exit.USAGE
    assert hall("receive", name, name).code == Exit.USAGE


def test_json_lines_of_receive_are_input_of_send(hall: Run, name: str, typed: Callable[[bytes], None]) -> None:
    good(hall("queue", "create", name))
    good(hall("queue", "create", name + "-copy"))
    good(hall("send", name, "x", "--group", "g", "-A", "kind=a", "--key", "k", "--correlation-id", "c"))
    written = good(hall("receive", name, "-o", "json"))
    typed(written.encode())
    good(hall("send", name + "-copy", "--format", "json"))
    copy = json.loads(good(hall("receive", name + "-copy", "-o", "json")))
    original = json.loads(written)
    for field in ("body", "group", "attributes", "key", "correlation_id"):
        assert copy[field] == original[field]


def test_a_message_that_is_not_settled_is_delivered_again(hall: Run, name: str) -> None:
    good(hall("queue", "create", name))
    good(hall("send", name, "x"))
    assert good(hall("receive", name, "--keep", "--lease", "1ms")) == "x\n"
    again = json.loads(good(hall("receive", name, "--wait", "10s", "-o", "json")))
    assert again["attempts"] == 2


def test_a_large_file_is_sent_and_received(hall: Run, name: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096 * 18
    file = tmp_path / "large"
    file.write_bytes(data)
    good(hall("queue", "create", name, "--whole-bytes", "32 MiB"))
    good(hall("queue", "create", name + "-small"))
    good(hall("send", name, "--file", str(file), "-A", "kind=film"))
    refused = hall("send", name + "-small", "--file", str(file))
    assert refused.code == Exit.REFUSED
    assert "--whole-bytes" in refused.err
    received = json.loads(good(hall("receive", name, "-o", "json")))
    assert base64.b64decode(received["body"]["base64"]) == data
    assert received["attributes"] == {"kind": "film"}


def test_large_lines_are_sent_and_received(hall: Run, name: str, typed: Callable[[bytes], None]) -> None:
    line = b'"' * 3_000_000
    good(hall("queue", "create", name, "--message-bytes", "4 MiB"))
    typed(b"small\n" + line + b"\n")
    good(hall("send", name, "-A", "kind=quotes and more", "--group", "a b"))
    received = [json.loads(text) for text in good(hall("receive", name, "-n", "2", "-o", "json")).splitlines()]
    assert [message["body"] for message in received] == ["small", line.decode()]
    assert received[1]["attributes"] == {"kind": "quotes and more"}
    assert received[1]["group"] == "a b"


def test_peek_and_search_lease_nothing(hall: Run, name: str) -> None:
    good(hall("queue", "create", name, "--settled", "keep"))
    good(hall("send", name, "red apple", "green apple", "-A", "kind=fruit"))
    good(hall("send", name, "red car", "-A", "kind=thing"))
    peeked = told(hall("queue", "peek", name, "-o", "json"))
    assert [row["message"]["body"] for row in peeked] == ["red apple", "green apple", "red car"]
    assert "green apple" in good(hall("queue", "peek", name, "-n", "2"))
    found = told(hall("queue", "search", name, "red", "-f", "kind = 'fruit'", "-o", "json"))
    assert [row["message"]["body"] for row in found] == ["red apple"]
    assert told(hall("queue", "search", name, "--until", "1h ago", "-o", "json")) == []
    assert hall("queue", "search", name, "-f", "kind = ").code == Exit.USAGE
    assert hall("queue", "search", name, "--from", "someday").code == Exit.USAGE
    assert good(hall("receive", name, "--all", "--filter", "kind = 'thing'")) == "red car\n"


def test_rewind_and_fork(hall: Run, name: str) -> None:
    good(hall("queue", "create", name, "--settled", "keep"))
    good(hall("send", name, "a", "b"))
    assert good(hall("receive", name, "--all")) == "a\nb\n"
    assert told(hall("queue", "rewind", name, "-y", "-o", "json"))["available"] == 2
    assert good(hall("receive", name, "--all")) == "a\nb\n"
    assert told(hall("queue", "rewind", name, "-y", "--to", "1 h ago", "-o", "json"))["available"] == 2
    assert good(hall("receive", name, "--all")) == "a\nb\n"
    good(hall("queue", "rewind", name, "-y", "--offset", "0:1"))
    assert good(hall("receive", name, "--all")) == "b\n"
    fork = told(hall("queue", "fork", name, name + "-fork", "--lease", "7s", "-o", "json"))
    assert (fork["settings"]["lease_ms"], fork["depth"]["available"]) == (7000, 2)
    assert hall("queue", "rewind", name, "-y", "--offset", "one").code == Exit.USAGE
    good(hall("queue", "create", name + "-free"))
    refused = hall("queue", "rewind", name + "-free", "-y")
    assert refused.code == Exit.REFUSED
    assert "--settled keep" in refused.err


def test_dead_letters_are_edited_and_redriven(hall: Run, name: str, tmp_path: Path) -> None:
    good(hall("queue", "create", name + "-dead"))
    good(hall("queue", "create", name, "--dead-letters", name + "-dead", "--attempts", "1"))
    good(hall("send", name, "wrong", "-A", "kind=order"))
    good(hall("receive", name, "--keep", "--lease", "1ms"))
    letters: list[Any] = []
    for _ in range(200):
        good(hall("receive", name))
        letters = told(hall("dlq", "list", name, "-o", "json"))
        if letters:
            break
    assert [(letter["body"], letter["reason"], letter["source"]) for letter in letters] == [("wrong", "attempts", name)]
    letter = letters[0]["message_id"]
    assert "wrong" in good(hall("dlq", "list", name + "-dead"))
    assert "attribute kind" in good(hall("dlq", "show", name, letter))
    nothing = hall("dlq", "edit", name, letter)
    assert nothing.code == Exit.USAGE
    good(hall("dlq", "edit", name, letter, "--attribute", "by=alice"))
    file = tmp_path / "right"
    file.write_text("right")
    edited = told(hall("dlq", "edit", name, letter, "--file", str(file), "-o", "json"))
    assert (edited["body"], edited["attributes"]) == ("right", {"kind": "order", "by": "alice"})
    moved = told(hall("dlq", "redrive", name, "--rate", "1000", "-o", "json"))
    assert (moved["moved"], moved["state"]) == (1, "completed")
    assert good(hall("receive", name, "--wait", "10s")) == "right\n"
    assert [move["state"] for move in told(hall("dlq", "moves", name, "-o", "json"))] == ["completed"]
    assert hall("dlq", "cancel", name).code == Exit.REFUSED
    assert hall("dlq", "show", name, letter).code == Exit.REFUSED


def test_a_redrive_is_cancelled(hall: Run, name: str) -> None:
    good(hall("queue", "create", name + "-to"))
    good(hall("queue", "create", name))
    good(hall("send", name, *"abcdefghij" * 6))
    good(hall("dlq", "redrive", name, "--to", name + "-to", "--rate", "1", "--no-wait"))
    again = hall("dlq", "redrive", name, "--to", name + "-to")
    assert again.code == Exit.REFUSED
    assert "dlq cancel" in again.err
    assert told(hall("dlq", "cancel", name, "-o", "json"))["moved"] < 60


def test_redrive_of_chosen_messages(hall: Run, name: str) -> None:
    good(hall("queue", "create", name + "-to"))
    good(hall("queue", "create", name))
    sent = told(hall("send", name, "a", "b", "c", "-o", "json"))["message_ids"]
    moved = told(hall("dlq", "redrive", name, "--to", name + "-to", "--id", sent[1], "-o", "json"))
    assert moved["moved"] == 1
    assert good(hall("receive", name + "-to", "--all")) == "b\n"
    assert good(hall("receive", name, "--all")) == "a\nc\n"


def test_refusals_are_one_line_with_advice(hall: Run, name: str) -> None:
    good(hall("queue", "create", name, "--messages", "1"))
    good(hall("send", name, "x"))
    for words, code, advice in (
        (("queue", "create", name), Exit.REFUSED, "queue alter"),
        (("queue", "describe", name + "-no"), Exit.REFUSED, "queue list"),
        (("receive", name + "-no"), Exit.REFUSED, "queue list"),
        (("send", name + "-no", "x"), Exit.REFUSED, "queue list"),
        (("send", name, "y"), Exit.REFUSED, "purge"),
        (("queue", "create", name + "-new", "--dead-letters", "nowhere"), Exit.USAGE, "create it first"),
        (("queue", "create", name + "!"), Exit.USAGE, "legal name"),
        (("queue", "create", name + "-new", "--lease", "fish"), Exit.USAGE, "--lease"),
        (("queue", "alter", name), Exit.USAGE, "--unset"),
        (("queue", "alter", name, "--partitions", "5"), Exit.USAGE, "make another"),
        (("queue", "alter", name, "--unset", "nothing"), Exit.USAGE, "lease"),
        (("send", name, "x", "--attribute", "y"), Exit.USAGE, "NAME=VALUE"),
        (("send", name, "x", "--delay", "fish"), Exit.USAGE, "--delay"),
        (("send", name, "--file", "/nowhere/at-all"), Exit.USAGE, "No such file"),
        (("receive", name, "--wait", "forever"), Exit.USAGE, "--follow"),
        (("dlq", "show", name, "nothing"), Exit.REFUSED, "--dead-letters"),
    ):
        ended = hall(*words)
        assert ended.code == code, (words, ended)
        assert ended.out == ""
        assert ended.err.startswith("longhall: ")
        assert ended.err.count("\n") == 1
        assert advice in ended.err, words
    assert hall("queue", "create", name, "--if-missing").code == 0
    assert name in told(hall("queue", "create", name, "--if-missing", "-o", "json"))["name"]


def test_an_address_without_a_node_is_one_line(run: Run, node: Node) -> None:
    ended = run("queue", "list", "--address", "127.0.0.1:1")
    assert ended.code == Exit.UNREACHABLE
    assert "longhall serve" in ended.err
    assert run("queue", "list", "--address", "nonsense").code == Exit.USAGE
    stranger = run("queue", "list", "--address", node.sqs)
    assert stranger.code == Exit.REFUSED
    assert "--address" in stranger.err


def test_with_credentials(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[alice]\naws_access_key_id = ALICE\naws_secret_access_key = wonderland\n")
    file.chmod(0o600)
    with Node(tmp_path / "data", options=("--credentials", str(file))) as node:
        refused = run("queue", "list", "--address", node.http)
        assert refused.code == Exit.REFUSED
        assert "LONGHALL_PASSWORD" in refused.err
        monkeypatch.setenv("LONGHALL_ACCESS_KEY", "ALICE")
        monkeypatch.setenv("LONGHALL_SECRET", "wonderland")
        assert run("queue", "list", "--address", node.http).code == 0


def test_watch_repeats_the_table(hall: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good(hall("queue", "create", name))
    looks = itertools.count()

    def sleep(seconds: float) -> None:
        if next(looks) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", sleep)
    ended = hall("queue", "list", name, "--watch", "-o", "json")
    assert ended.code == Exit.INTERRUPTED
    assert [json.loads(line)[0]["queue"] for line in ended.out.splitlines()] == [name, name]
    looks = itertools.count()
    ended = hall("queue", "describe", name, "--watch")
    assert ended.out.count("in flight") == 2


def test_names_are_completed(hall: Run, name: str) -> None:
    good(hall("queue", "create", name + "-completed"))
    assert complete_queue(name + "-comp") == [name + "-completed"]


def test_completion_is_silent_without_a_node(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", "127.0.0.1:1")
    assert complete_queue("x") == []


IMPORTS = """
import sys
sys.argv = ["longhall", *{words!r}]
from longhall.cli.main import main
try:
    main()
except SystemExit as ended:
    print([ended.code, *(name for name in {heavy!r} if name in sys.modules)], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [("queue", "list"), ("send", "quick", "x"), ("receive", "quick"), ("dlq", "moves", "quick"), ("user", "list")],
    ids=" ".join,
)
def test_a_command_imports_nothing_of_a_node(hall: Run, node: Node, words: tuple[str, ...]) -> None:
    """The time of a command is that of its imports: a fifth of a second without the broker, twice that with it."""
    hall("queue", "create", "quick")
    heavy = ("longhall.broker", "longhall.service.router", "longhall.front.guard", "cryptography")
    code = IMPORTS.format(words=words, heavy=heavy)
    environment = {**os.environ, "LONGHALL_HTTP_ADDRESS": node.http}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == "[0]"
