"""Runs the load generator of the SQS door and reads its report.

The generator is `sqs.c`, compiled once: a client in Python would be slower than most servers. All servers get the same
bytes from the same program.
"""

from __future__ import annotations

import array
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.load.generator import RUN_SECONDS_MAX, LoadFailed

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = Path(__file__).with_name("sqs.c")
_CACHE = _ROOT / ".cache" / "bench"


@dataclass
class Run:
    """One run of one client process, which has a single thread."""

    client: str
    requests: int
    messages: int
    empty_answers: int
    seconds: float
    cpu_seconds: float
    latencies_ns: array.array[int] = field(default_factory=lambda: array.array("q"))
    lateness_ms: array.array[int] = field(default_factory=lambda: array.array("q"))

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


class Process:
    """A running client process; `finish` waits for its report, `abandon` ends it early."""

    def __init__(self, mode: str, address: str, urls: Sequence[str], **options: str | int | float | Path) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-samples-")
        self._samples = Path(self._scratch.name, "samples")
        self._lateness = Path(self._scratch.name, "lateness")
        words = {"samples": self._samples, **options}
        if "due" in options:
            words["lateness"] = self._lateness
        self._words = [mode, address, ",".join(urls), *(f"{key}={value}" for key, value in words.items())]
        self._process = subprocess.Popen(
            [str(compiled()), *self._words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def running(self) -> bool:
        return self._process.poll() is None

    def abandon(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._scratch.cleanup()

    def finish(self) -> Run:
        try:
            output, errors = self._process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise LoadFailed(f"sqs {' '.join(self._words)}: no end after {RUN_SECONDS_MAX:.0f} s") from None
        if self._process.returncode != 0:
            self._scratch.cleanup()
            raise LoadFailed(f"sqs {' '.join(self._words)}: {errors.strip()[-1500:]}")
        run = Run(**json.loads(output))
        for path, samples in ((self._samples, run.latencies_ns), (self._lateness, run.lateness_ms)):
            if path.exists():
                samples.frombytes(path.read_bytes())
        self._scratch.cleanup()
        return run


def run(mode: str, address: str, urls: Sequence[str], **options: str | int | float | Path) -> Run:
    """Run the client to its end. The options are those at the head of `sqs.c`."""
    return Process(mode, address, urls, **options).finish()


def compiled() -> Path:
    """The compiled generator."""
    mark = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    binary = _CACHE / f"sqs-{mark}"
    if binary.exists():
        return binary
    compiler = shutil.which("cc")
    if compiler is None:
        raise LoadFailed("a C compiler is needed for the load generator; on Debian: apt-get install gcc libc6-dev")
    _CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [compiler, "-O2", str(_SOURCE), "-o", str(binary)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LoadFailed(f"sqs.c did not compile:\n{done.stderr}")
    return binary
