"""Commands that talk to a node, against a running one.

`LONGHALL_TEST_BOOTSTRAP=host:port` points them at any running broker instead, Apache Kafka for instance.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from longhall.cli.exits import Exit
from soak.node import Node
from tests.cli.conftest import Ended, Run

pytestmark = pytest.mark.clients

_run = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the node under test."""
    given = os.environ.get("LONGHALL_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with Node(tmp_path_factory.mktemp("cli") / "data") as running:
        yield running.bootstrap


@pytest.fixture
def hall(run: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Like `run`, with the node as the address."""
    monkeypatch.setenv("LONGHALL_ADDRESS", bootstrap)
    return run


@pytest.fixture
def name() -> str:
    return f"cli-{_run}-{next(_numbers)}"


@pytest.fixture
def produce(hall: Run, tmp_path: Path) -> Callable[..., Ended]:
    def produce_text(topic: str, text: str, *words: str) -> Ended:
        file = tmp_path / f"lines-{next(_numbers)}"
        file.write_text(text)
        return hall("produce", topic, str(file), "--create", *words)

    return produce_text


def good(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


def test_topic_lifecycle(hall: Run, name: str) -> None:
    good(hall("topic", "create", name, "-n", "3", "--set", "retention.ms=2 days"))
    assert name in good(hall("topic", "list"))
    described = json.loads(good(hall("topic", "describe", name, "-o", "json")))
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert described["settings"]["retention.ms"] == "172800000"
    good(hall("topic", "alter", name, "-n", "4", "--set", "retention.bytes=1 MiB", "--unset", "retention.ms"))
    described = json.loads(good(hall("topic", "describe", name, "-o", "json")))
    assert len(described["partitions"]) == 4
    assert described["settings"]["retention.bytes"] == str(1 << 20)
    assert "retention.ms" not in described["settings"]
    assert name in good(hall("topic", "describe", name))
    good(hall("topic", "delete", name, "--yes"))
    assert name not in good(hall("topic", "list"))


def test_refusals_are_one_line_with_advice(hall: Run, name: str) -> None:
    good(hall("topic", "create", name))
    for words, advice in (
        (("topic", "create", name), "topic alter"),
        (("topic", "describe", name + "-no"), "topic list"),
        (("consume", name + "-no"), "topic list"),
        (("group", "describe", name + "-no"), "group list"),
        (("transaction", "describe", name + "-no"), "transaction list"),
    ):
        ended = hall(*words)
        assert ended.code == Exit.REFUSED, words
        assert ended.out == ""
        assert ended.err.count("\n") == 1
        assert advice in ended.err
    assert hall("topic", "create", name, "--if-missing").code == 0


def test_an_address_without_a_node_is_one_line(run: Run) -> None:
    ended = run("topic", "list", "--address", "127.0.0.1:1")
    assert ended.code == Exit.UNREACHABLE
    assert "longhall serve" in ended.err
    assert run("topic", "list", "--address", "nonsense").code == Exit.USAGE


def test_produced_lines_are_consumed(hall: Run, name: str, produce: Callable[..., Ended]) -> None:
    produce(name, "a:1\nb:2\na:3", "-K", ":", "-H", "origin=test", "-z", "zstd")
    assert good(hall("consume", name)).splitlines() == ["1", "2", "3"]
    assert good(hall("consume", name, "-k", "-K", "=", "-H")).splitlines() == [
        "origin=test\ta=1",
        "origin=test\tb=2",
        "origin=test\ta=3",
    ]
    assert good(hall("consume", name, "-n", "1", "--from", "1")) == "2\n"
    assert good(hall("consume", name, "--from", "-1")) == "3\n"
    assert good(hall("consume", name, "--from", "end")) == ""
    assert good(hall("consume", name, "--from", "1 h ago")).count("\n") == 3
    assert good(hall("consume", name, "--from", "2100-01-01")) == ""


def test_json_lines_copy_a_topic(hall: Run, name: str, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    messages = [{"key": f"k{n}", "value": {"base64": "/wA="}, "headers": [["h", None]]} for n in range(5)]
    file.write_text("\n".join(json.dumps(message) for message in messages))
    assert (
        json.loads(good(hall("produce", name, str(file), "--create", "--format", "json", "-o", "json")))["messages"]
        == 5
    )
    lines = good(hall("consume", name, "-o", "json"))
    file.write_text(lines)
    good(hall("produce", name + "-copy", str(file), "--create", "--format", "json"))
    copied = [json.loads(line) for line in good(hall("consume", name + "-copy", "-o", "json")).splitlines()]
    assert [(each["key"], each["value"], each["headers"]) for each in copied] == [
        (each["key"], each["value"], each["headers"]) for each in messages
    ]
    assert [each["timestamp_ms"] for each in copied] == [
        json.loads(line)["timestamp_ms"] for line in lines.splitlines()
    ]


def test_a_wrong_line_ends_produce_with_its_number(hall: Run, name: str, produce: Callable[..., Ended]) -> None:
    ended = produce(name, "a:1\nno key\n", "-K", ":")
    assert ended.code == Exit.REFUSED
    assert "line 2" in ended.err
    assert good(hall("consume", name)) == "1\n"
    assert hall("produce", name, "/nowhere/lines").code == Exit.USAGE


def test_a_group_with_server_side_assignment_is_described(hall: Run, name: str, bootstrap: str) -> None:
    good(hall("topic", "create", name, "-n", "2"))
    settings = {"bootstrap.servers": bootstrap, "group.id": name, "group.protocol": "consumer", "client.id": "me"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([name])
    deadline = time.monotonic() + 30
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline, "the member got no partitions"
        consumer.poll(0.05)
    described = json.loads(good(hall("group", "describe", name, "-o", "json")))
    assert (described["state"], described["assignor"]) == ("Stable", "uniform")
    (member,) = described["members"]
    assert (member["client"], member["partitions"]) == ("me", [f"{name}-0", f"{name}-1"])
    consumer.close()


def test_a_group_resumes_and_is_reset(hall: Run, name: str, produce: Callable[..., Ended]) -> None:
    group = name + "-readers"
    produce(name, "".join(f"{n}\n" for n in range(10)))
    assert good(hall("consume", name, "--group", group, "-n", "4")).split() == ["0", "1", "2", "3"]
    assert good(hall("consume", name, "--group", group, "-n", "1")).split() == ["4"]
    described = json.loads(good(hall("group", "describe", group, "-o", "json")))
    assert (described["lag"], described["offsets"][0]["committed"]) == (5, 5)
    assert group in good(hall("group", "list"))

    planned = hall("group", "reset", group, "--to", "earliest")
    assert "--yes" in planned.err
    assert json.loads(good(hall("group", "describe", group, "-o", "json")))["lag"] == 5
    moved = json.loads(good(hall("group", "reset", group, "--shift-by", "-2", "--yes", "-o", "json")))
    assert moved["offsets"] == [{"topic": name, "partition": 0, "committed": 5, "target": 3}]
    assert good(hall("consume", name, "--group", group)).split() == ["3", "4", "5", "6", "7", "8", "9"]
    good(hall("group", "reset", group, "--to", "1 h ago", "--topic", f"{name}:0", "--yes"))
    assert json.loads(good(hall("group", "describe", group, "-o", "json")))["lag"] == 10
    good(hall("group", "delete", group, "--yes"))
    assert group not in good(hall("group", "list"))


def test_truncate_deletes_the_oldest(hall: Run, name: str, produce: Callable[..., Ended]) -> None:
    produce(name, "1\n2\n3\n")
    good(hall("topic", "truncate", name, "--before", "2", "--yes"))
    assert good(hall("consume", name)) == "3\n"


def test_a_hanging_transaction_is_listed_and_aborted(hall: Run, name: str, bootstrap: str) -> None:
    from confluent_kafka import Producer

    good(hall("topic", "create", name))
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "logger": None})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"never")
    producer.flush(30)
    listed = json.loads(good(hall("transaction", "list", "--state", "Ongoing", "-o", "json")))
    assert name in [row["transactional_id"] for row in listed]
    described = json.loads(good(hall("transaction", "describe", name, "-o", "json")))
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{name}-0"])
    assert good(hall("consume", name)) == ""
    assert good(hall("consume", name, "--uncommitted")) == "never\n"
    good(hall("transaction", "abort", name, "--yes"))
    assert json.loads(good(hall("transaction", "describe", name, "-o", "json")))["state"] != "Ongoing"
    assert good(hall("consume", name)) == ""


def test_bench_measures_and_deletes_its_topic(hall: Run) -> None:
    rows = json.loads(good(hall("bench", "--seconds", "0.2", "--size", "100 B", "-o", "json")))
    assert [row["phase"] for row in rows] == ["produce", "one at a time", "consume"]
    assert all(row["messages"] > 0 and row["p99_ms"] > 0 for row in rows)
    assert "longhall-bench" not in good(hall("topic", "list"))


def test_pipes(bootstrap: str, name: str) -> None:
    """As a shell has it: lines from standard input, and a reader that goes away early."""
    command = [sys.executable, "-m", "longhall.cli"]
    environment = {**os.environ, "LONGHALL_ADDRESS": bootstrap}
    text = "".join(f"line {n}\n" for n in range(5000))
    done = subprocess.run([*command, "produce", name, "--create"], input=text, env=environment, text=True, check=True)
    assert done.returncode == 0
    with subprocess.Popen(
        [*command, "consume", name, "--follow", "--from", "start"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert [following.stdout.readline() for _ in range(3)] == [b"line 0\n", b"line 1\n", b"line 2\n"]
        following.terminate()
    consumed = f"{sys.executable} -m longhall.cli consume {name} | head -n 2"
    early = subprocess.run(consumed, shell=True, env=environment, capture_output=True, text=True, check=False)
    assert early.stdout == "line 0\nline 1\n"
    assert "Traceback" not in early.stderr


def test_the_shell_completes_names_of_the_node(hall: Run, bootstrap: str, name: str) -> None:
    good(hall("topic", "create", name))
    asked = {
        "_LONGHALL_COMPLETE": "complete_bash",
        "COMP_WORDS": f"longhall topic describe {name[:-1]}",
        "COMP_CWORD": "3",
    }
    command = [sys.executable, "-c", "import sys; sys.argv = ['longhall']; from longhall.cli.main import main; main()"]

    def completed(address: str) -> str:
        environment = {**os.environ, **asked, "LONGHALL_ADDRESS": address}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert name in completed(bootstrap).split()
    assert completed("127.0.0.1:1").split() == []
