"""Recently refused producers, so that their pipelined batches are not taken for a sequence gap.

A producer has several batches in flight. If the first is refused, for instance by back-pressure, and the next ones
arrive after the reason has passed, their sequence numbers do not follow the log. With an OUT_OF_ORDER_SEQUENCE error
the producer would begin a new epoch and resend all unanswered batches, including some that are in the log.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code

REMEMBERED_MS: Final = 5_000  # By then a client has the replies to all its batches in flight.
REMEMBERED_MAX: Final = 10_000  # Pairs of partition and producer; the oldest are dropped.


@final
class RefusedProducers:
    """The last refusal of each producer of a partition, for `REMEMBERED_MS`."""

    def __init__(self) -> None:
        self._refused: dict[tuple[int, int], tuple[Code, int]] = {}  # In the order of their refusals.

    def note(self, partition: int, producer_id: int, code: Code, now_ms: int) -> None:
        """Store the refusal of a batch that was in sequence."""
        key = (partition, producer_id)
        self._refused.pop(key, None)
        self._refused[key] = (code, now_ms)
        if len(self._refused) > REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]

    def lately(self, partition: int, producer_id: int, now_ms: int) -> Code | None:
        """The error of this producer's recent refusal; None without one."""
        found = self._refused.get((partition, producer_id))
        if found is None:
            return None
        if now_ms - found[1] > REMEMBERED_MS:
            del self._refused[partition, producer_id]
            return None
        return found[0]
