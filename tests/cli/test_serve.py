"""`longhall serve` from start to stop, and every way in which it cannot start: one line that says what to do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.node import Node

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "longhall.cli", "serve"]
DOORS = ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")
FREE = tuple(word for door in DOORS for word in (f"--{door}", "127.0.0.1:0"))


def refused(*words: str) -> str:
    ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout == ""
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("longhall: ")
    assert "Traceback" not in ended.stderr
    return last


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def test_a_taken_port_is_named(tmp_path: Path, taken: str) -> None:
    data = str(tmp_path / "data")
    assert f"{taken} is taken" in refused("--data", data, *FREE, "--kafka", taken)
    assert f"{taken} is taken" in refused("--data", data, *FREE, "--http", taken)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "--data" in refused("--data", str(file), *FREE)
    assert str(file) in refused("--data", str(file / "below"), *FREE)


def test_a_directory_is_locked_by_one_node_and_sigterm_stops_it_cleanly(tmp_path: Path) -> None:
    data, ready_file = tmp_path / "data", tmp_path / "ready"
    environment_free = [*COMMAND, "--data", str(data), *FREE, "--ready-file", str(ready_file)]
    with subprocess.Popen([*environment_free, "--log-format", "json"], stderr=subprocess.PIPE, text=True) as node:
        deadline = time.monotonic() + 60
        while not ready_file.exists():
            assert node.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        ready = json.loads(ready_file.read_text())
        assert ready["pid"] == node.pid
        assert set(ready) >= {"pid", "kafka", "http"}
        assert not ready["kafka"].endswith(":0")
        assert f"process {node.pid}" in refused("--data", str(data), *FREE)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
        assert node.stderr is not None
        for line in node.stderr.read().splitlines():
            assert {"time", "level", "room", "event"} <= set(json.loads(line))
    assert not ready_file.exists()


def test_the_log_has_what_was_made_and_refused_and_is_json_alone(tmp_path: Path) -> None:
    """Standard output and standard error together, with a client that makes, refuses, uses and deletes."""
    with Node(tmp_path / "data", options=["--log-format", "json"]) as node:
        api = f"http://{node.http}/api/v1/queues"

        def ask(method: str, url: str, body: object = None) -> None:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
            try:
                urllib.request.urlopen(request, timeout=30).close()
            except urllib.error.HTTPError as refusal:
                refusal.close()

        ask("POST", api, {"name": "jobs"})
        for _ in range(5):
            ask("POST", api, {"name": "jobs"})
        ask("POST", f"{api}/jobs/messages", {"messages": [{"body": "x"}]})
        with urllib.request.urlopen(f"{api}/jobs", timeout=30) as answer:
            assert json.load(answer)["depth"]["available"] == 1
        with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        ask("DELETE", f"{api}/jobs")
        node.stop()
        lines = [json.loads(line) for line in node.log_file.read_text().splitlines()]
    events = [line["event"] for line in lines]
    assert any(event.startswith("ready; kafka 127.0.0.1:") for event in events)
    assert "a queue was created" in events
    assert "a queue was deleted" in events
    [refused] = [line for line in lines if line["event"] == "a request was refused"]
    assert (refused["door"], refused["request"], refused["error"]) == ("http", "POST queues", "queue-exists")
    assert 'longhall_build_info{version="' in metrics
    assert 'longhall_queue_messages_settled_total{queue="jobs"} 0' in metrics
    assert 'kafka_network_requestmetrics_requests_total{request="CreateTopics"} 0' in metrics


@pytest.mark.parametrize("asked", ["flag", "environment"])
def test_errors_of_the_settings_are_json_where_json_is_asked_for(asked: str, tmp_path: Path) -> None:
    flags = ["--log-format", "json"] if asked == "flag" else []
    more = {"LONGHALL_LOG_FORMAT": "json"} if asked == "environment" else {}
    ended = subprocess.run(
        [*COMMAND, "--data", str(tmp_path), "--set", "unheard_of=1", *flags],
        capture_output=True,
        text=True,
        env={**os.environ, **more},
        check=False,
    )
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, json.loads(line)["level"]) == (2, "error")
    assert "unheard_of" in json.loads(line)["event"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("oidc.issuer=https://login.example.org",), "oidc.audience is missing"),
        (("oidc.audience=longhall",), "oidc.issuer is missing"),
        (("oidc.issuer=http://login.example.org", "oidc.audience=longhall"), "needs https"),
        (("oidc.issuer=login", "oidc.audience=longhall"), "not an address of the identity provider"),
    ],
)
def test_settings_of_the_identity_provider_that_would_let_others_in_are_refused(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    options = [word for setting in words for word in ("--set", setting)]
    assert reason in refused("--data", str(tmp_path / "data"), *FREE, *options)
