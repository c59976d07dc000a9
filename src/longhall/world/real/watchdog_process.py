"""The program of the watchdog: ends a process whose loop no longer runs.

It is run by path, without `site` and without the package, and imports only what is built into the interpreter. Its
standard input is one end of a socket pair; the node at the other end writes a byte for every turn of its heartbeat.
From the first one on, silence counts. When the other end is closed the node is gone, and so is this.

Silence is counted in steps during which this process itself was running: after a suspended machine, a stopped process
group or a starved processor both have been away, and that is nobody's fault. A process that is being traced is left
alone. Arguments: the pid of the node, which must be the parent, and the silence in milliseconds that is too long.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys
import time

STEPS = 40  # In which silence is measured, within these bounds:
STEP_S_MIN = 0.05
STEP_S_MAX = 0.5
LATE_SHARE = 2.0  # A step counts for no more than this much of itself.
END_S = 5.0  # A killed process that is still there after this waits for its disk.
STATES = {"T": "stopped", "t": "traced", "D": "waiting for its disk", "R": "running", "S": "waiting"}


def state_of(pid: int) -> str:
    """The state of a process as the system has it, in one letter; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def say(words: str) -> None:
    """One line on standard error, where the node's log goes."""
    posix.write(2, f"longhall: {words}\n".encode())


def wait(pid: int, silence_s_max: float) -> None:
    """Return when the node has been silent for too long; end with the node."""
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
    """Kill the node, and say so: its end resets every connection that it has."""
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
            say(f"process {pid} cannot be ended: it waits for its disk, and its connections stay open until then")
            return
        time.sleep(STEP_S_MIN)


if __name__ == "__main__":
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)
    parent, silence_s = int(sys.argv[1]), int(sys.argv[2]) / 1000
    wait(parent, silence_s)
    end(parent, silence_s)
