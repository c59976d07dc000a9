"""The wings that store the current incarnation of a topic. Clients are redirected only to these.

A wing that was away may still have a deleted topic of the same name. A client that asks by name would reach the old
topic, and what it sent would be deleted with it. So metadata names a wing for a topic under this condition:

    what is known of the topic                   the wing is named
    it was seen in the wing                      yes
    this leader furnishes it, and is not done    no, until it is done
    old, and neither of these                    yes: an earlier leader furnished it, or the next comparison will
    young, and neither of these                  no: an earlier leader may have failed; the next comparison decides
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from longhall.broker.catalogue import Topic

YOUNG_MS: Final = 60_000


@final
class TopicPresence:
    """What one leader knows of topics in wings. Its size is bounded by the young topics and those not furnished yet."""

    def __init__(self) -> None:
        self._there: set[tuple[int, bytes]] = set()  # Pairs of wing and topic id.
        self._owed: set[tuple[int, bytes]] = set()

    def begins(self, wing: int, topic: Topic, now_ms: int) -> None:
        """The topic is about to be created in the wing."""
        key = (wing, topic.topic_id)
        if key not in self._there and _is_young(topic, now_ms):
            self._owed.add(key)

    def has(self, wing: int, topic_id: bytes) -> None:
        """The wing has the topic."""
        self._there.add((wing, topic_id))
        self._owed.discard((wing, topic_id))

    def is_there(self, wing: int, topic: Topic, now_ms: int) -> bool:
        """True if clients may be redirected to this wing."""
        key = (wing, topic.topic_id)
        return key in self._there or (key not in self._owed and not _is_young(topic, now_ms))

    def forget(self, topics: Mapping[bytes, Topic], now_ms: int) -> None:
        """Forget all topics but these, and the places of those that are no longer young."""
        self._owed = {key for key in self._owed if key[1] in topics}
        self._there = {key for key in self._there if key[1] in topics and _is_young(topics[key[1]], now_ms)}


def _is_young(topic: Topic, now_ms: int) -> bool:
    return abs(now_ms - topic.created_ms) < YOUNG_MS  # Both ways: the clock may have been set back.
