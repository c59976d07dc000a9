"""The data keys of topics and queues in the catalogue: read, add, replace under another wrapping, destroy.

Each change is compared with the catalogue when it is decided: of two front ends that add the same number one wins, and
the other gets the ring with the winner's key. So nothing is ever sealed under a key that the catalogue does not have.
"""

from __future__ import annotations

import logging

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import SEAL_KEYS, SEAL_REUSE, SEALED
from longhall.broker.feature_gates import check_sealed
from longhall.broker.hall import Hall
from longhall.broker.seal_keys import KEYS_MAX, KeyRing, WrappedKey, decode_keys, encode_keys
from longhall.broker.topic_administration import commit_event, must_lead
from longhall.broker.topic_placement import furnish
from longhall.errors import Code, LonghallError

_log = logging.getLogger("longhall.sealing")


def read_ring(hall: Hall, name: str, topic_id: bytes = b"") -> KeyRing:
    """The data keys of a topic or queue, by name or by topic id. UNKNOWN_TOPIC if there is none."""
    return ring_of(_find(hall, name, topic_id))


def ring_of(topic: Topic) -> KeyRing:
    """The data keys of a topic."""
    configuration = topic.configuration
    next_number, keys = decode_keys(configuration.get(SEAL_KEYS, ""))
    reuse_ms = int(configuration.get(SEAL_REUSE, "300000"))
    return KeyRing(topic.topic_id, topic.name, configuration.get(SEALED, ""), keys, next_number, reuse_ms)


async def add_key(hall: Hall, topic_id: bytes, key: WrappedKey) -> KeyRing:
    """Add a data key, unless the catalogue has its number already. The reply is the ring as it is then."""
    must_lead(hall)
    check_sealed(hall)
    topic = _find(hall, "", topic_id)
    ring = ring_of(topic)
    if key.number != ring.next_number:
        return ring
    if len(ring.keys) >= KEYS_MAX:
        raise LonghallError(
            Code.INVALID_REQUEST, f"'{topic.name}' has {KEYS_MAX} data keys: destroy old ones before the next rotation."
        )
    await _commit(hall, topic, key.number + 1, [*ring.keys, key])
    _log.info("a data key was added", extra={"topic": topic.name, "key": key.number, "master": key.master})
    return ring_of(_find(hall, "", topic_id))


async def rewrap_key(hall: Hall, topic_id: bytes, key: WrappedKey) -> KeyRing:
    """Replace the wrapping of a data key. KEY_UNKNOWN if it was destroyed."""
    must_lead(hall)
    topic = _find(hall, "", topic_id)
    ring = ring_of(topic)
    if ring.find(key.number) is None:
        raise LonghallError(Code.KEY_UNKNOWN, f"'{topic.name}' has no data key {key.number}.")
    await _commit(hall, topic, ring.next_number, [key if one.number == key.number else one for one in ring.keys])
    return ring_of(_find(hall, "", topic_id))


async def destroy_key(hall: Hall, topic_id: bytes, number: int) -> KeyRing:
    """Destroy a data key: what it sealed is unreadable from then on. The key that seals now cannot be destroyed."""
    must_lead(hall)
    topic = _find(hall, "", topic_id)
    ring = ring_of(topic)
    if ring.find(number) is None:
        raise LonghallError(Code.KEY_UNKNOWN, f"'{topic.name}' has no data key {number}.")
    if ring.master and ring.keys[-1].number == number:
        raise LonghallError(Code.INVALID_REQUEST, f"Data key {number} seals '{topic.name}' now: rotate it first.")
    await _commit(hall, topic, ring.next_number, [one for one in ring.keys if one.number != number])
    _log.warning("a data key was destroyed", extra={"topic": topic.name, "key": number})
    return ring_of(_find(hall, "", topic_id))


async def _commit(hall: Hall, topic: Topic, next_number: int, keys: list[WrappedKey]) -> None:
    changed = {**topic.configuration, SEAL_KEYS: encode_keys(next_number, keys)}
    event = hall.catalogue.decide_configure(topic.name, changed)
    assert not isinstance(event, Code)
    await commit_event(hall, event)
    await furnish(hall, topic.name)


def _find(hall: Hall, name: str, topic_id: bytes) -> Topic:
    topic: Topic | None
    if topic_id:
        topic = hall.catalogue.by_id.get(topic_id)
    else:
        entry = hall.catalogue.queues.by_name.get(name)
        topic = hall.catalogue.by_id.get(entry.topic_id) if entry is not None else hall.topic(name)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, "The topic or queue does not exist, or does not exist any more.")
    return topic
