"""Weighted service over several queues, one a priority: service follows the weights and the lowest is still served.

Smooth weighted round robin. With each turn every queue that has something gains its weight, the richest is served and
pays what all gained together. So weights 5, 1, 1 are served a a b a c a a, never five in a row and then nothing; while
all have something, every stretch of turns as long as the weights' sum serves each as often as its weight says. A queue
that has nothing neither gains nor pays: it cannot save up and then shut out the others.

Not durable: a restart begins a fresh round. It refuses to know what a queue is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, final

from longhall.errors import Code, LonghallError

WEIGHT_MAX: Final = 1_000_000
QUEUES_MAX: Final = 256


@final
class WeightedRoundRobin:
    """Whose turn it is."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights: dict[str, int] = {}
        self._credit: dict[str, int] = {}
        self.set_weights(weights)

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """From now on these. Queues that stay keep their place in the round. Ties go to who is named first."""
        if not weights or len(weights) > QUEUES_MAX:
            raise LonghallError(Code.INVALID_REQUEST, f"weighted service takes 1 to {QUEUES_MAX} queues")
        for name, weight in weights.items():
            if not 1 <= weight <= WEIGHT_MAX:
                raise LonghallError(Code.INVALID_REQUEST, f"the weight of {name} is not within 1 and {WEIGHT_MAX}")
        self._weights = dict(weights)
        self._credit = {name: self._credit.get(name, 0) for name in self._weights}

    def choose(self, ready: Collection[str]) -> str | None:
        """The queue to serve next, among those that have something; None if none of ours has."""
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
        """Whom to ask for how many of the next `count` messages, given how many each has, in the order of turns.

        One call for a batch gives the same service as one call for each message.
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
