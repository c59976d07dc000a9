"""Producers whose batch was refused a moment ago, so that what they had sent behind it is not taken for a gap.

A producer has several batches under way. When the first is refused, for instance because too much waits for its commit,
and the next ones arrive after the reason has passed, their sequence numbers do not follow what is in the log. Told of
a gap, a producer would begin a new epoch and send everything again that was not answered, also what is in the log.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code

REMEMBERED_MS: Final = 5_000  # A client has had the answer to everything that it had under way by then.
REMEMBERED_MAX: Final = 10_000  # Producers of partitions; the oldest are forgotten.


@final
class RefusedProducers:
    """See the module."""

    def __init__(self) -> None:
        self._refused: dict[tuple[int, int], tuple[Code, int]] = {}  # In the order of their refusals.

    def note(self, partition: int, producer_id: int, code: Code, now_ms: int) -> None:
        """A batch that was in order was refused."""
        key = (partition, producer_id)
        self._refused.pop(key, None)
        self._refused[key] = (code, now_ms)
        if len(self._refused) > REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]

    def lately(self, partition: int, producer_id: int, now_ms: int) -> Code | None:
        """Why a batch of this producer was refused a moment ago; None if none was."""
        found = self._refused.get((partition, producer_id))
        if found is None:
            return None
        if now_ms - found[1] > REMEMBERED_MS:
            del self._refused[partition, producer_id]
            return None
        return found[0]
