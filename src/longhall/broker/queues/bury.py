"""Bury: messages that cannot be delivered leave their queue, to the dead letters if it has such, with the reason."""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.queues.running import RunningQueue
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.queues.envelope import dead_letter_record, decode_record
from longhall.queues.events import Died
from longhall.queues.outcomes import Death
from longhall.records.record import Record


def bury(hall: Hall, queue: RunningQueue, deaths: list[Death]) -> None:
    """Move each to the dead letters and let it leave, in one step; without dead letters it only leaves."""
    for death in deaths:
        queue.deaths[death.reason] = queue.deaths.get(death.reason, 0) + 1
        with together(hall):
            _move(hall, queue, death)
            died = Died(queue=queue.number, lane=death.lane, offsets=[death.offset], reason=death.reason)
            write_queue(hall, queue, [died])


def _move(hall: Hall, queue: RunningQueue, death: Death) -> None:
    letters = queue.settings.dead_letters
    if letters is None or death.candidate is None:
        return
    target = hall.running_queue(letters.queue)
    record = death.candidate.payload
    if target is None or not isinstance(record, Record):
        return
    now_ms = hall.time.now_ms()
    fields = decode_record(record, death.lane)
    dead = dead_letter_record(
        record, fields.message_id, now_ms, queue.entry.name, death.reason, death.attempts, death.first_ms
    )
    write_records(hall, target.main_lane(), [dead], now_ms, message=False)
