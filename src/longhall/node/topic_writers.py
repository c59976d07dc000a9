"""What a process writes to system topics by itself: its audit trail, and its usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

from longhall.broker.feature_gates import may_note_usage
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.usage.usage_meter import UsageMeter
from longhall.doors.kafka.door import Door
from longhall.front.audit import AuditTrail
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.usage import ProcessUsage
from longhall.node.audit_writer import AuditWriter
from longhall.node.background_writer import BackgroundWriter
from longhall.node.usage_writer import UsageWriter
from longhall.service.audit_operations import register_audit_operations
from longhall.service.local import LocalBroker
from longhall.service.router import Router
from longhall.service.usage_operations import register_usage_operations

Call = Callable[[Any], Pending[Any]]
SOURCE_BYTES: Final = 8


@final
class TopicWriters:
    """The writers of one process."""

    def __init__(self, hall: Hall, broker: LocalBroker, service: Router, call: Call) -> None:
        self._hall = hall
        self._broker = broker
        self._service = service
        self._call = call
        self._audit: AuditWriter | None = None
        self._usage: UsageWriter | None = None
        register_audit_operations(hall, broker)
        register_usage_operations(hall, broker)

    def write_audit(self, trail: AuditTrail | None) -> None:
        """Write the audit trail, if there is one."""
        self._audit = AuditWriter(self._hall, trail, self._call) if trail is not None else None

    def write_usage(self, door: Door, doors: Sequence[tuple[str, ConnectionRegistry[Any]]]) -> None:
        """Count usage, and write it."""
        hall = self._hall
        may_note = partial(may_note_usage, hall)
        meter = UsageMeter(hall.usage.totals, hall.journal, hall.commits.kick, hall.time.now_ms, may_note)
        meter.connect()
        hall.usage.meter = meter
        self._broker.is_metered = True
        process = ProcessUsage(hall.world.entropy.bytes(SOURCE_BYTES).hex(), hall.world.clock.wall_ms)
        self._service.meter(process)
        door.usage = process
        self._usage = UsageWriter(hall, process, doors, self._leads, self._call)

    def _leads(self) -> bool:
        return self._service.leads

    @property
    def usage(self) -> UsageWriter | None:
        """The writer of usage, if it is counted."""
        return self._usage

    def start(self) -> None:
        """Begin to write."""
        for writer in self._writers():
            writer.start()

    async def stop(self) -> None:
        """Write what is left, within bounds, and end. May be called again."""
        for writer in self._writers():
            await writer.stop()

    async def end(self) -> None:
        """End at once."""
        for writer in self._writers():
            await writer.end()

    def _writers(self) -> list[BackgroundWriter]:
        return [writer for writer in (self._audit, self._usage) if writer is not None]
