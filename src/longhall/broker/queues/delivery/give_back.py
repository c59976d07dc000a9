"""Return a message (negative acknowledgement): it is available again, at once or after the retry delay.

A message that no consumer has seen is available at once, without an attempt.

With a retry policy the delay grows with the attempts, a copy of the message is written to the queue's retry topic when
the delay begins, and a message without attempts left moves to the dead-letter queue at once.
"""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import UNSEEN, audits, note_return
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter, dead_letter_queue_of
from longhall.broker.queues.delivery.message_lookup import look_up_record
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.side_topics import RETRY, side_topic
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.errors import Code
from longhall.queues.delivery_reports import MessageInfo, message_info_of
from longhall.queues.envelope import decode_record, derive_message_id, retry_record
from longhall.queues.events import Returned
from longhall.queues.outcomes import ATTEMPTS, Candidate, Death
from longhall.queues.receipts import CURRENT
from longhall.queues.retry import retry_delay_ms
from longhall.records.record import Record


async def give_back(
    hall: Hall,
    queue: RunningQueue,
    receipt: tuple[int, int, int],
    consumer: str,
    *,
    unseen: bool = False,
    accepts: str = CURRENT,
) -> Code | None:
    """End one lease; returns the error, or None."""
    lane, offset, number = receipt
    if lane not in queue.lanes:
        return Code.RECEIPT_SUPERSEDED
    record = None
    retry = None if unseen else queue.settings.retry
    if audits(queue) or retry is not None:
        record = await look_up_record(hall, queue, lane, offset)
    lease = queue.queue.lease_of(lane, offset)
    if lease is None:
        return Code.RECEIPT_SUPERSEDED  # The message is settled or dead.
    attempts = lease[2]
    used_up = retry is not None and _is_used_up(hall, queue, attempts)
    delay_ms = 0 if used_up else retry_delay_ms(retry, attempts)
    now_ms = hall.time.now_ms()
    if unseen:
        returned: Returned | Code | None = queue.queue.decide_unseen(now_ms, lane, offset, number, at_once=True)
    else:
        returned = queue.queue.decide_return(now_ms, lane, offset, number, delay_ms, accepts)
    if returned is None or isinstance(returned, Code):
        return returned
    if record is None and not audits(queue):
        write_queue(hall, queue, [returned])
        return None
    with together(hall):
        write_queue(hall, queue, [returned])
        _write_records(hall, queue, returned, record, attempts, consumer)
    if used_up:
        candidate = Candidate(offset, offset + 1, len(record.value or b"") if record is not None else 0, "", -1, record)
        dead_letter(hall, queue, [Death(lane, offset, ATTEMPTS, attempts, lease[3], candidate)])
    return None


def _is_used_up(hall: Hall, queue: RunningQueue, attempts: int) -> bool:
    """True if no attempts are left and the dead-letter queue exists."""
    settings = queue.settings
    if settings.dead_letters is None or dead_letter_queue_of(hall, queue) is None:
        return False
    return attempts >= settings.dead_letters.attempts_max


def _write_records(
    hall: Hall, queue: RunningQueue, returned: Returned, record: Record | None, attempts: int, consumer: str
) -> None:
    place = (returned.lane, returned.offset)
    info = MessageInfo(message_id=derive_message_id(*place))
    if record is not None:
        info = message_info_of(decode_record(record, returned.lane))
    if audits(queue):
        reason = UNSEEN if returned.unseen else ""
        note_return(hall, queue, place, info, attempts, reason, consumer, returned.visible_ms)
    if record is not None and queue.settings.retry is not None and returned.visible_ms > returned.at_ms:
        partition = side_topic(hall, queue, RETRY)
        if partition is not None:
            now_ms = returned.at_ms
            name = queue.entry.name
            waiting = retry_record(record, info.message_id, now_ms, name, attempts, returned.visible_ms)
            write_records(hall, partition, [waiting], now_ms, message=False)
