"""The rules of a queue for one message from any door: size, deduplication, delay, time to live, quota.

`batch_send` and `send` apply them to the messages of SQS and the HTTP API, `produced_records` to the records of Kafka
producers. Room in the queue is in `room`: it may have to be waited for.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.queues.running_queue import EXPIRES, RunningQueue
from longhall.errors import Code, LonghallError
from longhall.queues.deduplication import FirstSend, deduplication_id, fingerprint
from longhall.queues.envelope import ATTEMPTS, encode_record, group_text
from longhall.queues.messages import OVER, UNTIL_DELIVERED, Accepted, Outgoing
from longhall.queues.outcomes import UNTIL_DELIVERED_MS
from longhall.queues.retry import retry_delay_ms
from longhall.records.record import Record
from longhall.records.seal import TAG_BYTES

ONE_RECORD_BYTES_MAX: Final = 3 * 1024 * 1024  # Above it a message is cut, however large the queue's own limit is.


def body_bytes_max(queue: RunningQueue) -> int:
    """The largest body that the queue takes; a body above `message_bytes_max` is stored in parts."""
    settings = queue.settings
    return max(settings.message_bytes_max, settings.whole_bytes_max)


def check_size(queue: RunningQueue, size_bytes: int) -> None:
    """Refuse a body that is too large for the queue."""
    bytes_max = body_bytes_max(queue)
    if size_bytes > bytes_max:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, f"a message may have {bytes_max} bytes")


def clear_bytes(message: Outgoing) -> int:
    """The size of a body as its sender counts it, whether or not it is sealed."""
    return len(message.body) - TAG_BYTES if message.seal else len(message.body)


def unsealed(queue: RunningQueue) -> LonghallError:
    """The refusal of clear text for a sealed queue. It has to be sealed where it arrives, before the broker gets it."""
    return LonghallError(
        Code.SEALED, f"Queue '{queue.entry.name}' is sealed, and takes messages only by ways on which they are sealed."
    )


def identify(queue: RunningQueue, message: Outgoing) -> str:
    """Fill in the deduplication id of a message: its own, or that of its content if the queue wants it."""
    message.deduplication_id = identity_of(queue, message.deduplication_id, message.body)
    return message.deduplication_id


def identity_of(queue: RunningQueue, given: str, body: bytes) -> str:
    """The deduplication id of a message. An exactly-once queue refuses a message without one: its repeat would stay."""
    identity = deduplication_id(given, body, queue.settings.deduplication == "content")
    if not identity and queue.settings.delivery == "exactly-once":
        name = queue.entry.name
        raise LonghallError(
            Code.INVALID_REQUEST,
            f"Queue '{name}' delivers exactly once: a message needs a deduplication id, or an idempotent producer.",
        )
    return identity


def scope_of(queue: RunningQueue, group: str, key: bytes | None) -> str:
    """The group within which an id is unique; empty: the queue. The key is the group of a message without one."""
    if queue.settings.deduplication_scope != "group":
        return ""
    return group or (group_text(key) if key else "")


def first_send(queue: RunningQueue, mark: bytes, now_ms: int) -> FirstSend | None:
    """The first send with this fingerprint within the window. Raises REPEATED_SEND if the queue refuses repeats."""
    settings = queue.settings
    refuses = settings.repeated_sends == "refuse"
    decided = queue.sent.decide(mark, now_ms, settings.deduplication_window_ms, refuses)
    if isinstance(decided, Code):
        raise LonghallError(decided, "the message was sent before")
    return decided


def repeated_send(queue: RunningQueue, message: Outgoing, now_ms: int) -> Accepted | None:
    """The answer to a send that came before within the window, or None if this is the first."""
    if not message.deduplication_id:
        return None
    mark = fingerprint(message.deduplication_id, scope_of(queue, message.group, message.key))
    if queue.open_sends.is_open(mark):
        raise open_elsewhere()
    first = first_send(queue, mark, now_ms)
    if first is None and queue.settings.deduplication_scope == "group":
        # It may have been sent while the scope was the whole queue.
        first = first_send(queue, fingerprint(message.deduplication_id), now_ms)
    if first is None:
        return None
    return Accepted(message_id=first.message_id, sequence=queue.sequence_of(first.lane, first.sequence), repeated=True)


def open_elsewhere() -> LonghallError:
    """For a repeat of a message whose transaction is open: whether it is one is known at the end of the transaction."""
    return LonghallError(Code.TIMED_OUT, "an open transaction has a message with this deduplication id: try again")


def due_of_send(queue: RunningQueue, delay_ms: int, now_ms: int) -> int:
    """When a message is due that asks for this delay (-1: the queue's); 0: at once."""
    delay_ms = delay_ms if delay_ms >= 0 else queue.settings.delay_ms
    retry = queue.settings.retry
    if retry is not None and retry.sends:
        delay_ms = max(delay_ms, retry_delay_ms(retry, 1))
    return now_ms + delay_ms if delay_ms > 0 else 0


def end_of_life(queue: RunningQueue, time_to_live_ms: int, due_ms: int, now_ms: int) -> int:
    """When a message expires that asks for this time to live (-1: the queue's); 0: never. It begins when it is due."""
    lives_ms = time_to_live_ms if time_to_live_ms >= 0 else queue.settings.time_to_live_ms
    expires_ms = max(due_ms, now_ms) + lives_ms if lives_ms > 0 else 0
    if time_to_live_ms == OVER:
        expires_ms = max(due_ms, now_ms)
    elif time_to_live_ms == UNTIL_DELIVERED:
        expires_ms = 0 if due_ms else UNTIL_DELIVERED_MS
    if expires_ms:
        queue.expiry = EXPIRES
    return expires_ms


def record_of(queue: RunningQueue, message: Outgoing, message_id: str, now_ms: int, due_ms: int) -> Record:
    """The record that a message becomes. SEALED for clear text that a sealed queue would store."""
    if not message.seal and queue.is_sealed:
        raise unsealed(queue)
    expires_ms = end_of_life(queue, message.time_to_live_ms, due_ms, now_ms)
    record = encode_record(message, message_id, now_ms, expires_ms, due_ms)
    retry = queue.settings.retry
    if retry is None or not retry.sends:
        return record
    return Record(-1, now_ms, record.key, record.value, (*record.headers, (ATTEMPTS, b"1")))


def charge_quota(queue: RunningQueue, size_bytes: int, now_ms: int) -> None:
    """A message for this queue: refuse it if the queue has had more than its quota, else count it."""
    quota = queue.route[0].options.quota
    if quota is not None:
        check_quota(queue, now_ms)
        quota.charge(size_bytes, 1, now_ms)


def check_quota(queue: RunningQueue, now_ms: int) -> None:
    """Refuse a message that `charge_quota` would refuse now."""
    place = queue.route[0]
    quota = place.options.quota
    debt_ms = quota.debt_ms(now_ms) if quota is not None else 0
    if debt_ms:
        place.traffic.throttled += 1
        name = queue.entry.name
        raise LonghallError(Code.OVER_QUOTA, f"Queue '{name}' has had its quota; send again in {debt_ms} ms.")
