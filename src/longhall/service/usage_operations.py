"""The operation by which processes and other groups write to the usage topic. The leader of the main hall carries it
out.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.usage.usage_topic import append_report
from longhall.cluster.rpc.operation import Operation
from longhall.service.local import LocalBroker


class AppendUsage(Operation[None]):
    """Append the records of a report, once: a source numbers its reports, and repeats one until it is acknowledged."""

    source: str
    number: int
    records: list[bytes]


def register_usage_operations(hall: Hall, broker: LocalBroker) -> None:
    """Let this process carry it out."""
    broker.also(AppendUsage, lambda op, caller: append_report(hall, op.source, op.number, op.records))
