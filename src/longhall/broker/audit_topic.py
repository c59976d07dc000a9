"""The audit topic: the leader of the main hall creates it with the first records, and appends them.

The replicas of the hall store it, whatever the default placement is. Its retention is the default of topics.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.queues.write import write_records
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import AUDIT_TOPIC
from longhall.records.record import Record


async def append_audit(hall: Hall, records: list[bytes]) -> None:
    """Append records to the audit topic; returns when they are committed."""
    must_lead(hall)
    partition = hall.partition(AUDIT_TOPIC, 0)
    if partition is None:
        await _create(hall)
        must_lead(hall)
        partition = hall.partition(AUDIT_TOPIC, 0)
        if partition is None:
            raise LonghallError(Code.NOT_READY, "the audit topic is not there yet")
    now_ms = hall.time.now_ms()
    write_records(hall, partition, [Record(-1, now_ms, None, value, ()) for value in records], now_ms)
    await committed(hall, partition.shard)


async def _create(hall: Hall) -> None:
    event = hall.catalogue.decide_create(AUDIT_TOPIC, hall.world.entropy.bytes(16), 1, {}, hall.time.now_ms())
    if event is Code.TOPIC_EXISTS:  # Another process was first.
        return
    if isinstance(event, Code):
        raise LonghallError(event, "the audit topic cannot be created")
    await commit_event(hall, event)
