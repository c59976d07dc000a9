"""What one executor tells of itself when it is asked whether it can work: `longhall pipeline check`."""

from __future__ import annotations

import platform
from typing import NamedTuple

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.executor_package import is_shipped
from longhall.records.native import COMPILED


class ExecutorReport(NamedTuple):
    """Its Python, how Longhall came there and in which form, and how many topics it sees."""

    python: str
    shipped: bool
    compiled: bool
    topics: int


def check_executor(bootstrap: str) -> ExecutorReport:
    """Asked on an executor."""

    async def count(hall: Hall) -> int:
        return len(await hall.topics.list())

    with BlockingClient(bootstrap) as client:
        return ExecutorReport(platform.python_version(), is_shipped(), COMPILED, client.ask(count))
