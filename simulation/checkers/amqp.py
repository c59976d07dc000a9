"""The oracle of AMQP: what exchanges, confirms, push consumers, dead letters and transactions promise.

Confirmed      a message that was confirmed is delivered from every queue to which it was routed
Together       a message is in all of its queues or in none, confirmed or not
Flagged        a message that a consumer has seen comes again only with `redelivered`
Alone          while a node lives, no message is with two consumers at once; in a cluster a consumer keeps its
               connection when the leader changes, and what it holds then may be with another consumer too
Dead           a dead letter has left its queue, and its history says why
Moved          a transaction that moves a message leaves it in one place: what was accepted arrives exactly once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, final

from simulation.checkers.violation import demand


@final
class AmqpOracle:
    """All messages of a run, by their bodies, which differ."""

    def __init__(self, alone: bool) -> None:
        self._alone = alone
        self.sends = 0
        self.confirmed = 0
        self._routes: dict[str, tuple[str, ...]] = {}
        self._confirmed: set[str] = set()
        self._seen: dict[str, set[str]] = {}  # By queue.
        self._held: dict[tuple[str, str], tuple[str, int]] = {}  # By queue and body: the consumer, and the boots.
        self._left: set[tuple[str, str]] = set()

    def sending(self, body: str, queues: tuple[str, ...]) -> None:
        self.sends += 1
        self._routes[body] = queues

    def acknowledged(self, body: str) -> None:
        self.confirmed += 1
        self._confirmed.add(body)

    def came(self, queue: str, consumer: str, body: str, redelivered: bool, boots: int) -> None:
        """A consumer is given a message. `boots` counts the starts of nodes."""
        demand(body in self._routes, f"{body} was delivered from {queue} and never sent")
        demand((queue, body) not in self._left, f"{body} comes from {queue}, which it left in a committed transaction")
        seen = self._seen.setdefault(queue, set())
        demand(body not in seen or redelivered, f"{body} comes again from {queue}, and is not marked as redelivered")
        holder, at = self._held.get((queue, body), ("", -1))
        demand(
            not self._alone or not holder or holder == consumer or at != boots,
            f"{body} of {queue} is with {holder}, and {consumer} gets it too",
        )
        seen.add(body)
        self._held[queue, body] = (consumer, boots)

    def ended(self, queue: str, body: str) -> None:
        """The consumer has ended the delivery, or given up its connection."""
        self._held.pop((queue, body), None)

    def died(self, queue: str, body: str, headers: dict[str, Any]) -> None:
        """A dead letter of a queue arrived."""
        demand(body in self._seen.get(queue, ()), f"{body} is a dead letter of {queue}, which never delivered it")
        deaths = [(one["queue"], one["reason"]) for one in headers.get("x-death", [])]
        demand(deaths == [(queue, "rejected")], f"{body} died in {queue}, and its history is {deaths}")

    def left(self, queue: str, body: str) -> None:
        """A transaction that acknowledged a message is committed."""
        self._left.add((queue, body))

    def account(self, moves_from: str, moved: Iterable[str]) -> None:
        """Check everything when all queues are empty, but the one to which transactions have moved messages."""
        counts = Counter(moved)
        for body, count in counts.items():
            demand(count == 1, f"{body} was moved {count} times")
        for body, queues in self._routes.items():
            where = [queue for queue in queues if body in self._seen.get(queue, ())]
            if body in self._confirmed:
                demand(len(where) == len(queues), f"{body} was confirmed for {queues}, and came from {where}")
                if moves_from in queues:
                    demand(counts[body] == 1, f"{body} was accepted, and arrived {counts[body]} times")
            demand(where in ([], list(queues)), f"{body} was routed to {queues}, and came from {where}")
