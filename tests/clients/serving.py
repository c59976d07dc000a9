"""The node that client tests meet: a lone one, or several workers.

With `LONGHALL_TEST_WORKERS=2` every node of these tests is started with `--workers 2`. Kafka clients are then told of
the last worker, which leads nothing; what they are meant to find is found all the same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from soak.node import READY_SECONDS_MAX, Node

WORKERS = int(os.environ.get("LONGHALL_TEST_WORKERS", "1"))


class Served(Node):
    """See the module."""

    def __init__(self, data: Path, *, options: Sequence[str] = (), workers: int = WORKERS) -> None:
        super().__init__(data, options=[*options, *(["--workers", str(workers)] if workers > 1 else [])])
        self._workers = workers

    def start(self) -> None:
        if self._workers > 1:
            self._doors["kafka"] = "127.0.0.1:0"  # The ports that follow one which was free may be taken.
        self.launch()
        self.wait_ready(READY_SECONDS_MAX * self._workers)

    @property
    def bootstrap(self) -> str:
        workers = self.ready.get("workers")
        return str(workers[-1]["kafka"]) if isinstance(workers, list) else super().bootstrap
