"""Mistakes that a command explains instead of doing something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.cli.exits import Exit
from soak.node import Node
from tests.cli.conftest import Ended, Run

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("cli-misleading") / "data") as running:
        yield running


@pytest.fixture
def hall(run: Run, node: Node, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Like `run`, with the node as the address."""
    monkeypatch.setenv("LONGHALL_ADDRESS", node.bootstrap)
    monkeypatch.setenv("LONGHALL_HTTP_ADDRESS", node.http)
    return run


def refused(ended: Ended, code: Exit, *words: str) -> None:
    """It ended with this code and one line that has these words."""
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err


def good(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


def test_a_number_needs_its_unit(run: Run) -> None:
    for words in (
        ("queue", "create", "q", "--lease", "30"),
        ("queue", "create", "q", "--message-bytes", "4096"),
        ("send", "q", "x", "--delay", "5"),
        ("receive", "q", "--wait", "20"),
        ("transaction", "list", "--longer-than", "10"),
        ("bench", "--size", "100"),
        ("produce", "t", "--timeout", "5"),
    ):
        refused(run(*words), Exit.USAGE, "has no unit")


def test_a_setting_out_of_its_bounds_is_called_by_its_option(hall: Run) -> None:
    refused(hall("queue", "create", "q", "--priorities", "300"), Exit.USAGE, "--priorities: it must be at most 256")
    good(hall("queue", "create", "bounded"))
    refused(hall("queue", "alter", "bounded", "--attempts", "0", "--dead-letters", "bounded"), Exit.USAGE, "--attempts")


def test_what_destroys_needs_consent_where_nobody_can_be_asked(hall: Run) -> None:
    good(hall("queue", "create", "kept", "--settled", "keep"))
    good(hall("topic", "create", "kept-topic"))
    for words in (
        ("queue", "delete", "kept"),
        ("queue", "purge", "kept"),
        ("queue", "rewind", "kept"),
        ("topic", "delete", "kept-topic"),
        ("topic", "truncate", "kept-topic"),
        ("group", "delete", "nobody"),
        ("transaction", "abort", "nothing"),
    ):
        refused(hall(*words), Exit.USAGE, "--yes")
    assert "kept-topic" in good(hall("topic", "list"))
    good(hall("queue", "delete", "kept", "--yes"))


def test_a_queue_with_the_name_of_a_topic(hall: Run) -> None:
    good(hall("topic", "create", "orders-topic"))
    refused(hall("queue", "create", "orders-topic"), Exit.REFUSED, "There is a topic 'orders-topic'", "--topic")
    good(hall("queue", "create", "orders", "--topic", "orders-topic"))


def test_the_name_of_a_queue_that_is_not_legal(hall: Run) -> None:
    ended = hall("queue", "create", "a b")
    assert ended.code == 2
    assert "longhall: 'a b' is not a legal name: use up to 249 letters, digits, '.', '_' and '-'" in ended.err


def test_a_name_of_a_fifo_queue_for_a_standard_one(hall: Run) -> None:
    refused(hall("queue", "create", "turns.fifo"), Exit.USAGE, "FIFO")
    good(hall("queue", "create", "turns.fifo", "--fifo"))
    assert json.loads(good(hall("queue", "describe", "turns.fifo", "-o", "json")))["settings"]["fifo"] is True


def test_an_address_may_be_a_url_where_http_is_spoken(hall: Run, node: Node) -> None:
    good(hall("queue", "list", "--address", f"http://{node.http}/"))
    refused(hall("queue", "list", "--address", f"https://{node.http}"), Exit.REFUSED, "no TLS with", "http://")
    refused(hall("queue", "list", "--address", f"amqp://{node.http}"), Exit.USAGE, "no amqp")
    refused(hall("topic", "list", "--address", f"http://{node.bootstrap}"), Exit.USAGE, "Kafka door")


def test_a_host_that_nobody_knows(hall: Run) -> None:
    for words in (("queue", "list"), ("topic", "list"), ("cluster", "status")):
        refused(hall(*words, "--address", "nowhere.invalid:80"), Exit.UNREACHABLE, "host nowhere.invalid is not known")


def test_another_protocol_at_the_port(hall: Run, node: Node) -> None:
    refused(hall("queue", "list", "--address", node.bootstrap), Exit.REFUSED, "not Longhall's HTTP API")
    refused(hall("cluster", "status", "--address", node.bootstrap), Exit.REFUSED, "does not speak HTTP")
    for address in (node.http, node.sqs):
        refused(hall("topic", "list", "--address", address), Exit.REFUSED, "speaks HTTP", "Kafka")
    for address, protocol in ((node.amqp, "AMQP"), (node.stomp, "STOMP")):
        refused(hall("topic", "list", "--address", address), Exit.REFUSED, f"speaks {protocol}", "Kafka")
    refused(hall("queue", "list", "--address", node.amqp), Exit.REFUSED, "not Longhall's HTTP API")


def test_an_address_without_a_port(hall: Run) -> None:
    refused(hall("queue", "list", "--address", "localhost"), Exit.USAGE, "like 127.0.0.1:8080\n")
    refused(hall("topic", "list", "--address", "localhost"), Exit.USAGE, "like 127.0.0.1:9092\n")


def test_dead_letters_of_a_queue_that_has_none(hall: Run) -> None:
    good(hall("queue", "create", "plain"))
    good(hall("send", "plain", "not a dead letter"))
    refused(hall("dlq", "list", "plain"), Exit.REFUSED, "no dead-letter queue", "--dead-letters")
    good(hall("queue", "create", "plain-dead"))
    good(hall("queue", "alter", "plain", "--dead-letters", "plain-dead"))
    assert hall("dlq", "list", "plain").err == "there are no dead letters in plain-dead\n"


def test_a_reset_of_a_group_that_nobody_knows(hall: Run) -> None:
    refused(hall("group", "reset", "nobody", "--to", "start", "--yes"), Exit.REFUSED, "group list")
    good(hall("topic", "create", "to-read"))
    good(hall("group", "reset", "nobody", "--to", "start", "--topic", "to-read", "--yes"))


def test_the_lag_of_a_group_that_has_committed_nothing(hall: Run, node: Node) -> None:
    from confluent_kafka import Consumer

    good(hall("topic", "create", "unread"))
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "silent", "enable.auto.commit": False})
    consumer.subscribe(["unread"])
    while not consumer.assignment():
        consumer.poll(0.1)
    described = json.loads(good(hall("group", "describe", "silent", "-o", "json")))
    consumer.close()
    assert described["lag"] is None
    assert described["partitions_without_offset"] == 1


