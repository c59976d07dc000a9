"""Which wings have a topic as it is now: what has to be known before clients are sent there by its name.

A name may have had an earlier life, which a wing that was away still has. Whoever asks by the name alone would reach
that, and what it sent would go with it. So a wing is named for a topic only if the wing has it:

    of the topic                           the wing is named
    it was seen in the wing                yes
    furnishing began here, and came to     no, until it is done
    nothing yet
    made a while ago, and neither is so    yes: an earlier leader has furnished it, or the next look of this one does
    made just now, and neither is so       no: an earlier leader may have come to nothing; the next look tells
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from longhall.broker.catalogue import Topic

YOUNG_MS: Final = 60_000


@final
class TopicPresence:
    """See the module. It remembers topics that are young, and those that wings have yet to get: no more than exist."""

    def __init__(self) -> None:
        self._there: set[tuple[int, bytes]] = set()  # Wings, and ids of topics.
        self._owed: set[tuple[int, bytes]] = set()

    def begins(self, wing: int, topic: Topic, now_ms: int) -> None:
        """The wing is about to be furnished."""
        key = (wing, topic.topic_id)
        if key not in self._there and _is_young(topic, now_ms):
            self._owed.add(key)

    def has(self, wing: int, topic_id: bytes) -> None:
        """The wing has it."""
        self._there.add((wing, topic_id))
        self._owed.discard((wing, topic_id))

    def is_there(self, wing: int, topic: Topic, now_ms: int) -> bool:
        """Whether clients may be sent to this wing."""
        key = (wing, topic.topic_id)
        return key in self._there or (key not in self._owed and not _is_young(topic, now_ms))

    def forget(self, topics: Mapping[bytes, Topic], now_ms: int) -> None:
        """Of all but these topics everything, and where the old ones are."""
        self._owed = {key for key in self._owed if key[1] in topics}
        self._there = {key for key in self._there if key[1] in topics and _is_young(topics[key[1]], now_ms)}


def _is_young(topic: Topic, now_ms: int) -> bool:
    return abs(now_ms - topic.created_ms) < YOUNG_MS  # A clock that was set back makes nothing young for days.
