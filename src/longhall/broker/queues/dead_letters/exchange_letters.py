"""Dead messages of a queue with a dead-letter exchange: they are published there, with the history of their deaths.

    header                             value
    x-death                            a table for each queue and reason, the newest first: count, reason, queue, time,
                                       exchange, routing-keys, original-expiration
    x-first-death-*, x-last-death-*    queue, reason and exchange of the first and of the last death

A history that a client sends along counts if a dead letter had it: programs publish dead letters again, with their
headers.

A message that would come back to a queue in which it died before, and that no consumer has rejected since, is dropped:
it would go round for ever. The copies and the removal from the queue are one atomic write; a copy for a queue of
another replication group is in the outbox then.

    a full target               at-most-once                       at-least-once
    reject-publish              it does not get the message        the message stays, and is delivered again later
    drop-head                   its oldest messages give way, a moment later (`upkeep.expirer`)
"""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.move_bounds import move_target
from longhall.broker.queues.running_queue import EXPIRES, RunningQueue
from longhall.errors import Code
from longhall.exchanges.field_table import (
    MalformedTable,
    Timestamp,
    decode_value,
    encode_long,
    encode_value,
    join_table,
    split_table,
)
from longhall.exchanges.names import names_of
from longhall.exchanges.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    decode_stored,
    encode_properties,
    encode_stored,
)
from longhall.queues.envelope import (
    AMQP,
    ATTEMPT_HISTORY,
    DEAD_LETTER_REASON,
    DEAD_LETTER_SOURCE,
    FIRST_RECEIVED,
    Fields,
    body_bytes_of,
    moved_record,
)
from longhall.queues.envelope import ATTEMPTS as ATTEMPTS_HEADER
from longhall.queues.envelope import EXPIRES as EXPIRES_HEADER
from longhall.queues.outcomes import ATTEMPTS, LENGTH
from longhall.records.record import Record

CC: Final = "CC"
DEATHS: Final = "x-death"
FIRST_DEATH: Final = "x-first-death-queue"  # Every dead letter has it; a history without it was made up by a client.
REJECTED: Final = "rejected"
DEATHS_MAX: Final = 64  # Tables of one message; the oldest are dropped.
_REASONS: Final = {ATTEMPTS: "delivery_limit", LENGTH: "maxlen"}

# What a copy has anew, or does not have.
_REPLACED: Final = frozenset(
    {
        AMQP,
        EXPIRES_HEADER,
        DEAD_LETTER_SOURCE,
        DEAD_LETTER_REASON,
        ATTEMPTS_HEADER,
        FIRST_RECEIVED,
        ATTEMPT_HISTORY,
    }
)

HeaderFields = dict[str, bytes]


def route_letter(hall: Hall, queue: RunningQueue, record: Record, fields: Fields, reason: str) -> str:
    """Publish a dead message; returns the name of the exchange, empty if it found no queue. Inside an atomic write."""
    amqp = queue.settings.amqp
    assert amqp is not None
    assert amqp.letters_exchange is not None
    reason = _REASONS.get(reason, reason)
    exchange, key, properties = _published(fields, amqp.name)
    headers: HeaderFields = dict(split_table(properties.headers)[0]) if properties.headers is not None else {}
    copies = _texts(headers.get(CC))
    deaths = _add_death(hall, headers, amqp.name, reason, exchange, [key, *copies], properties)
    keys = [key, *copies]
    if amqp.letters_key is not None:
        keys = [amqp.letters_key]
        headers.pop(CC, None)
    targets = _targets(hall, amqp.host, amqp.letters_exchange, keys, headers)
    size_bytes = body_bytes_of(record)
    properties.expiration = None
    properties.headers = join_table(list(headers.items()))
    stored = encode_stored(amqp.letters_exchange, keys[0], encode_properties(properties))
    now_ms = hall.time.now_ms()
    routed = ""
    for target in targets:
        declared = target.settings.amqp
        name = declared.name if declared is not None else names_of(target.entry.name)[1]
        if (reason != REJECTED and _is_cycle(deaths, name)) or _refuses(target, size_bytes):
            continue
        lives_ms = target.settings.time_to_live_ms
        letter = _letter(record, fields.message_id, now_ms, stored, now_ms + lives_ms if lives_ms else 0)
        if fields.seal:  # A seal of another queue is opened only in a dead letter.
            source = (DEAD_LETTER_SOURCE, queue.entry.name.encode())
            letter = Record(-1, now_ms, letter.key, letter.value, (*letter.headers, source))
        moves_to = move_target(hall, target.entry.name, queue)
        if moves_to is None or (moves_to.queue is None and not moves_to.takes(hall, [letter])):
            continue
        if lives_ms:
            target.expiry = EXPIRES
        moves_to.write(hall, letter, fields.priority, fields.group, now_ms)
        routed = amqp.letters_exchange or "the default exchange"
    return routed


