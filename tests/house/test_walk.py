"""`./dev walk` follows a real request: it lists the files in their order, and counts files and processes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.house.repository import ROOT

pytestmark = pytest.mark.slow

OPERATIONS = {
    "sqs-send": ["doors/sqs/server.py", "log/wal.py"],
    "sqs-receive": ["doors/sqs/server.py", "queues/queue.py"],
    "sqs-settle": ["doors/sqs/server.py", "log/wal.py"],
    "kafka-produce": ["doors/kafka/connection.py", "log/wal.py"],
    "kafka-fetch": ["doors/kafka/connection.py", "doors/kafka/handlers/fetch.py"],
}


def walk(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "house.walk", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_the_files_of_an_operation_are_listed_in_order(operation: str) -> None:
    *lines, count = walk(operation)
    files = [line.split()[2].rstrip(":") for line in lines]
    places = [files.index(file) for file in OPERATIONS[operation]]
    assert places == sorted(places)
    assert count == f"files {len(set(files))}, processes 1"


def test_a_request_at_a_follower_passes_several_processes() -> None:
    *lines, count = walk("sqs-send", "--through", "follower")
    assert re.fullmatch(r"files \d+, processes [23]", count)
    assert len({line.split()[1] for line in lines}) > 1
    assert any("cluster/" in line for line in lines)


def test_an_operation_that_does_not_exist_is_refused() -> None:
    command = [sys.executable, "-m", "house.walk", "sqs-dance"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "sqs-send" in ran.stderr
