"""The fork server: processes that it starts, their exit codes, and what is left when it is killed.

Each case runs in an interpreter of its own, since a fork takes everything along that its process has.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

SECONDS = 60

START = """
import os, signal, subprocess, sys, time
from longhall.node.fork_server import UNKNOWN, ForkServer

def program():
    order = sys.stdin.buffer.raw.readline().decode().strip()
    if order == "fail":
        raise ValueError("no such order")
    if order == "refuse":
        raise SystemExit("refused")
    if order == "wait":
        sys.stdin.buffer.raw.read()  # Until the main process ends.
        return 7
    print(order, flush=True)
    return 3

def started(order):
    process = server.spawn()
    process.stdin.write(order.encode() + b"\\n")
    process.stdin.flush()
    return process

server = ForkServer(program)
"""


def _run(steps: str) -> list[str]:
    program = START + textwrap.dedent(steps)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_orders_and_exit_codes() -> None:
    lines = _run("""
        for order in ("run", "fail", "refuse"):
            process = started(order)
            print(process.wait(30), process.poll())
    """)
    assert lines == ["run", "3", "3", "1", "1", "1", "1"]


def test_processes_are_independent_of_each_other() -> None:
    lines = _run("""
        first, second = started("wait"), started("wait")
        first.kill()
        print(first.wait(30), second.poll())
        try:
            second.wait(0.05)
        except subprocess.TimeoutExpired:
            print("runs")
        second.stdin.close()
        print(second.wait(30))
    """)
    assert lines == ["-9", "None", "runs", "7"]


def test_processes_outlive_a_killed_fork_server_and_no_more_are_started() -> None:
    lines = _run("""
        process = started("wait")
        parent = int(open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[1])
        assert parent not in (1, os.getpid())
        os.kill(parent, signal.SIGKILL)
        try:
            while True:
                server.spawn().stdin.close()  # Until the system has ended the server.
        except OSError as error:
            print(type(error).__name__ in ("BrokenPipeError", "ConnectionResetError"))
        print(process.poll())
        process.stdin.close()
        print(process.wait(30) == UNKNOWN)
    """)
    assert lines == ["True", "None", "True"]


def test_the_fork_server_and_its_processes_end_with_the_main_process() -> None:
    lines = _run("""
        first, second = started("wait"), started("wait")
        print(first.pid, second.pid, flush=True)
        os._exit(0)  # The pipes of standard output close when all of them have ended: `_run` waits for that.
    """)
    assert len(lines) == 2
