"""The number of partitions ("parts") of a queue: when it grows and when it shrinks.

A queue begins with `partitions` parts and has at most `parts_max`; `messages_max` and `bytes_max` bound all parts
together. The queue doubles its parts when the open ones are filled to `grow_at` percent of their share, and halves them
when they have been below `shrink_at` percent for a while. It doubles because clients that choose the part by hash and
remainder, as Kafka producers do, then move keys only to new parts, never between old ones.

    open        accept messages from the doors
    shown       in the metadata of Kafka clients: the open parts, and closed ones that are not drained yet
    made        have a log; hidden ones are empty and are opened again when the queue grows

This module decides and has no state of the queue: the catalogue stores the decisions, `marks` orders FIFO groups.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings

NOT_CALM: Final = -1  # As `calm_ms`: the queue is not nearly empty.
SENDERS_MAX: Final = 1024  # Kafka producers of one topic whose known partition count is stored.


def check_parts(settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION for growth settings that contradict each other."""
    if settings.parts_max <= settings.partitions:
        return
    wrong = ""
    times = settings.parts_max // settings.partitions
    if settings.parts_max % settings.partitions or times & (times - 1):
        wrong = f"parts_max must be {settings.partitions} times 2, 4, 8 and so on: a queue grows by doubling."
    elif not settings.messages_max and not settings.bytes_max:
        wrong = "A queue with parts_max needs messages_max or bytes_max: what all its parts together hold."
    elif settings.shrink_at * 2 >= settings.grow_at:
        wrong = "shrink_at must be less than half of grow_at, or a queue that shrinks would have to grow again."
    elif settings.one_by_one:
        wrong = "A queue that gives out one by one has no use for more parts."
    if wrong:
        raise LonghallError(Code.INVALID_CONFIGURATION, wrong)


def filled_percent(settings: QueueSettings, parts: int, messages: int, bytes: int) -> float:
    """The fill level of this many parts, by the nearer of the two bounds."""
    share = parts / settings.parts_max
    by_messages = 100 * messages / (settings.messages_max * share) if settings.messages_max else 0.0
    by_bytes = 100 * bytes / (settings.bytes_max * share) if settings.bytes_max else 0.0
    return max(by_messages, by_bytes)


def is_calm(settings: QueueSettings, parts: int, messages: int, bytes: int) -> bool:
    """True if the queue shrinks when this lasts for `shrink_after_ms`."""
    return filled_percent(settings, parts, messages, bytes) < settings.shrink_at or parts > settings.parts_max


def decide_parts(settings: QueueSettings, parts: int, messages: int, bytes: int, calm_ms: int) -> int:
    """The number of parts that should be open. `parts` are open now, and the queue has been calm for `calm_ms`."""
    if parts * 2 <= settings.parts_max and filled_percent(settings, parts, messages, bytes) >= settings.grow_at:
        return parts * 2
    if parts % 2 == 0 and parts // 2 >= settings.partitions and calm_ms >= settings.shrink_after_ms:
        return parts // 2
    return parts


@final
class Senders:
    """The number of parts that each Kafka producer is known to use.

    A producer that sends to a part knows of that part, and from then on some of its keys go to other parts. That is the
    time for a mark: everything the producer sent before is below it. The state is not durable: an unknown producer
    counts as one that has just seen the growth.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._known: dict[int, int] = {}

    def notices_growth(self, sender: int, part: int) -> bool:
        """True if a send to this part shows that the sender knows more parts than before."""
        if part < self._least:
            return False
        knows = self._least
        while knows <= part:
            knows *= 2
        if self._known.get(sender, self._least) >= knows:
            return False
        if sender in self._known or len(self._known) < SENDERS_MAX:
            self._known[sender] = knows
        return True

    def forget(self) -> None:
        """Reset after parts were hidden."""
        self._known = {}
