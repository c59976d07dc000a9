"""The program of the watchdog: kills a process whose loop no longer runs.

It is run by path, without `site` and without the package, and imports only what is built into the interpreter. Its
standard input is one end of a socket pair; the node at the other end writes a byte for every heartbeat. Silence counts
from the first byte on. When the other end is closed, the node has ended, and this process ends too.

Silence is measured in steps during which this process itself was running: after a suspended machine, a stopped process
group or a starved processor neither process has run. A traced process is not killed. Arguments: the pid of the node,
which must be the parent, and the longest allowed silence in milliseconds.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

STEPS = 40  # Steps in which silence is measured, within these bounds:
STEP_S_MIN = 0.05
STEP_S_MAX = 0.5
LATE_SHARE = 2.0  # A step counts for at most this multiple of its length.
END_S = 5.0  # A killed process that still exists after this waits for its disk.
STATES = {"T": "stopped", "t": "traced", "D": "waiting for its disk", "R": "running", "S": "waiting"}


def state_of(pid: int) -> str:
    """The state of a process in one letter, from /proc; empty when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def say(words: str) -> None:
    """Write one line to standard error, the node's log."""
    posix.write(2, f"longhall: {words}\n".encode())


def wait(pid: int, silence_s_max: float) -> None:
    """Return when the node was silent for too long; exit with the node."""
    step_s = min(max(silence_s_max / STEPS, STEP_S_MIN), STEP_S_MAX)
    armed = False
    silent_s = 0.0
    while True:
        began_s = time.monotonic()
        if select.select([0], [], [], step_s)[0]:
            heard = posix.read(0, 4096)
            if not heard or posix.getppid() != pid:
                posix._exit(0)
            armed = True
            silent_s = 0.0
        elif armed:
            silent_s += min(time.monotonic() - began_s, LATE_SHARE * step_s)
            if silent_s >= silence_s_max and state_of(pid) != "t":
                return


def end(pid: int, silence_s_max: float) -> None:
    """Kill the node and report it: its end resets all its connections."""
    if posix.getppid() != pid:
        return
    state = STATES.get(state_of(pid), "gone")
    say(
        f"the loop of the node (process {pid}, {state}) has not run for {silence_s_max:g} s; the process is killed, so "
        "that its clients connect to another node. Start it again"
    )
    posix.kill(pid, 9)
    until_s = time.monotonic() + END_S
    while posix.getppid() == pid and state_of(pid) not in ("", "Z"):
        if time.monotonic() > until_s:
            say(f"process {pid} cannot be killed while it waits for its disk; its connections stay open until then")
            return
        time.sleep(STEP_S_MIN)


if __name__ == "__main__":
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)
    parent, silence_s = int(sys.argv[1]), int(sys.argv[2]) / 1000
    wait(parent, silence_s)
    end(parent, silence_s)
