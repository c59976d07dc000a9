"""`longhall serve` from start to stop, and every way in which it cannot start: one line that says what to do."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "longhall.cli", "serve"]
FREE = ("--kafka", "127.0.0.1:0", "--sqs", "127.0.0.1:0", "--http", "127.0.0.1:0")


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
