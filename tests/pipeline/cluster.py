"""A standalone Spark cluster out of the pip package: one master, two workers, on loopback.

Its processes have nothing of Longhall but what a command ships to them: their environment names no sources of ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READY_SECONDS_MAX: Final = 180.0
WORKERS: Final = 2
# A master that gives up workers on a busy machine would never take them back: they would have to start anew.
_FLAGS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.worker.timeout=3600"


class Cluster:
    """Use it in a `with`; `master` is what `--master` takes."""

    def __init__(self, home: Path) -> None:
        self.master = ""
        self._home = home
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._wait_for("master.Master", "Starting Spark master at ").split()[0]
            for number in range(WORKERS):
                words = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
                self._start("worker.Worker", *words, "--work-dir", str(self._home / f"work-{number}"), self.master)
            self._wait_for("worker.Worker", "Successfully registered with master", WORKERS)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the cluster and every executor it started."""
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()
        self._processes.clear()

    def log_text(self, role: str) -> str:
        return "\n".join(file.read_text(errors="replace") for file in sorted(self._home.glob(f"{role}-*.log")))

    def _start(self, role: str, *words: str) -> None:
        import pyspark

        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _FLAGS,
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._home / f"{role}-{len(self._processes)}.log").open("wb") as log:
            command = [str(program), f"org.apache.spark.deploy.{role}", *words]
            self._processes.append(
                subprocess.Popen(
                    command, stdout=log, stderr=log, env=environment, cwd=self._home, start_new_session=True
                )
            )

    def _wait_for(self, role: str, words: str, count: int = 1) -> str:
        """What a log says after these words, once they stand there often enough."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            text = self.log_text(role)
            if text.count(words) >= count:
                return text.split(words, 1)[1].splitlines()[0]
            assert time.monotonic() < deadline, f"no {words!r} within {READY_SECONDS_MAX:.0f} s:\n{text[-3000:]}"
            time.sleep(0.05)