def test_json_has_values_and_no_prose(hall: Run) -> None:
    good(hall("queue", "create", "measured"))
    [row] = json.loads(good(hall("queue", "list", "measured", "-o", "json")))
    assert row["size_bytes"] == 0
    assert row["oldest_age_ms"] == 0
    assert not {"size", "oldest", "kind"} & set(row)
    good(hall("queue", "create", "measured-to"))
    move = json.loads(good(hall("dlq", "redrive", "measured", "--to", "measured-to", "-o", "json")))
    assert move["target"] == "measured-to"
    assert "to" not in move


def test_a_misspelt_topic_is_not_created(hall: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("x\n")
    refused(hall("produce", "oders", str(file)), Exit.REFUSED, "topic create")
    assert "oders" not in good(hall("topic", "list"))
    assert "1 message produced" in hall("produce", "oders", str(file), "--create").err


def test_runs_of_produce_do_not_all_begin_at_the_same_partition(hall: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("x\n")
    good(hall("topic", "create", "spread", "-n", "16"))
    for _ in range(8):
        good(hall("produce", "spread", str(file)))
    lines = good(hall("consume", "spread", "--offsets")).splitlines()
    assert len({line.partition(":")[0] for line in lines}) > 1


def test_produce_reports_what_was_acknowledged_when_the_node_dies(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        command = [sys.executable, "-m", "longhall.cli", "produce", "t", "--create", "--timeout", "2s"]
        environment = {**os.environ, "LONGHALL_ADDRESS": node.bootstrap}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
        ) as producing:
            assert producing.stdin is not None
            assert producing.stderr is not None
            producing.stdin.write("1\n2\n")
            producing.stdin.flush()
            reading = [sys.executable, "-m", "longhall.cli", "consume", "t", "--follow", "--from", "start", "-n", "2"]
            while subprocess.run(reading, env=environment, capture_output=True, check=False).returncode != 0:
                pass  # The topic comes with the first message.
            node.kill()
            producing.stdin.write("3\n")
            producing.stdin.close()
            said = producing.stderr.read()
        assert producing.returncode != 0
        assert "2 messages acknowledged by t; 1 sent without an acknowledgement" in said
