"""The oracle of exactly-once work: every accepted task has one result, whoever died in between.

Once       the results have no task twice, however often it was sent or delivered
Lost       every task whose send was acknowledged has a result at the end
Refused    a task that breaks a rule of the queue has none
Early      no task is delivered before its delay is over
Bound      the queue never has more messages than its capacity
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

from simulation.checkers.violation import demand

SLACK_S: Final = 0.002


@final
class ExactlyOnceOracle:
    """All tasks of a run, by their keys."""

    def __init__(self, delay_s: float, messages_max: int) -> None:
        self._delay_s = delay_s
        self._messages_max = messages_max
        self._first_sent_s: dict[str, float] = {}
        self._acknowledged: set[str] = set()
        self._refused: set[str] = set()

    def sending(self, key: str, now_s: float) -> None:
        self._first_sent_s.setdefault(key, now_s)

    def acknowledged(self, key: str) -> None:
        self._acknowledged.add(key)

    def must_not_be(self, key: str) -> None:
        """The queue may not accept this task."""
        self._refused.add(key)

    def came(self, key: str, now_s: float) -> None:
        """A consumer received the task."""
        demand(key in self._first_sent_s, f"{key} was delivered and never sent")
        demand(key not in self._refused, f"{key} was delivered although it breaks a rule of the queue")
        due_s = self._first_sent_s[key] + self._delay_s
        demand(now_s >= due_s - SLACK_S, f"{key} was delivered {due_s - now_s:.3f} s before its delay was over")

    def measured(self, messages: int) -> None:
        demand(messages <= self._messages_max, f"the queue has {messages} messages, and may have {self._messages_max}")

    def account(self, results: Iterable[str]) -> None:
        """Check the results when the queue is empty."""
        counts = Counter(results)
        for key, count in counts.items():
            demand(count == 1, f"the task {key} has {count} results")
            demand(key in self._first_sent_s, f"{key} has a result and was never sent")
            demand(key not in self._refused, f"{key} has a result although it breaks a rule of the queue")
        for key in self._acknowledged:
            demand(key in counts, f"the task {key} was accepted, and has no result")
