"""The watchdog: it kills a process whose loop hangs, and none that runs or was stopped together with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

HANG_MS = 1000
PROGRAM = f"""
import asyncio, sys, time
from longhall.world.real.watchdog import Watchdog

async def main():
    watchdog = Watchdog({HANG_MS})
    watchdog.start()
    print("started", watchdog.pid, flush=True)
    loop = asyncio.get_running_loop()
    line = await loop.run_in_executor(None, sys.stdin.readline)
    if line == "hang\\n":
        time.sleep(60)
    watchdog.stop()
    time.sleep(float(line.split()[1]))
    print("ended", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert made.stdout is not None
    assert made.stdout.readline().startswith("started")
    yield made
    if made.poll() is None:
        os.killpg(made.pid, signal.SIGKILL)
    made.communicate()


def send(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()


def test_a_process_with_a_stuck_loop_is_killed(process: subprocess.Popen[str]) -> None:
    send(process, "hang")
    assert process.wait(30) == -signal.SIGKILL
    assert process.stderr is not None
    said = process.stderr.read()
    assert f"process {process.pid}, waiting" in said
    assert "has not run for 1 s" in said


def test_a_stopped_process_is_killed(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    assert process.wait(30) == -signal.SIGKILL
    assert process.stderr is not None
    assert "stopped" in process.stderr.read()


def test_a_running_loop_and_one_without_watchdog_are_not_killed(
    process: subprocess.Popen[str],
) -> None:
    time.sleep(2 * HANG_MS / 1000)
    send(process, f"stop {2 * HANG_MS / 1000}")
    assert process.wait(30) == 0


def test_a_process_stopped_together_with_its_watchdog_survives(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(3 * HANG_MS / 1000)
    os.killpg(process.pid, signal.SIGCONT)
    time.sleep(HANG_MS / 1000)
    send(process, "stop 0")
    assert process.wait(30) == 0
