"""A node that cannot start prints one line that says what to do, and ends with an exit code other than 0."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from soak.node import COMMAND, Node
from tests.crash.conftest import NewNode


def refused(data: Path, *options: str, kafka: str = "127.0.0.1:0") -> str:
    """Start a node that must refuse, and return its one line."""
    doors = ("sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")
    free = tuple(word for door in doors for word in (f"--{door}", "127.0.0.1:0"))
    command = [*COMMAND, "serve", "--data", os.fspath(data), "--kafka", kafka, *free, *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode not in (0, 70), ended.stderr
    said = [line for line in ended.stderr.splitlines() if line.startswith("longhall:")]
    assert len(said) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return said[0]


def test_a_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        line = refused(tmp_path / "data", kafka=address)
    assert address in line
    assert "--kafka" in line


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I am a file")
    line = refused(tmp_path / "data")
    assert os.fspath(tmp_path / "data") in line
    assert "--data" in line


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    line = refused(Path("/proc/longhall"))
    assert "/proc/longhall" in line


def test_a_second_node_on_the_same_directory(new_node: NewNode) -> None:
    first = new_node()
    first.start()
    line = refused(first.data)
    assert os.fspath(first.data) in line
    assert str(first.pid) in line or "in use" in line or "another" in line
    assert first.running


def test_the_lock_of_a_dead_node_is_no_obstacle(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    node.kill()
    node.start()
    assert node.stop() == 0


def test_a_directory_of_a_later_version(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    assert node.stop() == 0
    head = node.data / "longhall.json"
    shutil.copy(head, head.with_suffix(".old"))
    written = json.loads(head.read_text())
    numbers = [name for name, value in written.items() if isinstance(value, int) and not isinstance(value, bool)]
    version = next(name for name in numbers if "version" in name or "format" in name)
    head.write_text(json.dumps({**written, version: 999}))
    line = refused(node.data)
    assert "999" in line or "version" in line or "newer" in line


def test_an_invalid_address(tmp_path: Path) -> None:
    assert "nonsense" in refused(tmp_path / "data", kafka="nonsense")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_open_address_without_authentication(tmp_path: Path, address: str) -> None:
    assert "--insecure" in refused(tmp_path / "data", kafka=address)


def test_everything_survives_a_clean_stop_and_a_start(new_node: NewNode) -> None:
    node: Node = new_node()
    node.start()
    assert node.stop() == 0
    assert not node.ready_file.exists()
    node.start()
    assert node.stop() == 0
