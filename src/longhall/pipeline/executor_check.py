"""The report of one executor for `longhall pipeline check`."""

from __future__ import annotations

import platform
from typing import NamedTuple

from longhall.client.hall import Hall
from longhall.client.security import ClientSecurity
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.executor_package import is_shipped
from longhall.records.native import COMPILED


class ExecutorReport(NamedTuple):
    """The Python of an executor, the form of Longhall there, and the number of topics that it sees."""

    python: str
    shipped: bool
    compiled: bool
    topics: int


def check_executor(bootstrap: str, security: ClientSecurity) -> ExecutorReport:
    """Make the report; runs on an executor."""

    async def count(hall: Hall) -> int:
        return len(await hall.topics.list())

    with BlockingClient(bootstrap, security=security) as client:
        return ExecutorReport(platform.python_version(), is_shipped(), COMPILED, client.ask(count))
