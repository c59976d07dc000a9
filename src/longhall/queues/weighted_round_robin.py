"""Smooth weighted round robin over several queues: deliveries follow the weights, and no queue starves.

At each turn every queue with messages gains its weight in credit, the queue with the most credit is served and pays the
sum of all gains. Weights 5, 1, 1 are served a a b a c a a. While all queues have messages, every run of turns as long
as the sum of the weights serves each queue as often as its weight. A queue without messages neither gains nor pays, so
it cannot accumulate credit and starve the others.

The state is not durable: a restart begins a new round. The module does not know what a queue is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, final

from longhall.errors import Code, LonghallError

WEIGHT_MAX: Final = 1_000_000
QUEUES_MAX: Final = 256


@final
class WeightedRoundRobin:
    """Chooses the next queue to serve. The sum of all credits is 0 after each turn."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights: dict[str, int] = {}
        self._credit: dict[str, int] = {}
        self.set_weights(weights)

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Replace the weights. Queues that stay keep their credit. On a tie the first named queue is served."""
        if not weights or len(weights) > QUEUES_MAX:
            raise LonghallError(Code.INVALID_REQUEST, f"weighted service takes 1 to {QUEUES_MAX} queues")
        for name, weight in weights.items():
            if not 1 <= weight <= WEIGHT_MAX:
                raise LonghallError(Code.INVALID_REQUEST, f"the weight of {name} is not between 1 and {WEIGHT_MAX}")
        self._weights = dict(weights)
        self._credit = {name: self._credit.get(name, 0) for name in self._weights}

    def choose(self, ready: Collection[str]) -> str | None:
        """The queue to serve next, among those with messages; None if no known queue is ready."""
        best: str | None = None
        best_credit = 0
        total = 0
        credit = self._credit
        for name, weight in self._weights.items():
            if name not in ready:
                continue
            total += weight
            gained = credit[name] + weight
            credit[name] = gained
            if best is None or gained > best_credit:
                best = name
                best_credit = gained
        if best is not None:
            credit[best] -= total
        return best

    def share(self, waiting: Mapping[str, int], count: int) -> list[tuple[str, int]]:
        """How many of the next `count` messages each queue delivers, given how many each has, in the order of turns.

        One call for a batch gives the same order as one call for each message.
        """
        left = {name: number for name, number in waiting.items() if number > 0 and name in self._weights}
        found: list[tuple[str, int]] = []
        for _ in range(count):
            name = self.choose(left)
            if name is None:
                break
            left[name] -= 1
            if left[name] == 0:
                del left[name]
            if found and found[-1][0] == name:
                found[-1] = (name, found[-1][1] + 1)
            else:
                found.append((name, 1))
        return found
