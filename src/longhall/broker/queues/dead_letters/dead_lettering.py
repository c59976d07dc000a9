"""Dead-lettering: messages that cannot be delivered leave their queue, to the dead-letter queue if there is one.

Each message is one atomic write: the dead letter, the removal from its queue, the delivery report and the audit record.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audited, audits, note
from longhall.broker.queues.audit.delivery_report import report
from longhall.broker.queues.dead_letters.exchange_letters import letters_have_room, route_letter
from longhall.broker.queues.dead_letters.late_arrivals import letters_of_deleted
from longhall.broker.queues.dead_letters.move_bounds import RETRY_MS, MoveTarget, move_target
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import check_here, together, write_queue
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import MessageInfo, fate_of_death, message_info_of
from longhall.queues.envelope import (
    Fields,
    dead_letter_record,
    decode_record,
    derive_message_id,
)
from longhall.queues.events import Died, Returned
from longhall.queues.leases import RETURNED_BY_HAND
from longhall.queues.outcomes import DELAYED, DELETED, LENGTH, RETENTION, Death
from longhall.records.record import Record

HOW: Final = {True: "returned", False: "lapsed"}


def dead_letter(hall: Hall, queue: RunningQueue, deaths: list[Death]) -> None:
    """Move each message to the dead-letter queue in one atomic write; without such a queue it is dropped.
    QUEUE_MOVED, before anything is written, if the queue moves to another group.
    """
    check_here(queue, leaving_only=True)  # Before the dead letter: the queue may have moved while a message was read.
    for death in deaths:
        if queue.queue.lease_of(death.lane, death.offset) is None:
            continue  # It has left the queue already.
        visible_ms = _hidden_until_ms(hall, queue, death)
        if visible_ms:
            now_ms = hall.time.now_ms()
            later = Returned(
                queue=queue.number, lane=death.lane, offset=death.offset, at_ms=now_ms, visible_ms=visible_ms
            )
            write_queue(hall, queue, [later])
            continue
        queue.deaths[death.reason] = queue.deaths.get(death.reason, 0) + 1
        record = death.candidate.payload if death.candidate is not None else None
        fields = decode_record(record, death.lane) if isinstance(record, Record) else None
        with together(hall):
            target = _move(hall, queue, death, record, fields) if isinstance(record, Record) and fields else ""
            died = Died(queue=queue.number, lane=death.lane, offsets=[death.offset], reason=death.reason)
            write_queue(hall, queue, [died])
            _report(hall, queue, death, fields, target)


def _hidden_until_ms(hall: Hall, queue: RunningQueue, death: Death) -> int:
    """When a message can leave that cannot leave now; 0 if it can.

    A message that is not due yet stays where readers of the topic see it, and is hidden from the queue. A dead letter
    for which its target has no room stays too, and is tried again.
    """
    if death.candidate is None or death.reason == RETENTION:
        return 0
    if death.reason == DELAYED:
        return death.candidate.due_ms
    target = _target_of(hall, queue, death)
    record = death.candidate.payload
    amqp = queue.settings.amqp
    if amqp is not None and amqp.letters_exchange is not None and amqp.letters_wait and isinstance(record, Record):
        has_room = letters_have_room(hall, queue, record, decode_record(record, death.lane))
        return 0 if has_room else hall.time.now_ms() + RETRY_MS
    if target is None or not isinstance(record, Record) or target.takes(hall, [record]):
        return 0
    if death.reason == DELETED:
        raise LonghallError(
            Code.QUEUE_FULL,
            f"The dead-letter queue '{target.name}' has no room for the messages of '{queue.entry.name}'.",
        )
    return hall.time.now_ms() + RETRY_MS


def _target_of(hall: Hall, queue: RunningQueue, death: Death) -> MoveTarget | None:
    """The queue that a dead message moves to; None if it is dropped."""
    if death.reason == LENGTH and queue.settings.when_full == "drop-oldest":
        return None
    return dead_letter_queue_of(hall, queue)


def dead_letter_staged(hall: Hall, queue: RunningQueue, record: Record, fields: Fields, reason: str) -> None:
    """Move a delayed message to the dead-letter queue, if there is one. Inside an atomic write."""
    if queue.settings.amqp is not None and queue.settings.amqp.letters_exchange is not None:
        routed = route_letter(hall, queue, record, fields, reason)
        report(hall, queue, message_info_of(fields), fate_of_death(reason, bool(routed)), reason)
        return
    letters = dead_letter_queue_of(hall, queue)
    if letters is not None:
        now_ms = hall.time.now_ms()
        dead = dead_letter_record(record, fields.message_id, now_ms, queue.entry.name, reason, 0)
        letters.write(hall, dead, 0, fields.group, now_ms)
    name = letters.name if letters is not None else ""
    report(hall, queue, message_info_of(fields), fate_of_death(reason, bool(name)), reason)


def dead_letter_queue_of(hall: Hall, queue: RunningQueue) -> MoveTarget | None:
    """The dead-letter queue of a queue, if it exists."""
    letters = queue.settings.dead_letters
    if letters is None:
        return None
    return letters_of_deleted(hall, letters.queue) or move_target(hall, letters.queue, queue)


def _move(hall: Hall, queue: RunningQueue, death: Death, record: Record, fields: Fields) -> str:
    """Copy a message to the dead-letter queue; returns the name of that queue, empty without one."""
    if death.reason == RETENTION:
        return ""
    if queue.settings.amqp is not None and queue.settings.amqp.letters_exchange is not None:
        return route_letter(hall, queue, record, fields, death.reason)
    target = _target_of(hall, queue, death)
    if target is None:
        return ""
    now_ms = hall.time.now_ms()
    dead = dead_letter_record(
        record,
        fields.message_id,
        now_ms,
        queue.entry.name,
        death.reason,
        death.attempts,
        death.first_ms,
        _history(queue, death),
    )
    target.write(hall, dead, 0, fields.group, now_ms)
    return target.name


def _history(queue: RunningQueue, death: Death) -> str:
    """A line for each attempt: received, ended and how."""
    return "\n".join(
        f"{received_ms} {ended_ms} {HOW[how == RETURNED_BY_HAND]}"
        for received_ms, ended_ms, how in queue.queue.history_of(death.lane, death.offset)
    )


def _report(hall: Hall, queue: RunningQueue, death: Death, fields: Fields | None, target: str) -> None:
    place = (death.lane, death.offset)
    info = message_info_of(fields) if fields is not None else queue.delivery_cache.get(place)
    if info is not None:
        report(hall, queue, info, fate_of_death(death.reason, bool(target)), death.reason, death.attempts)
    if audits(queue):
        info = info or MessageInfo(message_id=derive_message_id(death.lane, death.offset))
        note(
            hall,
            queue,
            [audited(hall, queue, "died", place, info, death.attempts, reason=death.reason, target=target)],
        )
    queue.delivery_cache.forget(death.lane, death.offset)
