"""One Longhall process on a data directory: started, waited for, stopped, killed, started again.

Ready is what the ready file says, because that is what scripts of users wait for. The process leads a process group of
its own, so that its end takes its helpers along; nothing is ever ended by name. What the node prints goes to one log
file that stays after its end, for whoever has to explain a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READY_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 30.0
LOG_TAIL_BYTES: Final = 6000
# The same entry as the installed command, and there also while somebody installs that anew.
COMMAND: Final = (sys.executable, "-m", "longhall.cli")


class NodeFailed(RuntimeError):
    """The node did not get ready, or did not stop; the message carries the end of its log."""


class Node:
    """The life of one node. `prefix` puts another program before it (strace, nice), `options` follow `serve`. With
    `doors` (`kafka`, `sqs`, `http`) it opens them there; else at free ports, of which later starts keep Kafka's.
    """

    def __init__(
        self,
        data: Path,
        *,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        home: Path | None = None,
        doors: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.options = list(options)
        self.environment = dict(environment or {})
        self.prefix = list(prefix)
        # The ready file and the log stand beside the data, not in it: the data may lie on a disk that is full.
        home = home if home is not None else data.parent
        self.ready_file = home / f"{data.name}.ready.json"
        self.log_file = home / f"{data.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: dict[str, object] = {}
        self._doors = {"kafka": "127.0.0.1:0", "sqs": "127.0.0.1:0", "http": "127.0.0.1:0", **(doors or {})}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def ready(self) -> Mapping[str, object]:
        """What the ready file said."""
        return self._ready

    @property
    def bootstrap(self) -> str:
        return str(self._ready["kafka"])

    @property
    def sqs(self) -> str:
        return str(self._ready["sqs"])

    @property
    def http(self) -> str:
        return str(self._ready["http"])

    @property
    def pid(self) -> int:
        """The node's own process, as the ready file has it (with a prefix it is not the one we started)."""
        return int(str(self._ready["pid"]))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        return [
            *self.prefix,
            *COMMAND,
            "serve",
            "--data",
            str(self.data),
            *(word for door, address in self._doors.items() for word in (f"--{door}", address)),
            "--ready-file",
            str(self.ready_file),
            *self.options,
        ]

    def launch(self) -> None:
        """Start the process and do not wait."""
        assert not self.running, "the node is running"
        self.ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def wait_ready(self, seconds_max: float = READY_SECONDS_MAX) -> None:
        assert self._process is not None
        deadline = time.monotonic() + seconds_max
        while not self.ready_file.exists():
            code = self._process.poll()
            if code is not None:
                raise NodeFailed(f"the node ended with {code} while it started:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise NodeFailed(f"the node was not ready within {seconds_max:.0f} s:\n{self.log_tail()}")
            time.sleep(0.01)
        self._ready = json.loads(self.ready_file.read_text())
        # Clients keep the address they know, so every later start takes the same port.
        if "kafka" in self._ready:
            self._doors["kafka"] = str(self._ready["kafka"])

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_end(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process ends by itself and return its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"the node did not end within {seconds_max:.0f} s:\n{self.log_tail()}") from None
        self._end_group()
        return code

    def stop(self) -> int:
        """Ask it to stop cleanly and return its exit code."""
        assert self._process is not None
        os.kill(self.pid, signal.SIGTERM)
        return self.wait_end()

    def kill(self) -> None:
        """SIGKILL, to the node and to whatever it started."""
        if self._process is None:
            return
        self._end_group()
        self._process.wait()

    def suspend(self) -> None:
        """Stop every process of the node where it stands, without telling it."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def hang(self) -> None:
        """Stop the node's own process alone: its helpers go on, its watchdog among them."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_tail(self) -> str:
        return self.log_text()[-LOG_TAIL_BYTES:]

    def _end_group(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
