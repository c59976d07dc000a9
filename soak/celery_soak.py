"""`python -m soak celery`: Celery workers and clients go on while their broker is killed again and again.

It ends with 0 when every task whose publication was confirmed ran, none ran again after the broker had its
acknowledgement, and remote control still answers. Tasks are plain, retried, with a countdown, and natively delayed in a
quorum queue. On a violation it prints the violation, keeps the logs, and ends with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Final

from kombu.exceptions import OperationalError

from soak.celery_ledger import BROKER, LEDGER, RESULTS, Ledger
from soak.kill import Say, Violation
from soak.node import COMMAND, Node
from soak.queues import free_port

MINUTES: Final = 20.0
EVERY_SECONDS: Final = 60.0
WORKERS: Final = 2
PROCESSES: Final = 2
PAUSE_SECONDS: Final = 0.1
COUNTDOWN_SECONDS: Final = 3.0
DRAIN_SECONDS_MAX: Final = 180.0
PING_SECONDS_MAX: Final = 300.0
STOP_SECONDS_MAX: Final = 30.0
READY_SECONDS_MAX: Final = 180.0  # On a machine that does much else.


class Client(threading.Thread):
    """Sends tasks of all kinds in turn. What the broker has not confirmed counts for nothing, and is not sent again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.confirmed: dict[str, int] = {}  # The retries of each task.
        self.refused = 0
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Send until it is stopped."""
        try:
            number = 0
            while not self.stopping.wait(PAUSE_SECONDS):
                self._send(number)
                number += 1
        except BaseException as error:
            self.failure = error
            raise

    def _send(self, number: int) -> None:
        from soak.celery_tasks import CLASSIC, QUORUM, RETRIES, again, work

        kind = number % 5
        task, retries = (again, RETRIES) if kind == 1 else (work, 0)
        options: dict[str, Any] = {"queue": QUORUM if kind in (3, 4) else CLASSIC}
        if kind in (2, 4):
            options["countdown"] = COUNTDOWN_SECONDS
        identity = str(uuid.uuid4())
        try:
            task.apply_async((number,), task_id=identity, retry=False, **options)
        except (OperationalError, OSError):
            self.refused += 1  # The broker is away.
        else:
            self.confirmed[identity] = retries


class CelerySoak:
    """A node, the workers on it and a client, over many kills."""

    def __init__(self, directory: Path, say: Say = print) -> None:
        self._directory = directory
        self._say = say
        self.node = Node(directory / "data", doors={"amqp": f"127.0.0.1:{free_port()}"})
        self.ledger = Ledger(directory / "ledger")
        self._workers: list[subprocess.Popen[bytes]] = []
        self._kills = 0

    def run(self, minutes: float, every_seconds: float) -> dict[str, int]:
        """Load and kills for so long, then the final check; raises Violation. Returns the counts."""
        self._start()
        began = time.time()
        os.environ.update(self._environment())
        client = Client()
        try:
            for number in range(1, WORKERS + 1):
                self._workers.append(self._start_worker(number))
            self._ping()
            client.start()
            ends = time.monotonic() + 60 * minutes
            while time.monotonic() + every_seconds < ends:
                time.sleep(every_seconds)
                began = self._restart(began)
                if client.failure is not None:
                    raise Violation(f"the client failed: {client.failure!r}")
                left = len(self.ledger.outstanding(dict(client.confirmed)))
                self._say(f"kill {self._kills}: {len(client.confirmed)} confirmed, {left} of them have not run")
            time.sleep(max(0.0, ends - time.monotonic()))
            client.stopping.set()
            client.join(STOP_SECONDS_MAX)
            self._drain(client.confirmed)
            self._ping()
            self.ledger.lived(began, time.time())
            return {"kills": self._kills, "refused": client.refused, **self.ledger.judge(client.confirmed)}
        finally:
            client.stopping.set()
            for worker in self._workers:
                _end(worker)
            self.node.kill()

    def _start(self) -> None:
        self.node.launch()
        self.node.wait_ready(READY_SECONDS_MAX)

    def _environment(self) -> dict[str, str]:
        return {
            BROKER: f"amqp://guest:guest@{self.node.amqp}//",
            LEDGER: str(self._directory / "ledger"),
            RESULTS: str(self._directory),
        }

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        words = ["-A", "soak.celery_tasks", "worker", "-n", f"soak{number}@localhost", "-l", "warning"]
        words += ["-P", "prefork", "-c", str(PROCESSES), "-Q", "soak-classic,soak-quorum"]
        with (self._directory / f"worker{number}.log").open("wb") as log:
            return subprocess.Popen(
                [COMMAND[0], "-m", "celery", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _restart(self, began: float) -> float:
        """Kill the broker and start it again; returns when it was ready."""
        self.ledger.lived(began, time.time())
        self.node.kill()
        self._start()
        self._kills += 1
        dead = [worker.args for worker in self._workers if worker.poll() is not None]
        if dead:
            raise Violation(f"workers ended: {dead}")
        return time.time()

    def _drain(self, confirmed: dict[str, int]) -> None:
        """Wait until every confirmed task has run, or nothing more can be expected."""
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while self.ledger.outstanding(confirmed) and time.monotonic() < deadline:
            time.sleep(1.0)
        time.sleep(2 * COUNTDOWN_SECONDS)  # What is delivered again though it was acknowledged would run now.

    def _ping(self) -> None:
        """Remote control reaches every worker."""
        from soak.celery_tasks import app

        deadline = time.monotonic() + PING_SECONDS_MAX
        answers: list[Any] = []
        while time.monotonic() < deadline:
            with contextlib.suppress(OperationalError, OSError):
                answers = app.control.ping(timeout=3)
            if len(answers) == WORKERS:
                return
        raise Violation(f"{len(answers)} of {WORKERS} workers answer a ping")


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="soak celery", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between two kills")
    parser.add_argument("--directory", type=Path, help="for data and logs; kept")
    given = parser.parse_args(arguments)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="longhall-celery-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        counts = CelerySoak(directory).run(given.minutes, given.every)
    except Violation as violation:
        print(f"VIOLATION: {violation}\nkept: {directory}", file=sys.stderr)
        return 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if given.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0
