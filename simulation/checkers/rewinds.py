"""The oracle of a queue that keeps what is settled, used by one client alone: what must come, and what may.

    sent          it must come, until its settle is tried
    settled       it must not come, unless the queue goes back
    unanswered    of a send or a settle: it may come
    went back     everything from there on must come again, settled or not

A fork has all that the queue ever had, from its place on, whatever was settled there.
"""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class RewindOracle:
    """See the module."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.due: set[str] = set()
        self.kept: list[str] = []  # What certainly stands in the log, in the order in which that became known.
        self._known: set[str] = set()
        self._unsure: set[str] = set()  # Sends without an answer that nobody has seen.
        self._may: set[str] = set()
        self.goings_back = 0
        self.forks = 0

    def sent(self, key: str) -> None:
        self._keep(key)
        self.due.add(key)

    def lost_sight(self, key: str) -> None:
        self._unsure.add(key)

    def came(self, key: str) -> None:
        demand(
            key in self.due or key in self._may or key in self._unsure,
            f"{self.queue} gave out {key}, which is settled, or was never sent",
        )
        self._keep(key)

    def settled(self, key: str) -> None:
        self.due.discard(key)
        self._may.discard(key)

    def settle_lost(self, key: str) -> None:
        """It got no answer."""
        self.due.discard(key)
        self._may.add(key)

    def seen(self, keys: list[str]) -> None:
        """Somebody looked at all that is kept, in its order."""
        demand(len(set(keys)) == len(keys), f"{self.queue} shows a message twice")
        missing = self._known.difference(keys)
        demand(not missing, f"{self.queue} does not show {sorted(missing)[:3]}, which it keeps")
        strange = set(keys) - self._known - self._unsure
        demand(not strange, f"{self.queue} shows {sorted(strange)[:3]}, which nobody sent")

    def went_back(self, keys: set[str]) -> None:
        """It was acknowledged that these come again."""
        for key in sorted(keys):
            self._keep(key)
        self.due |= keys
        self.goings_back += 1

    def forked(self, name: str, keys: list[str]) -> None:
        """A fork from the start was emptied."""
        self.forks += 1
        missing = self._known.difference(keys)
        demand(not missing, f"{name} lacks {sorted(missing)[:3]} of {self.queue}")
        strange = set(keys) - self._known - self._unsure
        demand(not strange, f"{name} has {sorted(strange)[:3]}, which {self.queue} never had")
        for key in keys:
            if key in self._unsure:
                self._keep(key)
                self._may.add(key)

    def _keep(self, key: str) -> None:
        self._unsure.discard(key)
        if key not in self._known:
            self._known.add(key)
            self.kept.append(key)
