"""The oracle of logs: acknowledged is present, in order, once; what was read stays; transactions are all or nothing.

`seen` is told everything that any reader reads, and compares at once; `settle` is told a whole log at the end and
compares it with everything that was promised. A reader must not see what could still be lost: if it did and it was,
`settle` finds out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import final

from longhall.simulation.checkers.sends import Outcome, Place, Send, Transaction
from longhall.simulation.checkers.violation import Violation, demand

Entries = list[tuple[int, bytes]]  # Offset and value, in the order they were read.


@final
class LogOracle:
    """All partitions of a run."""

    def __init__(self) -> None:
        self.sends = 0
        self.acknowledged = 0
        self._by_value: dict[bytes, Send] = {}
        self._by_place: dict[Place, list[Send]] = {}
        self._seen: dict[Place, dict[int, bytes]] = {}
        self._stable: dict[Place, dict[int, bytes]] = {}  # What readers of committed transactions saw.
        self._offsets: dict[bytes, int] = {}
        self._transactions: list[Transaction] = []
        self._trimmed: dict[Place, int] = {}

    # What writers report.

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
        """Acknowledged. A second acknowledgement of the same batch must name the same place."""
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
        """No answer came."""
        if send.outcome is Outcome.OPEN:
            send.outcome = Outcome.UNKNOWN

    def deleted(self, place: Place, offset: int) -> None:
        """Somebody asked to give up everything before this offset."""
        self._trimmed[place] = max(self._trimmed.get(place, 0), offset)

    # What readers report.

    def seen(self, place: Place, offset: int, value: bytes, *, stable: bool) -> None:
        """A reader saw this; `stable` if it reads committed transactions alone."""
        send = self._by_value.get(value)
        demand(send is not None, f"{value[:24]!r} was read from {place} at {offset} and never sent")
        assert send is not None
        demand(send.place == place, f"{send} was read from {place} at {offset}")
        demand(send.outcome is not Outcome.REFUSED, f"{send} was read at {offset} although it was refused")
        self._fix(place, offset, value)
        self._seen.setdefault(place, {})[offset] = value
        if stable:
            self._stable.setdefault(place, {})[offset] = value
            if send.transaction is not None:
                demand(
                    not send.transaction.aborted, f"{send} was read at {offset}; {send.transaction.name} was aborted"
                )

    def _fix(self, place: Place, offset: int, value: bytes) -> None:
        """A value has one offset, and an offset one value, whoever says so and whenever."""
        known = self._seen.setdefault(place, {}).get(offset)
        demand(known is None or known == value, f"{place} at {offset}: once {known!r:.40}, now {value!r:.40}")
        at = self._offsets.setdefault(value, offset)
        demand(at == offset, f"{value[:24]!r} stands in {place} at {at} and at {offset}")

    # At the end.

    def settle(
        self,
        place: Place,
        start_offset: int,
        entries: Entries,
        stable: Entries,
        damaged: frozenset[int] = frozenset(),
    ) -> None:
        """The whole log as it is: everything in it, and what readers of committed transactions get.

        What stood at the `damaged` offsets is refused to readers, who were told so: that is neither there nor lost.
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
            if offset >= start_offset and offset not in damaged:
                demand(present.get(offset) == value, f"{value[:24]!r} was read from {place} at {offset} and is gone")
        kept = {offset for offset, _ in stable}
        for offset, value in sorted(self._stable.get(place, {}).items()):
            if offset >= start_offset and offset not in damaged:
                demand(offset in kept, f"{value[:24]!r} was read as committed from {place} at {offset} and is hidden")
        self._check_order(place, entries)

    def _check_present(self, send: Send, start_offset: int, present: dict[int, bytes], damaged: frozenset[int]) -> None:
        if send.outcome is not Outcome.ACKNOWLEDGED:
            return
        for index, value in enumerate(send.values):
            offset = send.offset + index
            if offset >= start_offset and offset not in damaged:
                demand(present.get(offset) == value, f"{send} is missing at {offset}: {present.get(offset)!r:.40}")

    def _check_order(self, place: Place, entries: Entries) -> None:
        last: dict[str, int] = {}
        for offset, value in entries:
            send = self._by_value[value]
            if send.number >= 0:
                demand(last.get(send.writer, -1) <= send.number, f"{send} stands at {offset}, behind a later one")
                last[send.writer] = send.number

    def settle_transactions(self, stable: dict[Place, Entries], starts: dict[Place, int]) -> None:
        """What readers of committed transactions get, of all partitions: each transaction wholly or not at all.

        `starts` are the offsets from which on each partition is kept.
        """
        visible = {value for entries in stable.values() for _, value in entries}
        for transaction in self._transactions:
            promised = self._kept(transaction, starts)
            there = [value for value in promised if value in visible]
            missing = [value for value in promised if value not in visible]
            if transaction.committed:
                demand(not missing, f"{transaction.name} was committed and {missing[:1]!r:.40} is not visible")
            elif transaction.aborted:
                demand(not there, f"{transaction.name} was aborted and {there[:1]!r:.40} is visible")
            else:
                demand(not there or not missing, f"{transaction.name} is half visible: {missing[:1]!r:.40} is not")

    def _kept(self, transaction: Transaction, starts: dict[Place, int]) -> list[bytes]:
        """The acknowledged values of a transaction, without what retention has cut."""
        return [
            value
            for send in transaction.sends
            if send.place in starts and send.outcome is Outcome.ACKNOWLEDGED
            for index, value in enumerate(send.values)
            if send.offset + index >= starts[send.place]
        ]

    def trimmed(self, place: Place) -> int:
        """Up to where somebody asked to delete."""
        return self._trimmed.get(place, 0)

    def of(self, place: Place) -> list[Send]:
        return self._by_place.get(place, [])

    def places(self) -> list[Place]:
        return sorted(self._by_place)


__all__ = ["Entries", "LogOracle", "Violation"]
