"""The history of every queue message, as senders and receivers saw it, and its checks.

The load reports each step here: before the request and after the answer, with the times of both. The book checks the
node's guarantees at every step and collects violations as text. A request without an answer may have been carried out
or not, and both are accepted. This module does not know how the load talks to a node.

Times are seconds of one monotonic clock. A lease counts from its request, and a delivery from its arrival, so that
delays on the way can only excuse the node.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

COMPLAINTS_MAX: Final = 10
SLACK_SECONDS: Final = 0.05  # The node counts in milliseconds, by its own clock.

Place = tuple[str, str]  # A queue, and the key of a message.


@dataclass
class Fate:
    """One message in one queue."""

    acknowledged: bool = False
    due_at: float = 0.0
    leased_until: float | None = None
    came: tuple[float, float] = (0.0, 0.0)  # When the last delivery was requested, and when it arrived.
    settle_tried: bool = False
    settled_at: float | None = None
    deliveries: int = 0
    message_ids: set[str] = field(default_factory=set)
    born_life: int = -1


@dataclass(frozen=True)
class Delivery:
    """One message of one answer."""

    key: str
    message_id: str
    count: int  # Number of deliveries, as the node counts them.


class Book:
    """The histories of all messages, used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fates: dict[Place, Fate] = {}
        self._floors: dict[Place, tuple[int, float]] = {}
        self._waiting: dict[Place, set[int]] = {}
        self.complaints: list[str] = []
        self.life = 0

    def counts(self) -> dict[str, int]:
        with self._lock:
            fates = list(self._fates.values())
        return {
            "acknowledged": sum(fate.acknowledged for fate in fates),
            "delivered": sum(fate.deliveries for fate in fates),
            "settled": sum(fate.settled_at is not None for fate in fates),
        }

    def complain(self, words: str) -> None:
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(words)

    def sending(self, queue: str, key: str, asked_at: float, delay_seconds: float = 0.0) -> None:
        with self._lock:
            if (queue, key) not in self._fates:  # A repeated send changes nothing.
                self._fates[queue, key] = Fate(due_at=asked_at + delay_seconds)

    def acknowledged(self, queue: str, key: str, message_id: str) -> None:
        """The node acknowledged the message under this id."""
        with self._lock:
            fate = self._fates[queue, key]
            fate.acknowledged = True
            fate.born_life = self.life
            self._same_id(queue, key, fate, message_id)
            if not fate.settle_tried and (line := _line(key)) is not None:
                self._waiting.setdefault((queue, line[0]), set()).add(line[1])

    def delivered(
        self, queue: str, answer: Sequence[Delivery], asked_at: float, arrived_at: float, lease_seconds: float
    ) -> None:
        """The messages of one answer, in order."""
        with self._lock:
            for each in answer:
                fate = self._fates.setdefault((queue, each.key), Fate())
                self._same_id(queue, each.key, fate, each.message_id)
                fate.deliveries += 1
                if asked_at < fate.came[1] and fate.came[1] >= asked_at + lease_seconds - SLACK_SECONDS:
                    continue  # The answer was under way for so long that the previous delivery may be the later one.
                self._may_come(queue, each.key, fate, asked_at, arrived_at)
                fate.leased_until = asked_at + lease_seconds
                fate.came = (asked_at, arrived_at)
            self._in_order(queue, [each.key for each in answer], asked_at, arrived_at)

    def _may_come(self, queue: str, key: str, fate: Fate, asked_at: float, arrived_at: float) -> None:
        if fate.settled_at is not None and asked_at > fate.settled_at:
            self.complain(f"{queue}: {key} came back {asked_at - fate.settled_at:.3f} s after it was settled")
        if fate.leased_until is not None and arrived_at < fate.leased_until - SLACK_SECONDS:
            early = fate.leased_until - arrived_at
            asked, came = arrived_at - asked_at, tuple(round(arrived_at - moment, 3) for moment in fate.came)
            self.complain(
                f"{queue}: {key} was delivered {early:.3f} s before its lease ended; it was asked for {asked:.3f} s "
                f"before, and the delivery before it was asked for and arrived so many seconds before: {came}"
            )
        if arrived_at < fate.due_at - SLACK_SECONDS:
            self.complain(f"{queue}: {key} was delivered {fate.due_at - arrived_at:.3f} s before it was due")

    def _same_id(self, queue: str, key: str, fate: Fate, message_id: str) -> None:
        fate.message_ids.add(message_id)
        if len(fate.message_ids) > 1:
            self.complain(f"{queue}: {key} exists more than once: {sorted(fate.message_ids)}")

    def _in_order(self, queue: str, keys: Sequence[str], asked_at: float, arrived_at: float) -> None:
        """Check the order of keys `group/number`: no number overtakes an unsettled one of its group, and none goes
        back.
        """
        numbers: dict[str, list[int]] = {}
        for key in keys:
            if (line := _line(key)) is not None:
                numbers.setdefault(line[0], []).append(line[1])
        for group, came in numbers.items():
            if came != sorted(came):
                self.complain(f"{queue}: group {group} was delivered as {came} in one answer")
            before = {number for number in self._waiting.get((queue, group), ()) if number < came[-1]}
            if overtaken := before - set(came):
                self.complain(f"{queue}: {came} of group {group} overtook {sorted(overtaken)[:5]}")
            floor, since = self._floors.get((queue, group), (-1, 0.0))
            if came[0] < floor and asked_at > since:
                self.complain(
                    f"{queue}: group {group} went back to {came[0]} after {floor} had been delivered without it"
                )
            if came[0] > floor:
                self._floors[queue, group] = (came[0], arrived_at)

    def giving_back(self, queue: str, key: str) -> None:
        """A give-back is about to be requested: from now on the message may be delivered again."""
        with self._lock:
            self._fates[queue, key].leased_until = None

    def extended(self, queue: str, key: str, until: float) -> None:
        with self._lock:
            self._fates[queue, key].leased_until = until

    def settling(self, queue: str, key: str) -> None:
        """A settle is about to be requested: from now on the message need not be delivered again."""
        with self._lock:
            self._fates[queue, key].settle_tried = True
            if (line := _line(key)) is not None:
                self._waiting.get((queue, line[0]), set()).discard(line[1])

    def settled(self, queue: str, key: str, answered_at: float, lease_until: float) -> None:
        """Settled by a receipt whose lease held until `lease_until`; a settle after that may be accepted without
        effect.
        """
        with self._lock:
            if answered_at < lease_until:
                self._fates[queue, key].settled_at = answered_at

    def fate(self, queue: str, key: str) -> Fate:
        with self._lock:
            return self._fates[queue, key]

    def missing(self, queue: str, found: set[str]) -> list[str]:
        """Acknowledged messages that were never settled and are not in the queue at the end."""
        with self._lock:
            return [
                f"{queue}: {key} was acknowledged and is missing"
                for (place, key), fate in self._fates.items()
                if place == queue and fate.acknowledged and not fate.settle_tried and key not in found
            ][:COMPLAINTS_MAX]

    def resurrected(self, queue: str, found: set[str]) -> list[str]:
        """Settled messages that are in the queue at the end."""
        with self._lock:
            return [
                f"{queue}: {key} was settled and is in the queue again"
                for (place, key), fate in self._fates.items()
                if place == queue and fate.settled_at is not None and key in found
            ][:COMPLAINTS_MAX]

    def acknowledged_keys(self, queue: str) -> set[str]:
        with self._lock:
            return {key for (place, key), fate in self._fates.items() if place == queue and fate.acknowledged}


def _line(key: str) -> tuple[str, int] | None:
    """The group and number of an ordered key; None for other keys."""
    group, slash, number = key.partition("/")
    return (group, int(number)) if slash else None
