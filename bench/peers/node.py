"""One broker process: started, waited for until it answers, stopped, and its directory removed.

Ready means that a client got an answer (metadata, a list of queues), because users wait for that; a listening port is
not enough. A broker that dies during its start is reported with the end of its log.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 60.0
_LOG_TAIL_BYTES = 4000


class BrokerFailed(RuntimeError):
    """The broker did not start, or died while it was needed."""


class Node(ABC):
    """One broker; subclasses define its preparation, its command and its address."""

    def __init__(self, *, name: str, directory: Path | None = None) -> None:
        self._name = name
        self._given_directory = directory
        self._directory: Path | None = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._start_seconds = 0.0

    @property
    def name(self) -> str:
        return self._name

    @property
    def directory(self) -> Path:
        assert self._directory is not None, "the node has not been entered"
        return self._directory

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def start_seconds(self) -> float:
        return self._start_seconds

    @property
    def log_path(self) -> Path:
        return self.directory / "output.log"

    @property
    @abstractmethod
    def address(self) -> str: ...

    @abstractmethod
    def prepare(self) -> None:
        """Write the files that the broker needs before its first start. Called once, not timed."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def listening(self) -> bool:
        """True if the address is known and accepts connections."""

    def answers(self) -> bool:
        """True if a client's first request was answered; other doors use their own protocol."""
        return answers_metadata(self.address)

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def __enter__(self) -> Self:
        leave_when_told()
        if self._given_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"bench-{self._name.replace(' ', '-')}-"))
        else:
            self._given_directory.mkdir(parents=True, exist_ok=True)
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._process is not None and self._process.poll() is not None:
            error.add_note(f"{self._name} had ended with {self._process.returncode}:\n{self.log_tail()}")
        self._leave()

    def start(self) -> None:
        """Start the process and wait until a client gets an answer from it."""
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Start the process; nodes that need each other are all launched before the first wait."""
        assert self._process is None, "the node is already running"
        self._began = time.monotonic()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment()
            )

    def await_answer(self) -> None:
        """Wait until a client gets an answer."""
        assert self._process is not None, "the node was not launched"
        deadline = self._began + START_SECONDS_MAX
        while not (self.listening() and self.answers()):
            if self._process.poll() is not None:
                code = self._process.returncode
                self._process = None
                raise BrokerFailed(f"{self._name} ended with {code} while it started:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"{self._name} gave no answer within {START_SECONDS_MAX:.0f} s:\n{self.log_tail()}")
            time.sleep(0.005)
        self._start_seconds = time.monotonic() - self._began

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(
                f"{self._name} did not stop within {STOP_SECONDS_MAX:.0f} s:\n{self.log_tail()}"
            ) from None
        self._process = None

    def kill(self) -> None:
        if self._process is None:
            return
        try:
            family = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        self._process.kill()
        self._process.wait()
        for child in family:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(family, timeout=5)
        self._process = None

    def log_tail(self) -> str:
        if not self.log_path.exists():
            return "(no output)"
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")

    def _leave(self) -> None:
        self.kill()
        if self._given_directory is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def leave_when_told() -> None:
    """Let SIGTERM leave the context like any error, so that an ended bench leaves no brokers behind."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def answers_metadata(address: str) -> bool:
    """Ask for the brokers by Metadata version 4; True if the answer names at least one.

    The request goes over a bare socket, so that no client's start or back-off is in the figure. Layout of the request:

        int32 length | int16 key = 3 | int16 version = 4 | int32 correlation | int16 -1 (no client id)
        | int32 0 (no topics) | int8 0 (make no topics)
    """
    host, _, port = address.rpartition(":")
    body = struct.pack(">hhihib", 3, 4, 7, -1, 0, 0)
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            (length,) = struct.unpack(">i", receive_exactly(connection, 4))
            reply = receive_exactly(connection, length)
    except (OSError, struct.error):
        return False
    # Correlation, throttle time, then the count of brokers.
    return len(reply) >= 12 and struct.unpack_from(">iii", reply)[2] > 0


def receive_exactly(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        received += piece
    return received


def free_ports(count: int) -> list[int]:
    """Different loopback ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
