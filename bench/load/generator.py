"""Runs the load generator and reads its report.

The generator is `load.c`, compiled once against the librdkafka of the Python client, so that the broker is measured and
not the client. Without a compiler `fallback.py` does the same work through confluent-kafka; reports name the one in
use.
"""

from __future__ import annotations

import array
import ctypes.util
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = Path(__file__).with_name("load.c")
_CACHE = _ROOT / ".cache" / "bench"
RUN_SECONDS_MAX = 600.0


class LoadFailed(RuntimeError):
    """The client failed; the message is its own."""


@dataclass
class Run:
    """One run of one client process."""

    client: str
    messages: int
    bytes: int
    seconds: float
    cpu_seconds: float
    busiest_thread_seconds: float
    latencies_ns: array.array[int]

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6


def produce(
    address: str,
    topic: str,
    *,
    partitions: int,
    size_bytes: int,
    seconds: float,
    linger_ms: int = 5,
    run_messages: int = 1,
    settings: tuple[str, ...] = (),
) -> Run:
    """Produce as fast as the broker accepts; so many messages go to one partition, then as many to the next.

    `settings` are librdkafka's, as `key=value`.
    """
    return _run("produce", address, topic, partitions, size_bytes, seconds, linger_ms, run_messages, *settings)


def produce_together(address: str, topics: list[str], *, size_bytes: int, seconds: float, linger_ms: int = 5) -> Run:
    """One client for each topic, all at once; the throughput is the sum over all clients, each over its own time."""
    processes = [Process("produce", address, topic, 1, size_bytes, seconds, linger_ms, 1) for topic in topics]
    runs = [each.finish() for each in processes]
    rate = sum(each.messages_per_second for each in runs)
    messages = sum(each.messages for each in runs)
    return Run(
        client=runs[0].client,
        messages=messages,
        bytes=sum(each.bytes for each in runs),
        seconds=messages / rate,
        cpu_seconds=sum(each.cpu_seconds for each in runs),
        busiest_thread_seconds=max(each.busiest_thread_seconds for each in runs),
        latencies_ns=array.array("q"),
    )


def fill(
    address: str, topic: str, *, partitions: int, size_bytes: int, count: int, batch_bytes: int = 1_000_000
) -> Run:
    return _run("fill", address, topic, partitions, size_bytes, count, 5, batch_bytes)


def consume(address: str, topic: str, *, partitions: int, count: int, seconds_max: float) -> Run:
    return _run("consume", address, topic, partitions, count, seconds_max)


def ping(address: str, topic: str, *, size_bytes: int, seconds: float) -> Run:
    """Produce with one message in flight."""
    with tempfile.NamedTemporaryFile(prefix="bench-samples-") as samples:
        run = _run("ping", address, topic, size_bytes, seconds, samples.name)
        run.latencies_ns.frombytes(Path(samples.name).read_bytes())
    return run


def pace(
    address: str, topic: str, *, partitions: int, size_bytes: int, seconds: float, rate: float, linger_ms: int = 5
) -> Run:
    """Produce at a steady rate; latencies count from the moment a message was due."""
    with tempfile.NamedTemporaryFile(prefix="bench-samples-") as samples:
        run = _run("pace", address, topic, partitions, size_bytes, seconds, linger_ms, rate, samples.name)
        run.latencies_ns.frombytes(Path(samples.name).read_bytes())
    return run


def spread(address: str, prefix: str, *, first: int, topics: int, size_bytes: int, seconds: float, rate: float) -> Run:
    """Produce at a steady rate to many topics of one partition each, one message to each in turn."""
    with tempfile.NamedTemporaryFile(prefix="bench-samples-") as samples:
        run = _run("spread", address, prefix, f"{first}:{topics}", size_bytes, seconds, 5, rate, samples.name)
        run.latencies_ns.frombytes(Path(samples.name).read_bytes())
    return run


def begin_produce(address: str, topic: str, *, size_bytes: int, seconds: float, linger_ms: int = 5) -> Process:
    """Start a writer beside another measurement."""
    return Process("produce", address, topic, 1, size_bytes, seconds, linger_ms, 1)


def begin_consume(address: str, topic: str, *, partitions: int, count: int, seconds_max: float) -> Process:
    """Start a reader beside another measurement."""
    return Process("consume", address, topic, partitions, count, seconds_max)


class Process:
    """A running client process; `finish` waits for its report, `abandon` ends it early."""

    def __init__(self, *arguments: str | int | float) -> None:
        self._words = [str(each) for each in arguments]
        self._process = subprocess.Popen(
            [*_command(), *self._words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
        )

    def running(self) -> bool:
        return self._process.poll() is None

    def abandon(self) -> None:
        self._process.kill()
        self._process.communicate()

    def finish(self) -> Run:
        try:
            output, errors = self._process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise LoadFailed(f"load {' '.join(self._words)}: no end after {RUN_SECONDS_MAX:.0f} s") from None
        if self._process.returncode != 0:
            raise LoadFailed(f"load {' '.join(self._words)}: {errors.strip()[-1000:]}")
        report = json.loads(output)
        report.pop("failed")
        return Run(**report, latencies_ns=array.array("q"))


def _run(*arguments: str | int | float) -> Run:
    return Process(*arguments).finish()


def _command() -> list[str]:
    binary = compiled()
    return [str(binary)] if binary else [sys.executable, "-m", "bench.load.fallback"]


def _environment() -> dict[str, str]:
    """The client's threads free each other's messages: with glibc's allocator they contend for one lock."""
    library = allocator()
    return {**os.environ, "LD_PRELOAD": library} if library else dict(os.environ)


def allocator() -> str | None:
    """An allocator for multithreaded programs, if the system has one."""
    return ctypes.util.find_library("jemalloc")


def compiled() -> Path | None:
    """The compiled generator, or None when there is no compiler or no library to link."""
    compiler = shutil.which("cc")
    library = _bundled_library()
    if compiler is None or library is None:
        return None
    mark = hashlib.sha256(_SOURCE.read_bytes() + str(library).encode()).hexdigest()[:12]
    binary = _CACHE / f"load-{mark}"
    if not binary.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        command = [
            compiler,
            "-O2",
            str(_SOURCE),
            "-o",
            str(binary),
            str(library),
            f"-Wl,-rpath,{library.parent}",
            "-lpthread",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"load.c did not compile, the Python client is used instead:\n{done.stderr}", file=sys.stderr)
            return None
    return binary


def _bundled_library() -> Path | None:
    package = Path(confluent_kafka.__file__).parent
    found = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    return found[0] if found else None
