"""Nodes as real processes, for tests that injure them. Every process is ended by its own id."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from soak.node import Node
from tests.clients.presence import need_command
from tests.left_out import leave_out

NewNode = Callable[..., Node]
Mount = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.name != "test_history.py":
            item.add_marker(pytest.mark.slow)


def injected(fault: str) -> list[str]:
    """The strace command before a node that injects this fault into the system calls of all its processes."""
    calls = fault.partition(":")[0]
    prefix = [need_command("strace", "faults in system calls"), "-f", "-qq", "-o", "/dev/null"]
    prefix += ["-e", f"trace={calls}", "-e", f"inject={fault}"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        leave_out(f"faults in system calls: strace says {tried.stderr.strip()[-200:]}")
    return prefix


@pytest.fixture
def new_node(tmp_path: Path) -> Iterator[NewNode]:
    """Makes nodes that are not started yet; no node runs after the test."""
    made: list[Node] = []

    def make(data: Path | None = None, **settings: Any) -> Node:
        made.append(Node(data or tmp_path / f"data{len(made)}", home=tmp_path, **settings))
        return made[-1]

    yield make
    for node in made:
        node.kill()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts file systems under the test's directory; the test is left out where that is not permitted."""
    mounted: list[Path] = []

    def make(*arguments: str) -> Path:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            leave_out("a file system of its own: only root may mount one")
        place = tmp_path / f"mounted{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", *arguments, os.fspath(place)], capture_output=True, text=True)
        if done.returncode != 0:
            leave_out(f"a file system of its own: mount says {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield make
    for place in reversed(mounted):
        subprocess.run(["umount", "--lazy", os.fspath(place)], check=False, capture_output=True)
