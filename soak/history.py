"""What was acknowledged to clients, and its comparison with what they read later.

The load records every acknowledgement here as it arrives. The checks compare a snapshot of them with the records of a
read-committed reader and return violations as text. This module does not know how the load talks to a broker.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Place = tuple[str, int]
COMPLAINTS_MAX: Final = 10


class Seen:
    """The records of a read-committed reader, by partition and offset."""

    def __init__(self, records: Mapping[Place, Mapping[int, bytes]]) -> None:
        self.records = records
        self._values: dict[Place, frozenset[bytes]] = {}

    def at(self, place: Place) -> Mapping[int, bytes]:
        return self.records.get(place, {})

    def values(self, place: Place) -> frozenset[bytes]:
        """All values of a partition."""
        if place not in self._values:
            self._values[place] = frozenset(self.at(place).values())
        return self._values[place]

    def count(self) -> int:
        return sum(len(found) for found in self.records.values())


class Outcome(enum.Enum):
    """The outcome of a transaction, as its producer knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # The producer got no certain answer: the transaction may be visible wholly or not at all.


@dataclass
class Transaction:
    parts: list[tuple[Place, bytes]]
    outcome: Outcome = Outcome.OPEN


@dataclass
class Told:
    """Everything that was acknowledged up to some moment."""

    records: dict[Place, dict[int, bytes]] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    commits: dict[tuple[str, Place], int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def count(self) -> int:
        return sum(len(records) for records in self.records.values())


class History:
    """Acknowledgements as they arrive, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told = Told()

    def acknowledged(self, place: Place, offset: int, value: bytes) -> None:
        with self._lock:
            self._told.records.setdefault(place, {})[offset] = value

    def refused(self, what: str) -> None:
        with self._lock:
            self._told.refused.append(what)

    def began(self, name: str, parts: list[tuple[Place, bytes]]) -> None:
        with self._lock:
            self._told.transactions[name] = Transaction(parts)

    def ended(self, name: str, outcome: Outcome) -> None:
        with self._lock:
            self._told.transactions[name].outcome = outcome

    def committed(self, group: str, place: Place, offset: int) -> None:
        with self._lock:
            known = self._told.commits.get((group, place), 0)
            self._told.commits[group, place] = max(known, offset)

    def snapshot(self) -> Told:
        with self._lock:
            return Told(
                records={place: dict(records) for place, records in self._told.records.items()},
                transactions={name: Transaction(t.parts, t.outcome) for name, t in self._told.transactions.items()},
                commits=dict(self._told.commits),
                refused=list(self._told.refused),
            )


def missing(told: Told, seen: Seen) -> list[str]:
    """Acknowledged records that are not at their offset, and committed transactions that are not wholly visible."""
    complaints = []
    for place, records in told.records.items():
        found = seen.at(place)
        for offset, value in records.items():
            if found.get(offset) != value:
                complaints.append(f"{place} at {offset}: {value!r} was acknowledged, {found.get(offset)!r} is there")
    for name, transaction in told.transactions.items():
        if transaction.outcome is Outcome.COMMITTED and not all(_visible(transaction, seen)):
            complaints.append(
                f"transaction {name} was committed and is not wholly visible: {_visible(transaction, seen)}"
            )
    return complaints[:COMPLAINTS_MAX]


def half_visible(told: Told, seen: Seen, *, at_rest: bool) -> list[str]:
    """Aborted transactions that are visible and, at rest, transactions of unknown outcome that are visible in part."""
    complaints = []
    for name, transaction in told.transactions.items():
        visible = _visible(transaction, seen)
        if transaction.outcome is Outcome.ABORTED and any(visible):
            complaints.append(f"transaction {name} was aborted and is visible: {visible}")
        if at_rest and any(visible) and not all(visible):
            complaints.append(f"transaction {name} ({transaction.outcome.value}) is half visible: {visible}")
    return complaints[:COMPLAINTS_MAX]


def _visible(transaction: Transaction, seen: Seen) -> list[bool]:
    return [value in seen.values(place) for place, value in transaction.parts]


def repeated_or_out_of_order(seen: Seen) -> list[str]:
    """Values `writer:number[:...]` whose number does not exceed the previous one of the writer in the partition."""
    complaints = []
    for place, found in seen.records.items():
        last: dict[bytes, tuple[int, ...]] = {}
        for offset in sorted(found):
            writer, _, rest = found[offset].partition(b":")
            number = tuple(int(part) for part in rest.split(b":"))
            if writer in last and number <= last[writer]:
                complaints.append(f"{place} at {offset}: {found[offset]!r} comes after {writer!r}:{last[writer]}")
            last[writer] = number
    return complaints[:COMPLAINTS_MAX]


def carried_wrong(seen: Seen, source: str, target: str, committed: Mapping[Place, int]) -> list[str]:
    """Violations of copying in transactions: the target must have every record below the committed offset, once,
    and no other.
    """
    complaints = []
    for (topic, partition), upto in committed.items():
        if topic != source:
            continue
        records, found = seen.at((source, partition)), seen.at((target, partition))
        expected = [records[offset] for offset in sorted(records) if offset < upto]
        carried = [found[offset] for offset in sorted(found)]
        if expected != carried:
            complaints.append(f"partition {partition}: {len(expected)} records below {upto}, {len(carried)} copied")
    return complaints[:COMPLAINTS_MAX]


def behind(told: Told, found: Mapping[tuple[str, Place], int]) -> list[str]:
    """Group offsets that are lower than an acknowledged commit."""
    return [
        f"group {group} at {place}: {offset} was acknowledged, {found.get((group, place))} was found"
        for (group, place), offset in told.commits.items()
        if found.get((group, place), -1) < offset
    ][:COMPLAINTS_MAX]
