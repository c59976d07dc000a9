"""In how many parts a queue stands: each a log of its own, for its share of what the queue may hold.

A queue begins with `partitions` parts and may have up to `parts_max`; all of them together hold `messages_max` and
`bytes_max`. It doubles when its open parts are filled to `grow_at` percent of their share, and halves when they have
been filled to less than `shrink_at` percent for a while. Doubling, because then whoever chooses the part by a hash and
a remainder, as Kafka producers do, sends what it sends elsewhere to a new part, and never to another old one.

    open        messages that come through the hall's own doors go there
    shown       Kafka clients are told of them: the open ones, and those that are to go and are not drained yet
    made        they have a log: the others are empty, and serve again when the queue grows again

This decides and remembers nothing; the catalogue has what was decided, `marks` has what that means for FIFO groups.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings

NOT_CALM: Final = -1  # For how long it has been calm.
SENDERS_MAX: Final = 1024  # Kafka producers of one topic of which is known how many parts they know.


def check_parts(settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION for a queue that could not grow as it says."""
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
    """How full these many parts are, by whichever of the two bounds is nearer."""
    share = parts / settings.parts_max
    by_messages = 100 * messages / (settings.messages_max * share) if settings.messages_max else 0.0
    by_bytes = 100 * bytes / (settings.bytes_max * share) if settings.bytes_max else 0.0
    return max(by_messages, by_bytes)


def is_calm(settings: QueueSettings, parts: int, messages: int, bytes: int) -> bool:
    """Whether it would shrink if this lasts."""
    return filled_percent(settings, parts, messages, bytes) < settings.shrink_at or parts > settings.parts_max


def decide_parts(settings: QueueSettings, parts: int, messages: int, bytes: int, calm_ms: int) -> int:
    """How many parts should be open, where `parts` are; `calm_ms` says for how long it has been calm."""
    if parts * 2 <= settings.parts_max and filled_percent(settings, parts, messages, bytes) >= settings.grow_at:
        return parts * 2
    if parts % 2 == 0 and parts // 2 >= settings.partitions and calm_ms >= settings.shrink_after_ms:
        return parts // 2
    return parts


@final
class Senders:
    """How many parts those who choose the part themselves are known to know.

    Who sends to a part shows that it knows of that part, and from then on some of its keys go elsewhere. That is the
    moment for a mark: everything it sent before stands below it. Not durable: whoever is not known here is taken for
    one that has just heard.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._known: dict[int, int] = {}

    def notices_growth(self, sender: int, part: int) -> bool:
        """Whether it shows with this part that it knows more parts than it did."""
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
        """Parts went: all will know fewer."""
        self._known = {}
