"""The audit log: records of everything that happens to the messages of an audited queue, in its audit topic.

Each function is called inside the atomic write of the event, so that a crash leaves neither an event without its record
nor a record without its event. Callers check `audits` first: a queue without audit costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.message_lookup import Place
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.side_topics import side_topic
from longhall.broker.queues.write import write_records
from longhall.queues.audit import SUFFIX, Audited, Kind, audit_record
from longhall.queues.delivery_reports import MessageInfo, message_info_of
from longhall.queues.envelope import decode_record, derive_message_id
from longhall.queues.events import Leased
from longhall.queues.outcomes import Outcome
from longhall.records.record import Record

UNSEEN = "unseen"  # The reason of a return without a delivery.


def audits(queue: RunningQueue) -> bool:
    """True if the queue has an audit topic."""
    return queue.settings.audit != "off"


def note_deliveries(hall: Hall, queue: RunningQueue, outcome: Outcome, consumer: str) -> None:
    """Write records of deliveries; with at-most-once delivery, of the settles too."""
    deadlines = {event.lane: event.deadline_ms for event in outcome.events if isinstance(event, Leased)}
    settles = queue.settings.delivery == "at-most-once"
    written: list[Audited] = []
    for given in outcome.given:
        record = given.candidate.payload
        assert isinstance(record, Record)
        info = message_info_of(decode_record(record, given.lane))
        place = (given.lane, record.offset)
        until_ms = deadlines[given.lane]
        written.append(
            audited(hall, queue, "delivered", place, info, given.attempts, consumer=consumer, until_ms=until_ms)
        )
        if settles:
            written.append(audited(hall, queue, "settled", place, info, given.attempts, consumer=consumer))
    note(hall, queue, written)


def note_settles(
    hall: Hall,
    queue: RunningQueue,
    infos: Mapping[Place, MessageInfo],
    attempts: Mapping[Place, int],
    consumer: str,
    reason: str = "",
) -> None:
    """Write records of settles, for the messages in `attempts`."""
    note(
        hall,
        queue,
        [
            audited(hall, queue, "settled", place, _known(infos, place), count, reason=reason, consumer=consumer)
            for place, count in attempts.items()
        ],
    )


def _known(infos: Mapping[Place, MessageInfo], place: Place) -> MessageInfo:
    return infos.get(place) or MessageInfo(message_id=derive_message_id(*place))


def note_lanes(hall: Hall, queue: RunningQueue, kind: Kind, positions: Iterable[Place]) -> None:
    """Write records of a purge or a rewind, with the offset in each lane."""
    note(hall, queue, [audited(hall, queue, kind, place, MessageInfo(message_id=""), 0) for place in positions])


def note_return(
    hall: Hall,
    queue: RunningQueue,
    place: Place,
    info: MessageInfo,
    attempt: int,
    reason: str,
    consumer: str,
    until_ms: int,
) -> None:
    """Note that a message was returned to the queue, which hides it until `until_ms`."""
    returned = audited(
        hall, queue, "returned", place, info, attempt, reason=reason, consumer=consumer, until_ms=until_ms
    )
    note(hall, queue, [returned])


def audited(
    hall: Hall,
    queue: RunningQueue,
    kind: Kind,
    place: Place,
    info: MessageInfo,
    attempt: int,
    *,
    reason: str = "",
    consumer: str = "",
    until_ms: int = 0,
    target: str = "",
) -> Audited:
    """One audit record."""
    return Audited(
        kind=kind,
        queue=queue.entry.name,
        time_ms=hall.time.now_ms(),
        message_id=info.message_id,
        lane=place[0],
        partition=queue.lanes[place[0]].number,
        offset=place[1],
        attempt=attempt,
        reason=reason,
        consumer=consumer,
        sent_ms=info.sent_ms,
        size_bytes=info.size_bytes,
        group=info.group,
        until_ms=until_ms,
        target=target,
    )


def note(hall: Hall, queue: RunningQueue, written: Sequence[Audited]) -> None:
    """Write these records as one batch."""
    partition = side_topic(hall, queue, SUFFIX) if written else None
    if partition is not None and not partition.elsewhere:  # The group of a placed queue writes its audit.
        write_records(hall, partition, [audit_record(one) for one in written], hall.time.now_ms(), message=False)
