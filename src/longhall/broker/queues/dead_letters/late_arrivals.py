"""Messages for a deleted queue: they become dead letters, if the queue wanted that (`dead_letters.after_delete`).

The catalogue remembers the dead-letter queue of a deleted queue until a queue of its name is created again. This holds
for sends that reach the broker by the queue's name, for answers and delivery reports to it, and for the dead letters of
other queues that went to it. Each carries the reason `deleted` and the name of the deleted queue. If the dead-letter
queue is in another replication group, it gets them by the outbox.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.move_bounds import MoveTarget, can_leave, move_target
from longhall.broker.queues.write import together, write_records
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import dead_letter_record, encode_record, sent_as
from longhall.queues.messages import Accepted, Outgoing
from longhall.queues.outcomes import DELETED
from longhall.records.record import Record


def letters_of_deleted(hall: Hall, name: str) -> MoveTarget | None:
    """The dead-letter queue of a deleted queue. None for a queue that exists, or has none for late arrivals."""
    if hall.running_queue(name) is not None:
        return None
    letters = hall.catalogue.queues.letters_of_deleted.get(name, "")
    return move_target(hall, letters) if letters else None


def bury(hall: Hall, letters: MoveTarget, name: str, record: Record, message: bool = True) -> str:
    """Write a record for the deleted queue as a dead letter; returns its id. `message` is False for moves. Inside an
    atomic write.
    """
    now_ms = hall.time.now_ms()
    digits = hall.world.entropy.bytes(16).hex()
    message_id = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
    dead = dead_letter_record(record, message_id, now_ms, name, DELETED, 0)
    group = sent_as(record)[1]
    if letters.queue is None:
        letters.write(hall, dead, 0, group, now_ms)
    else:
        write_records(hall, letters.queue.lane_for(0, group), [dead], now_ms, message)
        letters.queue.on_sent(1)
    return message_id


def check_burial(hall: Hall, letters: MoveTarget, record: Record) -> None:
    """Raises QUEUE_FULL or MESSAGE_TOO_LARGE if the dead-letter queue cannot take a record now."""
    if letters.queue is None and not can_leave(record):
        raise LonghallError(Code.MESSAGE_TOO_LARGE, f"The message is too large for '{letters.name}' in another group.")
    if not letters.takes(hall, [record]):
        raise LonghallError(Code.QUEUE_FULL, f"Queue '{letters.name}' is full.")


def bury_sends(hall: Hall, letters: MoveTarget, name: str, messages: list[Outgoing]) -> list[Accepted]:
    """Accept messages for the deleted queue as dead letters; they are not committed yet."""
    answers: list[Accepted] = []
    for message in messages:
        try:
            record = encode_record(message, "", hall.time.now_ms())
            check_burial(hall, letters, record)
            with together(hall):
                message_id = bury(hall, letters, name, record)
            answers.append(Accepted(message_id=message_id))
        except LonghallError as error:
            answers.append(Accepted(code=error.code, message=str(error)))
    return answers
