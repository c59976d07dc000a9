"""The oracle of logs: acknowledged batches are present, in order, once; records that were read stay; transactions are
atomic.

`seen` receives every record that any reader reads and compares it at once. `settle` receives a whole log at the end and
compares it with all acknowledgements. A reader must not see a record that can still be lost: if it did and the record
was lost, `settle` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import final

from simulation.checkers.sends import Outcome, Place, Send, Transaction
from simulation.checkers.violation import Violation, demand

Entries = list[tuple[int, bytes]]  # Offset and value, in the order of reading.


@final
class LogOracle:
    """All partitions of a run."""

    def __init__(self) -> None:
        self.sends = 0
        self.acknowledged = 0
        self._by_value: dict[bytes, Send] = {}
        self._by_place: dict[Place, list[Send]] = {}
        self._seen: dict[Place, dict[int, bytes]] = {}
        self._stable: dict[Place, dict[int, bytes]] = {}  # Records that readers of committed transactions saw.
        self._offsets: dict[bytes, int] = {}
        self._transactions: list[Transaction] = []
        self._trimmed: dict[Place, int] = {}

    # Reports of writers.

    def sending(
        self, place: Place, writer: str, number: int, values: list[bytes], transaction: Transaction | None = None
    ) -> Send:
        send = Send(place, writer, number, values, transaction)
        self._by_place.setdefault(place, []).append(send)
        for value in values:
            assert value not in self._by_value, "values are sent once"
            self._by_value[value] = send
        if transaction is not None:
            transaction.sends.append(send)
        self.sends += 1
        return send

    def beginning(self, name: str) -> Transaction:
        transaction = Transaction(name)
        self._transactions.append(transaction)
        return transaction

    def sent(self, send: Send, offset: int) -> None:
        """A batch was acknowledged. A second acknowledgement of the same batch must name the same offset."""
        if send.outcome is Outcome.ACKNOWLEDGED:
            demand(send.offset == offset, f"{send} was acknowledged again at {offset}")
        send.outcome = Outcome.ACKNOWLEDGED
        send.offset = offset
        self.acknowledged += 1
        for index, value in enumerate(send.values):
            self._fix(send.place, offset + index, value)

    def refused(self, send: Send) -> None:
        send.outcome = Outcome.REFUSED

    def lost_sight(self, send: Send) -> None:
        """A batch got no answer."""
        if send.outcome is Outcome.OPEN:
            send.outcome = Outcome.UNKNOWN

    def deleted(self, place: Place, offset: int) -> None:
        """A client asked to delete everything before this offset."""
        self._trimmed[place] = max(self._trimmed.get(place, 0), offset)

    def acknowledged_names(self) -> Iterator[bytes]:
        """The names of all acknowledged values: the bytes before the first colon."""
        for sends in self._by_place.values():
            for send in sends:
                if send.outcome is Outcome.ACKNOWLEDGED:
                    for value in send.values:
                        yield value.partition(b":")[0]

    # Reports of readers.

    def seen(self, place: Place, offset: int, value: bytes, *, stable: bool) -> None:
        """A reader saw this record; `stable` if it reads committed transactions only."""
        send = self._by_value.get(value)
        if send is None:
            raise Violation(f"{_short(value)} was read from {place} at {offset} and never sent")
        if send.place != place:
            raise Violation(f"{send} was read from {place} at {offset}")
        if send.outcome is Outcome.REFUSED:
            raise Violation(f"{send} was read at {offset} although it was refused")
        self._fix(place, offset, value)
        self._seen.setdefault(place, {})[offset] = value
        if stable:
            self._stable.setdefault(place, {})[offset] = value
            if send.transaction is not None and send.transaction.aborted:
                raise Violation(f"{send} was read at {offset} and {send.transaction.name} was aborted")

    def _fix(self, place: Place, offset: int, value: bytes) -> None:
        """Check that a value has one offset and an offset one value, in all reports of the run."""
        known = self._seen.setdefault(place, {}).get(offset)
        if known is not None and known != value:
            raise Violation(f"{place} at {offset}: once {_short(known)}, now {_short(value)}")
        at = self._offsets.setdefault(value, offset)
        if at != offset:
            raise Violation(f"{_short(value)} is in {place} at {at} and at {offset}")

    # Checks at the end.

    def settle(
        self,
        place: Place,
        start_offset: int,
        entries: Entries,
        stable: Entries,
        damaged: frozenset[int] = frozenset(),
    ) -> None:
        """Compare the whole log with the reports: all records, and those that readers of committed transactions get.

        Readers were refused the `damaged` offsets: those records count neither as present nor as lost.
        """
        for earlier, later in pairwise(entries):
            demand(earlier[0] < later[0], f"{place}: offset {later[0]} after {earlier[0]}")
        for offset, value in entries:
            self.seen(place, offset, value, stable=False)
        for offset, value in stable:
            self.seen(place, offset, value, stable=True)
        present = dict(entries)
        for send in self._by_place.get(place, ()):
            self._check_present(send, start_offset, present, damaged)
        for offset, value in sorted(self._seen.get(place, {}).items()):
            if offset >= start_offset and offset not in damaged and present.get(offset) != value:
                raise Violation(f"{_short(value)} was read from {place} at {offset} and is gone")
        kept = {offset for offset, _ in stable}
        for offset, value in sorted(self._stable.get(place, {}).items()):
            if offset >= start_offset and offset not in damaged and offset not in kept:
                raise Violation(f"{_short(value)} was read as committed from {place} at {offset} and is hidden")
        self._check_order(place, entries)

    def _check_present(self, send: Send, start_offset: int, present: dict[int, bytes], damaged: frozenset[int]) -> None:
        if send.outcome is not Outcome.ACKNOWLEDGED:
            return
        for index, value in enumerate(send.values):
            offset = send.offset + index
            if offset >= start_offset and offset not in damaged and present.get(offset) != value:
                raise Violation(f"{send} is missing at {offset}: {_short(present.get(offset))}")

    def _check_order(self, place: Place, entries: Entries) -> None:
        last: dict[str, int] = {}
        for offset, value in entries:
            send = self._by_value[value]
            if send.number >= 0:
                if last.get(send.writer, -1) > send.number:
                    raise Violation(f"{send} is at {offset}, behind a later one")
                last[send.writer] = send.number

    def settle_transactions(self, stable: dict[Place, Entries], starts: dict[Place, int]) -> None:
        """Check that each transaction is visible wholly or not at all, in all partitions.

        `starts` are the start offsets of the partitions.
        """
        visible = {value for entries in stable.values() for _, value in entries}
        for transaction in self._transactions:
            promised = self._kept(transaction, starts)
            there = [value for value in promised if value in visible]
            missing = [value for value in promised if value not in visible]
            name = transaction.name
            if transaction.aborted and there:
                raise Violation(f"{name} was aborted and {_short(there[0])} is visible")
            if transaction.committed and missing:
                raise Violation(f"{name} was committed and {_short(missing[0])} is not visible")
            if there and missing:
                raise Violation(f"{name} is half visible: {_short(missing[0])} is not")

    def _kept(self, transaction: Transaction, starts: dict[Place, int]) -> list[bytes]:
        """The acknowledged values of a transaction that retention has not deleted."""
        return [
            value
            for send in transaction.sends
            if send.place in starts and send.outcome is Outcome.ACKNOWLEDGED
            for index, value in enumerate(send.values)
            if send.offset + index >= starts[send.place]
        ]

    def trimmed(self, place: Place) -> int:
        """The offset up to which a client asked to delete."""
        return self._trimmed.get(place, 0)

    def of(self, place: Place) -> list[Send]:
        return self._by_place.get(place, [])

    def places(self) -> list[Place]:
        return sorted(self._by_place)


def _short(value: bytes | None) -> str:
    """The name of a value, without its padding."""
    return "nothing" if value is None else value.partition(b":")[0][:40].decode(errors="replace")


__all__ = ["Entries", "LogOracle", "Violation"]
