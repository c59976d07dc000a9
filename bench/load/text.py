"""Runs the load generator of protocols that are text, `text.c`: NATS, Redis and STOMP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.load.amqp import Run
from bench.load.program import Option, Program

_SOURCE = Path(__file__).with_name("text.c")


def run(protocol: str, mode: str, address: str, names: Sequence[str], **options: Option) -> Run:
    """Run the client to its end. The options are those at the head of `text.c`."""
    report, samples = Program(_SOURCE, [protocol, mode, address, ",".join(names)], ("samples",), options).finish()
    return Run(**report, latencies_ns=samples["samples"])
