"""A Spark driver as a process: started, killed with its executors, or deprived of its workers.

Python workers do the reading and writing of tasks; with `local[...]` they are the only executors. With
`local-cluster[...]` executors are Java processes of their own, with Python workers below them. The driver leads a
process group, so that they end with it. Python workers leave that group and end when their Java process is gone, so
some of them outlive the driver for a moment, as they would on a cluster.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

LOG_TAIL_BYTES: Final = 3000
SETTINGS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    # A paused machine is no failure of Spark: closed connections show which process is dead.
    "spark.network.timeout": "7200s",
    "spark.worker.timeout": "7200",
}
TASKS: Final = "tasks"
EXECUTORS: Final = "executors"
_WORDS: Final = {TASKS: "pyspark.daemon", EXECUTORS: "CoarseGrainedExecutorBackend"}


def has_executors(master: str) -> bool:
    """True if there are executors to kill beside the driver."""
    return not (master == "local" or master.startswith("local["))


class Patience:
    """A deadline that counts waiting and not elapsed time: a paused machine is no failure."""

    def __init__(self, seconds_max: float) -> None:
        self._left = seconds_max

    def wait(self, seconds: float) -> bool:
        """Wait, and return True if time is left."""
        time.sleep(seconds)
        self._left -= seconds
        return self._left > 0


class Driver:
    """Runs one command after another; their output goes to one log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str]) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def group(self) -> int:
        """The process group of the driver and its Java process."""
        assert self._process is not None
        return self._process.pid

    def wait(self, seconds_max: float) -> int | None:
        """The exit code; None if the command has not ended in time."""
        assert self._process is not None
        patience = Patience(seconds_max)
        while self.running and patience.wait(0.1):
            pass
        return self._process.poll()

    def kill(self) -> None:
        """Kill the driver, its Java process and the executors."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_workers(self, kind: str, chance: random.Random) -> int:
        """Kill some or all of the current tasks or executors; returns the number of killed processes."""
        found = self._workers(kind)
        chosen = chance.sample(found, chance.randint(1, len(found))) if found else []
        for each in chosen:
            with contextlib.suppress(psutil.Error):
                each.kill()
        return len(chosen)

    def _workers(self, kind: str) -> list[psutil.Process]:
        found = []
        if self.running:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.group).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        if any(_WORDS[kind] in word for word in child.cmdline()):
                            found.append(child)
        return sorted(found, key=lambda each: each.pid)

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_BYTES:] if self._log.exists() else ""
