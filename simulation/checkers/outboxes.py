"""The oracle of messages between groups: each arrives in its target once, and none is lost."""

from __future__ import annotations

from collections import Counter
from typing import final

from simulation.checkers.violation import demand


@final
class OutboxOracle:
    """All messages of a run, by key: the target that each must reach, and what clients found there."""

    def __init__(self) -> None:
        self.sends = 0
        self.acknowledged = 0
        self.found: Counter[tuple[str, str]] = Counter()  # By target and key.
        self._targets: dict[str, str] = {}
        self._safe: set[str] = set()

    def sending(self, key: str, target: str) -> None:
        """A message is about to be sent whose dead letter or answer goes to this target."""
        self.sends += 1
        self._targets[key] = target

    def sent(self, key: str) -> None:
        """The send was acknowledged."""
        self.acknowledged += 1
        self._safe.add(key)

    def received(self, target: str, key: str) -> None:
        """A message was received from a target, and settled."""
        demand(self._targets.get(key) == target, f"{target} has {key}, which was not meant for it")
        self.found[target, key] += 1
        demand(self.found[target, key] == 1, f"{key} was delivered twice to {target}")

    def account(self) -> None:
        """Check at the end, when all outboxes and sources are empty, that nothing is missing."""
        for key in sorted(self._safe):
            demand(self.found[self._targets[key], key] == 1, f"{key} never reached {self._targets[key]}")
