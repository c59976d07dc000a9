"""Best-effort order by stamps: a message that is older than one already delivered goes to the head of its queue.

A stamp is a number of the sender: a higher one is newer. The newest delivered stamp is part of the durable state,
because the lease event of a stamped message carries it. When a message with an older stamp is appended, its record gets
the mark `longhall.late`, and the queue delivers a copy from the head lane, whose priority is above all others. Late
messages are delivered in the order of their arrival. Messages without a stamp have their place by arrival.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.queues.envelope import LATE, stamp_of
from longhall.queues.events import Leased
from longhall.queues.outcomes import Outcome
from longhall.records.record import Record

HEAD: Final = "head"


def is_late(record: Record) -> bool:
    """True if the broker has marked the record as older than one already delivered."""
    for name, value in record.headers:
        if name == LATE and value == b"1":
            return True
    return False


def _late_record(record: Record) -> Record:
    """The record with the mark of `is_late`."""
    return Record(record.offset, record.timestamp_ms, record.key, record.value, (*record.headers, (LATE, b"1")))


def stamp_leases(outcome: Outcome) -> None:
    """Put the newest stamp of the delivered messages into their lease events."""
    newest = 0
    for given in outcome.given:
        payload = given.candidate.payload
        if isinstance(payload, Record):
            newest = max(newest, stamp_of(payload))
    if newest:
        outcome.events = [
            msgspec.structs.replace(event, stamp=newest) if isinstance(event, Leased) else event
            for event in outcome.events
        ]


def mark_late(records: list[Record], newest_stamp: int) -> list[Record] | None:
    """The records, with a mark on those that are older than the newest delivered stamp; None if none is."""
    marked = [
        _late_record(record) if 0 < stamp_of(record) < newest_stamp and not is_late(record) else record
        for record in records
    ]
    return None if all(new is old for new, old in zip(marked, records, strict=True)) else marked
