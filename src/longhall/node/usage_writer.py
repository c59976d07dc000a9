"""The usage writer: it moves the usage of a process, and of the log that it leads, to the usage topic.

A report whose outcome is unknown is repeated under the same number, which the leader of the main hall recognises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.usage.usage_records import records_of
from longhall.broker.usage.usage_topic import close_usage, count_storage, drop_report, flush_usage, source_of
from longhall.errors import LonghallError
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.usage import ProcessUsage
from longhall.node.background_writer import BackgroundWriter
from longhall.service.usage_operations import AppendUsage

TASK: Final = "write usage"
REPORT_S: Final = 5.0
STORAGE_S: Final = 60.0


@final
class UsageWriter(BackgroundWriter):
    """Reports what this process has counted."""

    def __init__(
        self,
        hall: Hall,
        usage: ProcessUsage,
        doors: Sequence[tuple[str, ConnectionRegistry[Any]]],
        leads: Callable[[], bool],
        call: Callable[[AppendUsage], Pending[None]],
    ) -> None:
        """`leads` is True if this process leads the log of its hall."""
        self._doors = doors
        super().__init__(hall.background, TASK)
        self._hall = hall
        self._usage = usage
        self._leads = leads
        self._call = call
        self._unwritten: tuple[int, list[bytes]] | None = None  # Taken, and not acknowledged.
        self._counted_s = 0.0
        self._stored_s = 0.0

    def start(self) -> None:
        """Count from now on, and begin to write."""
        self._counted_s = self._stored_s = asyncio.get_running_loop().time()
        super().start()

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            try:
                self._count_storage(STORAGE_S)
                await self.write_all()
                self._background.succeeded(TASK)
            except (LonghallError, OSError, TimeoutError) as error:
                self._background.failed(TASK, error)

    async def _write_rest(self) -> None:
        self._count_storage(0.0)
        await self.write_all()

    async def write_all(self) -> None:
        """Write everything that was counted until now."""
        self._count_connections()
        while self._leads() and await self._write_log():
            pass
        while await self._write_process():
            pass

    async def _write_log(self) -> bool:
        """Write a report of the log that this process leads; False if there is none."""
        hall = self._hall
        if not hall.options.wing:
            return await flush_usage(hall)
        report = await close_usage(hall)
        if report is None:
            return False
        source = source_of(hall)
        await self._call(AppendUsage(source, report.number, records_of(source, report)))
        await drop_report(hall, report.number)
        return True

    async def _write_process(self) -> bool:
        if self._unwritten is None:
            self._unwritten = self._usage.take()
        if self._unwritten is None:
            return False
        await self._call(AppendUsage(self._usage.source, *self._unwritten))
        self._unwritten = None
        return True

    def _count_connections(self) -> None:
        now_s = asyncio.get_running_loop().time()
        seconds = int(now_s - self._counted_s)
        if seconds <= 0:
            return
        self._counted_s += seconds
        for door, registry in self._doors:
            for connection in registry.registered:
                principal = connection.principal
                tenant, user = (principal.tenant, principal.user) if principal is not None else ("", "")
                self._usage.count_connection(tenant, user, door, seconds)

    def _count_storage(self, after_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        elapsed_s = now_s - self._stored_s
        if elapsed_s < after_s:
            return
        self._stored_s = now_s
        if self._leads():
            count_storage(self._hall, elapsed_s)
