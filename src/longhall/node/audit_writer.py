"""The audit writer: it moves the audit trail of a process into the audit topic.

A write whose outcome is unknown is repeated with the same records, whose identities let readers drop the repetition. A
process that is killed loses the records that were not written: those of the last moments, and no acknowledged ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.errors import LonghallError
from longhall.front.audit import AuditTrail
from longhall.node.background_writer import BackgroundWriter
from longhall.service.audit_operations import AppendAudit

TASK: Final = "write the audit trail"
GATHER_S: Final = 0.2  # Records that come within this time are written together.
PAUSE_S: Final = 1.0  # After a write that failed.


@final
class AuditWriter(BackgroundWriter):
    """Writes the records of one process, in their order."""

    def __init__(self, hall: Hall, trail: AuditTrail, call: Callable[[AppendAudit], Pending[None]]) -> None:
        super().__init__(hall.background, TASK)
        self._trail = trail
        self._call = call
        self._unwritten: list[bytes] = []  # Taken from the trail, and not acknowledged.

    async def _write(self) -> None:
        while True:
            if not self._unwritten:
                await self._trail.wait()
                await asyncio.sleep(GATHER_S)
            try:
                await self._write_some()
                self._background.succeeded(TASK)
            except (LonghallError, OSError, TimeoutError) as error:
                self._background.failed(TASK, error)
                await asyncio.sleep(PAUSE_S)

    async def _write_rest(self) -> None:
        while await self._write_some():
            pass

    async def _write_some(self) -> bool:
        """Write the oldest records; False if there are none."""
        if not self._unwritten:
            self._unwritten = self._trail.take()
        if not self._unwritten:
            return False
        await self._call(AppendAudit(self._unwritten))
        self._unwritten = []
        return True
