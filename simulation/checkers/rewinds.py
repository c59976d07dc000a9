"""The oracle of a queue with `settled: keep` and a single client: which messages must be delivered, and which may be.

sent          must be delivered, until a settle is tried
settled       must not be delivered, unless the queue is rewound
unanswered    of a send or a settle: may be delivered
rewound       every message from the position on must be delivered again, settled or not

A fork has every message that the queue ever had, from its start position on, settled or not.
"""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class RewindOracle:
    """The messages of one queue: those that must still be delivered, those that may be, and the log's known
    contents.
    """

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.due: set[str] = set()
        self.kept: list[str] = []  # Messages that are certainly in the log, in the order in which that became known.
        self._known: set[str] = set()
        self._unsure: set[str] = set()  # Unanswered sends whose message was never seen.
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
            f"{self.queue} delivered {key}, which is settled or was never sent",
        )
        self._keep(key)

    def settled(self, key: str) -> None:
        self.due.discard(key)
        self._may.discard(key)

    def settle_lost(self, key: str) -> None:
        """A settle got no answer."""
        self.due.discard(key)
        self._may.add(key)

    def seen(self, keys: list[str]) -> None:
        """A client listed all messages of the log, in order."""
        demand(len(set(keys)) == len(keys), f"{self.queue} lists a message twice")
        missing = self._known.difference(keys)
        demand(not missing, f"{self.queue} does not list {sorted(missing)[:3]}, which its log has")
        strange = set(keys) - self._known - self._unsure
        demand(not strange, f"{self.queue} lists {sorted(strange)[:3]}, which were never sent")

    def went_back(self, keys: set[str]) -> None:
        """A rewind was acknowledged: these messages must be delivered again."""
        for key in sorted(keys):
            self._keep(key)
        self.due |= keys
        self.goings_back += 1

    def forked(self, name: str, keys: list[str]) -> None:
        """A fork from the start was drained and had these messages."""
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
