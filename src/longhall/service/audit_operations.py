"""The operation by which processes write to the audit topic. The leader of the main hall carries it out."""

from __future__ import annotations

from longhall.broker.audit_topic import append_audit
from longhall.broker.hall import Hall
from longhall.cluster.rpc.operation import Operation
from longhall.service.local import LocalBroker


class AppendAudit(Operation[None]):
    """Append records to the audit topic. Each has an identity of its own, so that readers recognise a repetition."""

    records: list[bytes]


def register_audit_operations(hall: Hall, broker: LocalBroker) -> None:
    """Let this process carry it out."""
    broker.also(AppendAudit, lambda op, caller: append_audit(hall, op.records))
