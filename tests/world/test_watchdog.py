"""The watchdog: a process whose loop hangs is killed, one that runs is not, and one that was stopped with it is not."""

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


def told(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()


def test_a_loop_that_is_stuck_is_ended(process: subprocess.Popen[str]) -> None:
    told(process, "hang")
    assert process.wait(30) == -signal.SIGKILL
    assert process.stderr is not None
    said = process.stderr.read()
    assert f"process {process.pid}, waiting" in said
    assert "has not run for 1 s" in said


def test_a_process_that_is_stopped_is_ended(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    assert process.wait(30) == -signal.SIGKILL
    assert process.stderr is not None
    assert "stopped" in process.stderr.read()


def test_a_loop_that_runs_or_needs_no_watchdog_any_more_is_left_alone(
    process: subprocess.Popen[str],
) -> None:
    time.sleep(2 * HANG_MS / 1000)
    told(process, f"stop {2 * HANG_MS / 1000}")
    assert process.wait(30) == 0


def test_a_process_that_was_stopped_together_with_its_watchdog_goes_on(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(3 * HANG_MS / 1000)
    os.killpg(process.pid, signal.SIGCONT)
    time.sleep(HANG_MS / 1000)
    told(process, "stop 0")
    assert process.wait(30) == 0
