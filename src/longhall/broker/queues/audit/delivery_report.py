"""Delivery reports to the reply queue of a message, in the same atomic write as the event.

A reply queue that is gone or full gets no report; this is counted and does not block the event. A report for a queue of
another group goes through the outbox.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.late_arrivals import bury, letters_of_deleted
from longhall.broker.queues.dead_letters.move_bounds import move_target
from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.delivery_reports import MessageInfo, report_record
from longhall.queues.envelope import RANDOM_BYTES, new_message_id


def report(hall: Hall, queue: RunningQueue, info: MessageInfo, fate: str, reason: str = "", attempts: int = 0) -> None:
    """Send a delivery report if the sender asked for one. Inside an atomic write."""
    if not info.reply_to:
        return
    now_ms = hall.time.now_ms()
    message_id = new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
    record = report_record(message_id, info, queue.entry.name, fate, reason, attempts, now_ms)
    letters = letters_of_deleted(hall, info.reply_to)
    if letters is not None and letters.has_room(hall, 1, len(record.value or b"")):
        bury(hall, letters, info.reply_to, record, message=False)
        queue.fates[fate] = queue.fates.get(fate, 0) + 1
        return
    target = move_target(hall, info.reply_to)
    if target is None or not target.has_room(hall, 1, len(record.value or b"")):
        queue.fates_lost += 1
        return
    target.write(hall, record, 0, info.correlation_id or info.message_id, now_ms, waits=False)
    queue.fates[fate] = queue.fates.get(fate, 0) + 1