def letters_have_room(hall: Hall, queue: RunningQueue, record: Record, fields: Fields) -> bool:
    """True unless a queue to which a dead message goes is full, and refuses it."""
    amqp = queue.settings.amqp
    assert amqp is not None
    assert amqp.letters_exchange is not None
    _, key, properties = _published(fields, amqp.name)
    headers: HeaderFields = dict(split_table(properties.headers)[0]) if properties.headers is not None else {}
    keys = [amqp.letters_key] if amqp.letters_key is not None else [key, *_texts(headers.get(CC))]
    targets = _targets(hall, amqp.host, amqp.letters_exchange, keys, headers)
    return not any(_refuses(target, body_bytes_of(record)) for target in targets)


def _refuses(target: RunningQueue, size_bytes: int) -> bool:
    return isinstance(target.queue.decide_send(1, size_bytes, target.staging.count), Code)


def _letter(record: Record, message_id: str, now_ms: int, stored: bytes, expires_ms: int) -> Record:
    """A copy of a dead message, with other AMQP properties and another time to live."""
    moved = moved_record(record, message_id, now_ms)
    headers = [header for header in moved.headers if header[0] not in _REPLACED]
    headers.append((AMQP, stored))
    if expires_ms > 0:
        headers.append((EXPIRES_HEADER, b"%d" % expires_ms))
    return Record(-1, now_ms, moved.key, moved.value, tuple(headers))


def _published(fields: Fields, name: str) -> tuple[str, str, Properties]:
    """Exchange, routing key and properties; of a message of another door, as if it was sent to its queue."""
    try:
        exchange, key, raw = decode_stored(fields.amqp) if fields.amqp else ("", name, NO_PROPERTIES)
        return exchange, key, decode_properties(raw)
    except MalformedTable:
        return "", name, Properties()


def _targets(hall: Hall, host: str, exchange: str, keys: list[str], headers: HeaderFields) -> list[RunningQueue]:
    topology = hall.catalogue.exchanges
    values: dict[str, Any] = {}
    if topology.wants_headers(host, exchange):
        values = {name: decode_value(value) for name, value in headers.items()}
    found = topology.route(host, exchange, keys, values, lambda name: hall.running_queue(name) is not None)
    if isinstance(found, Code):
        return []
    queues = [hall.running_queue(name) for name in found]
    return [queue for queue in queues if queue is not None]


def _add_death(
    hall: Hall, headers: HeaderFields, queue: str, reason: str, exchange: str, keys: list[str], properties: Properties
) -> list[dict[str, Any]]:
    """Note a death in the headers; returns the tables before it."""
    before = _tables(headers.get(DEATHS)) if FIRST_DEATH in headers else []
    same = [one for one in before if one.get("queue") == queue and one.get("reason") == reason]
    others = [one for one in before if one not in same]
    if same:
        death = {**same[0], "count": _count(same[0]) + 1}
    else:
        death = {
            "count": 1,
            "reason": reason,
            "queue": queue,
            "time": Timestamp(hall.time.now_ms() // 1000),
            "exchange": exchange,
            "routing-keys": keys,
        }
        if properties.expiration is not None:
            death["original-expiration"] = properties.expiration
    headers[DEATHS] = _encoded([death, *others][:DEATHS_MAX])
    facts = (("queue", queue), ("reason", reason), ("exchange", exchange))
    for name, fact in facts:
        headers.setdefault(f"x-first-death-{name}", encode_value(fact))
        headers[f"x-last-death-{name}"] = encode_value(fact)
    return [death, *others]


def _encoded(deaths: list[dict[str, Any]]) -> bytes:
    """The array of deaths. Counts are 64-bit integers whatever their size: Java clients read a Long."""
    tables = b"".join(
        b"F"
        + join_table([(name, encode_long(_count(one)) if name == "count" else encode_value(one[name])) for name in one])
        for one in deaths
    )
    return b"A" + len(tables).to_bytes(4, "big") + tables


def _is_cycle(deaths: list[dict[str, Any]], name: str) -> bool:
    """True if the message died in this queue, and no consumer has rejected it since."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == name:
            return True
    return False


def _tables(value: bytes | None) -> list[dict[str, Any]]:
    found = _decoded(value)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _texts(value: bytes | None) -> list[str]:
    found = _decoded(value)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _decoded(value: bytes | None) -> Any:
    try:
        return decode_value(value) if value is not None else None
    except MalformedTable:
        return None


def _count(death: dict[str, Any]) -> int:
    count = death.get("count")
    return count if isinstance(count, int) else 1
