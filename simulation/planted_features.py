"""Planted bugs in queue features beyond sending and receiving: rewinds, forks, answers, audits, filters."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker import transaction_settles
from longhall.broker.queues.audit import audit_log
from longhall.broker.queues.delivery import receive
from longhall.broker.queues.delivery.receiver_filters import CompiledReceiverFilter
from longhall.broker.queues.sending import answer, produced_sends, settle_with_sends
from longhall.broker.queues.upkeep import rewind
from longhall.broker.queues.upkeep.queue_administration import declare_from
from longhall.broker.queues.write import write_queue
from longhall.queues.events import Passed
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _rewind_in_memory() -> _Replacements:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            queue.queue.apply(event)

    return [(rewind, "write_queue", write)]


def _fork_from_where_the_queue_is() -> _Replacements:
    good: Any = declare_from

    async def declare(hall: Any, name: str, topic_id: Any, settings: Any, starts: dict[int, int]) -> Any:
        source = next(queue for queue in hall.queues.values() if queue.entry.topic_id == topic_id)
        floors = {lane: max(start, source.queue.cursor(lane).floor()) for lane, start in starts.items()}
        return await good(hall, name, topic_id, settings, floors)

    return [(rewind, "declare_from", declare)]


def _answer_without_settling() -> _Replacements:
    return [(answer._Settling, "write", lambda self: None)]


def _audit_in_memory() -> _Replacements:
    """The audit entry of a settle stays in memory until the next delivery."""
    waiting: list[Any] = []
    good: Any = audit_log.note

    def note(hall: Any, queue: Any, written: Any) -> None:
        if all(one.kind == "settled" for one in written):
            waiting.extend((hall, one) for one in written)
            return
        mine = [one for kept, one in waiting if kept is hall]
        waiting.clear()
        good(hall, queue, [*mine, *written])

    return [(audit_log, "note", note)]


def _give_what_does_not_fit() -> _Replacements:
    good: Any = CompiledReceiverFilter.wants

    def wants(self: Any, lane: int, candidate: Any) -> bool:
        return bool(good(self, lane, candidate)) or candidate.payload.offset % 40 == 0

    return [(CompiledReceiverFilter, "wants", wants)]


def _forget_what_was_passed() -> _Replacements:
    def write(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            if isinstance(event, Passed) and len(event.offsets) > 1:
                event = msgspec.structs.replace(event, offsets=event.offsets[:1], sizes=event.sizes[:1])
            write_queue(hall, queue, [event])

    return [(receive, "write_queue", write)]


def _settle_apart_from_the_outcome() -> _Replacements:
    """The settles of a transaction are applied and not logged."""

    def write(hall: Any, queue: Any, events: Any, *others: Any) -> None:
        for event in events:
            queue.queue.apply(event)

    return [(transaction_settles, "write_settles", write)]


def _forget_ids_of_kafka_producers() -> _Replacements:
    return [(produced_sends, "may_remember_produced", lambda hall: False)]


def _send_without_settling() -> _Replacements:
    return [(settle_with_sends, "write_settles", lambda *others: None)]


def _let_batches_in() -> _Replacements:
    return [(produced_sends, "decide_room", lambda *others: None)]


FEATURE_BUGS: Final[dict[str, Bug]] = {
    "rewind-in-memory": Bug("A rewind is answered and not logged.", "rewinds", 4, _rewind_in_memory),
    "fork-from-where-the-queue-is": Bug(
        "A fork lacks the messages that the queue has settled.", "rewinds", 2, _fork_from_where_the_queue_is
    ),
    "answer-without-settling": Bug("An answered question is delivered again.", "answers", 2, _answer_without_settling),
    "audit-in-memory": Bug("The audit entry of a settle waits for the next delivery.", "audits", 4, _audit_in_memory),
    "give-what-does-not-fit": Bug(
        "A filter delivers messages that do not match.", "filters", 2, _give_what_does_not_fit
    ),
    "forget-what-was-passed": Bug(
        "Messages that a filter skips are never delivered.", "filters", 4, _forget_what_was_passed
    ),
    "settle-apart-from-the-outcome": Bug(
        "The settles of a transaction are not in the log with its outcome.", "once", 4, _settle_apart_from_the_outcome
    ),
    "send-without-settling": Bug("A settle with sends sends, and settles nothing.", "once", 2, _send_without_settling),
    "forget-ids-of-kafka-producers": Bug(
        "A queue does not deduplicate the records of Kafka producers.", "once", 2, _forget_ids_of_kafka_producers
    ),
    "settle-apart-after-an-election": Bug(
        "The settles of a transaction are lost with the leader that applied them.",
        "cluster-once",
        4,
        _settle_apart_from_the_outcome,
    ),
    "send-without-settling-in-a-cluster": Bug(
        "A settle with sends sends, and settles nothing, at any leader.", "cluster-once", 2, _send_without_settling
    ),
    "let-batches-in": Bug("A full queue accepts the batches of Kafka producers.", "once", 4, _let_batches_in),
}
