"""The usage topic: the leader of the main hall creates it with the first records, and appends them.

    flush_usage      at the main hall: the usage of its own log, in one frame with the events that close it
    close_usage      in another group: the next report of its log, which every later leader of the group knows too
    append_report    at the main hall: a report of another group or process, in one frame with its number

A report that is sent again, because its reply was lost, is recognised by its number: each record is there once.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.write import together, write_records
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.broker.usage.usage_events import UsageEvent, UsageTaken, UsageWritten
from longhall.broker.usage.usage_records import records_of
from longhall.broker.usage.usage_totals import UsageReport
from longhall.broker.waiting import committed
from longhall.directory.accounts import DEFAULT_TENANT
from longhall.errors import Code, LonghallError
from longhall.names import INTERNAL_PREFIX, SYSTEM_TOPICS, USAGE_SHARD, USAGE_TOPIC
from longhall.records.record import Record
from longhall.shards.shard import USAGE


def source_of(hall: Hall) -> str:
    """The name under which a replication group reports."""
    return f"{hall.hall_id}.{hall.options.wing}"


async def flush_usage(hall: Hall) -> bool:
    """Write the usage of the main hall's log to the topic; False if there is none."""
    totals = hall.usage.totals
    if not totals.rows and totals.report is None:
        return False
    partition = await _topic(hall)
    with together(hall):
        report = _close(hall)
        if report is None:
            return False
        _write(hall, partition, records_of(source_of(hall), report))
        _append(hall, UsageWritten(number=report.number))
    await committed(hall, partition.shard)
    await committed(hall, hall.shards[USAGE_SHARD])
    return True


async def close_usage(hall: Hall) -> UsageReport | None:
    """The report of a group that is to be sent to the main hall, committed; None if there is none."""
    must_lead(hall)
    report = _close(hall)
    await committed(hall, hall.shards[USAGE_SHARD])
    return report


async def drop_report(hall: Hall, number: int) -> None:
    """The main hall has taken a report."""
    must_lead(hall)
    report = hall.usage.totals.report
    if report is not None and report.number == number:
        _append(hall, UsageWritten(number=number))
        await committed(hall, hall.shards[USAGE_SHARD])


async def append_report(hall: Hall, source: str, number: int, records: list[bytes]) -> None:
    """Append a report of another group or process to the topic, unless it is there. Returns when it is committed."""
    partition = await _topic(hall)
    if hall.usage.totals.sources.get(source, 0) < number:
        with together(hall):
            _write(hall, partition, records)
            _append(hall, UsageTaken(source=source, number=number))
    await committed(hall, partition.shard)
    await committed(hall, hall.shards[USAGE_SHARD])


def count_storage(hall: Hall, elapsed_s: float) -> None:
    """Count what the topics of this hall stored in this time, for the tenants that sent to them last."""
    meter = hall.usage.meter
    if meter is None:
        return
    owners = hall.usage.totals.owners
    for name, route in hall.routes.items():
        if name in SYSTEM_TOPICS or name.startswith(INTERNAL_PREFIX):
            continue
        size = sum(sum(segment.size_bytes for segment in one.log.segments) for one in route if not one.elsewhere)
        if size:
            meter.stored(owners.get(name, DEFAULT_TENANT), name, round(size * elapsed_s))
    hall.commits.kick()


def _close(hall: Hall) -> UsageReport | None:
    totals = hall.usage.totals
    closed = totals.decide_close()
    if closed is not None:
        _append(hall, closed)
    return totals.report


def _append(hall: Hall, event: UsageEvent) -> None:
    hall.append_event(hall.shards[USAGE_SHARD], USAGE, event)
    hall.usage.totals.apply(event)


def _write(hall: Hall, partition: Partition, records: list[bytes]) -> None:
    now_ms = hall.time.now_ms()
    if records:
        write_records(hall, partition, [Record(-1, now_ms, None, value, ()) for value in records], now_ms)


async def _topic(hall: Hall) -> Partition:
    must_lead(hall)
    partition = hall.partition(USAGE_TOPIC, 0)
    if partition is None:
        event = hall.catalogue.decide_create(USAGE_TOPIC, hall.world.entropy.bytes(16), 1, {}, hall.time.now_ms())
        if not isinstance(event, Code):
            await commit_event(hall, event)
        elif event is not Code.TOPIC_EXISTS:  # Else another process was first.
            raise LonghallError(event, "the usage topic cannot be created")
        must_lead(hall)
        partition = hall.partition(USAGE_TOPIC, 0)
    if partition is None:
        raise LonghallError(Code.NOT_READY, "the usage topic is not there yet")
    return partition
