"""Runs the load generator of the SQS door, `sqs.c`, and reads its report. All servers get the same bytes from it."""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.load.program import Option, Program

_SOURCE = Path(__file__).with_name("sqs.c")


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

    def __init__(self, mode: str, address: str, urls: Sequence[str], **options: Option) -> None:
        samples = ("samples", "lateness") if "due" in options else ("samples",)
        self._program = Program(_SOURCE, [mode, address, ",".join(urls)], samples, options)

    def running(self) -> bool:
        return self._program.running()

    def abandon(self) -> None:
        self._program.abandon()

    def finish(self) -> Run:
        report, samples = self._program.finish()
        latencies_ns, lateness_ms = samples["samples"], samples.get("lateness", array.array("q"))
        return Run(**report, latencies_ns=latencies_ns, lateness_ms=lateness_ms)


def run(mode: str, address: str, urls: Sequence[str], **options: Option) -> Run:
    """Run the client to its end. The options are those at the head of `sqs.c`."""
    return Process(mode, address, urls, **options).finish()
