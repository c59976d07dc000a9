"""One Longhall process on a data directory: started, stopped, killed, restarted.

A node is ready when its ready file says so, since users' scripts wait for that. The process leads a process group of
its own, so that its helpers end with it; no process is ended by name. The node's output goes to one log file, which
stays for failure reports.
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

from longhall.node.addresses import DOORS

READY_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 30.0
LOG_TAIL_BYTES: Final = 6000
# The entry point of the installed command, which also works during an installation.
COMMAND: Final = (sys.executable, "-m", "longhall.cli")


class NodeFailed(RuntimeError):
    """The node did not become ready, or did not stop; the message has the end of its log."""


class Node:
    """One node over many starts.

    `prefix` is a command before it (strace, nice), `options` follow `serve`. With `doors` (`kafka`, `sqs`, `http`) it
    opens them there; otherwise at free ports, and later starts reuse the Kafka port.
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
        # The ready file and the log are beside the data directory, whose disk may be full.
        home = home if home is not None else data.parent
        self.ready_file = home / f"{data.name}.ready.json"
        self.log_file = home / f"{data.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: dict[str, object] = {}
        free = dict.fromkeys(DOORS, "127.0.0.1:0")
        self._doors = {**free, **(doors or {})}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def ready(self) -> Mapping[str, object]:
        """The contents of the ready file."""
        return self._ready

    @property
    def bootstrap(self) -> str:
        return str(self._ready["kafka"])

    @property
    def sqs(self) -> str:
        return str(self._ready["sqs"])

    @property
    def amqp(self) -> str:
        return str(self._ready["amqp"])

    @property
    def stomp(self) -> str:
        return str(self._ready["stomp"])

    @property
    def stomp_websocket(self) -> str:
        return str(self._ready["stomp_websocket"])

    @property
    def management(self) -> str:
        return str(self._ready["management"])

    @property
    def prometheus(self) -> str:
        return str(self._ready["prometheus"])

    @property
    def http(self) -> str:
        return str(self._ready["http"])

    @property
    def pid(self) -> int:
        """The node's own process id, from the ready file (with a prefix it is not the process started here)."""
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
            *(word for door, address in self._doors.items() for word in (f"--{door.replace('_', '-')}", address)),
            "--ready-file",
            str(self.ready_file),
            *self.options,
        ]

    def launch(self) -> None:
        """Start the process without waiting."""
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
        # Clients keep the address that they know, so every later start uses the same port.
        if "kafka" in self._ready:
            self._doors["kafka"] = str(self._ready["kafka"])

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_end(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process ends by itself; returns its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"the node did not end within {seconds_max:.0f} s:\n{self.log_tail()}") from None
        self._end_group()
        return code

    def stop(self) -> int:
        """Stop the node cleanly; returns its exit code."""
        assert self._process is not None
        os.kill(self.pid, signal.SIGTERM)
        return self.wait_end()

    def kill(self) -> None:
        """SIGKILL of the node and its child processes."""
        if self._process is None:
            return
        self._end_group()
        self._process.wait()

    def suspend(self) -> None:
        """SIGSTOP of all processes of the node."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def hang(self) -> None:
        """SIGSTOP of the node's own process alone: its helpers go on, its watchdog among them."""
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
