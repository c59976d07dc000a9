"""The bounds of a queue for messages that are moved to it: dead letters, redriven and delayed messages.

A moved message is acknowledged, so it is not refused: it stays where it is until its target has room.

    when_full of the target    without room
    refuse, wait               the move is tried again later
    drop-oldest                the oldest messages of the target are dropped first
    dead-letter                they move on to its own dead-letter queue, if that has room; else as with refuse

Nothing here awaits, and nothing is called inside an atomic write, because making room is a write of its own.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.queues.envelope import dead_letter_record, decode_record
from longhall.queues.events import Died
from longhall.queues.outcomes import LENGTH, Death, Overflow
from longhall.records.record import Record

RETRY_MS: Final = 5_000  # When the move of a message is tried again whose target has no room.
STEPS_MAX: Final = 16  # Attempts to make room for one move; each drops up to 128 messages.


def takes(hall: Hall, target: RunningQueue, count: int, size_bytes: int, staged: bool = False) -> bool:
    """True if there is room for moved messages, after the oldest made it if the queue wants that.

    Messages that the target has `staged` already take room in it.
    """
    waiting = 0 if staged else target.staging.count
    for _ in range(STEPS_MAX):
        decided = target.queue.decide_send(count, size_bytes, waiting)
        if decided is None:
            return True
        if not isinstance(decided, Overflow) or decided.wait or not _make_room(hall, target, decided):
            return False
    return False


def _make_room(hall: Hall, target: RunningQueue, overflow: Overflow) -> bool:
    """Drop or move the oldest messages that are in memory; False if there are none."""
    letters = None
    if target.settings.when_full == "dead-letter":
        own = target.settings.dead_letters
        letters = hall.running_queue(own.queue) if own is not None else None
        if letters is None or letters is target:
            return False
        if letters.queue.decide_send(overflow.messages or 1, overflow.bytes, letters.staging.count) is not None:
            return False
    outcome = target.queue.decide_drop(hall.time.now_ms(), overflow.messages, overflow.bytes, target.peek)
    if not outcome.deaths:
        return False
    write_queue(hall, target, outcome.events)
    for death in outcome.deaths:
        if target.queue.lease_of(death.lane, death.offset) is not None:
            _drop(hall, target, letters, death)
    return True


def _drop(hall: Hall, target: RunningQueue, letters: RunningQueue | None, death: Death) -> None:
    record = death.candidate.payload if death.candidate is not None else None
    now_ms = hall.time.now_ms()
    target.deaths[death.reason] = target.deaths.get(death.reason, 0) + 1
    with together(hall):
        if letters is not None and isinstance(record, Record):
            fields = decode_record(record, death.lane)
            name = target.entry.name
            dead = dead_letter_record(record, fields.message_id, now_ms, name, LENGTH, death.attempts, death.first_ms)
            write_records(hall, letters.lane_for(0, fields.group), [dead], now_ms, message=False)
        died = Died(queue=target.number, lane=death.lane, offsets=[death.offset], reason=death.reason)
        write_queue(hall, target, [died])
