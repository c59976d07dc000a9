"""The oracle of a queue that moves: leases, settles and deduplication hold, whichever group has the queue.

delivered    a message that somebody holds, or that was settled, is not delivered; it has one message id for ever
settled      in time, with the receipt of any group, a settle is accepted
in the end   every acknowledged message was settled, or is delivered
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code
from simulation.checkers.violation import demand

MARGIN_S: Final = 1.5  # Groups have clocks of their own, and replies take time.


@final
class MovedQueueOracle:
    """What is known of one FIFO queue. Keys are `group-sequence`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sends = 0
        self.delivered = 0
        self.settles = 0
        self.acknowledged: set[str] = set()
        self.settled: set[str] = set()
        self._unsure: set[str] = set()  # Somebody has tried to end the lease, and got no reply.
        self._ids: dict[str, str] = {}
        self._held: dict[str, float] = {}  # By key: until when the message is certainly leased.
        self._first: dict[str, int] = {}  # By group: the highest sequence that was delivered.

    def sent(self, key: str, message_id: str) -> None:
        """The message was acknowledged with this id."""
        self.acknowledged.add(key)
        self._identify(key, message_id)

    def received(self, key: str, message_id: str, now_s: float, until_s: float) -> None:
        """A receiver got the message, with a lease that ends then."""
        self.delivered += 1
        demand(key not in self.settled, f"{self.name}: {key} was settled, and is delivered again")
        demand(now_s > self._held.get(key, 0.0), f"{self.name}: {key} is leased, and is delivered to another receiver")
        self._identify(key, message_id)
        group, _, sequence = key.rpartition("-")
        reached = self._first.get(group, -1)
        demand(int(sequence) <= reached + 1, f"{self.name}: {key} is delivered, and {reached + 1} was not")
        self._first[group] = max(reached, int(sequence))
        self._held[key] = until_s - MARGIN_S
        self._unsure.discard(key)

    def tries(self, key: str) -> None:
        """Somebody tries to end the lease."""
        self._held.pop(key, None)

    def ended(self, key: str, code: Code | None, *, settles: bool, in_time: bool) -> None:
        """The reply to a settle or a return; `in_time` says that the lease certainly lasted."""
        demand(code is not Code.INVALID_RECEIPT, f"{self.name}: the receipt of {key} is not accepted")
        if code is None and settles:
            self.settles += 1
            self.settled.add(key)
        elif code is not None and in_time and key not in self._unsure:
            demand(False, f"{self.name}: the lease of {key} is not known: {code.value}")

    def lost(self, key: str) -> None:
        """There was no reply: the lease may have ended."""
        self._unsure.add(key)

    def account(self, rest: set[str]) -> None:
        """At the end: what is delivered when all leases have ended."""
        missing = self.acknowledged - self.settled - self._unsure - rest
        demand(not missing, f"{self.name}: acknowledged messages are lost: {sorted(missing)[:5]}")
        demand(not rest & self.settled, f"{self.name}: settled messages are back: {sorted(rest & self.settled)[:5]}")

    def _identify(self, key: str, message_id: str) -> None:
        known = self._ids.setdefault(key, message_id)
        demand(known == message_id, f"{self.name}: {key} is in the queue twice, as {known} and as {message_id}")
