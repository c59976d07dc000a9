"""One lane of a queue: its cursor, its groups, and the rows of the lease table that are its messages.

Every change of a row passes through `Lane`, because three things must always agree: the row's state, the number of
hidden rows in its group, and the heap of offsets that may be delivered next. A standard lane has every available row in
that heap; a FIFO lane has only the heads of groups that are available. Stale entries are harmless and bounded.

A FIFO queue may have several lanes of one priority (peers), and a group may have messages in more than one of them. The
delivery selection checks all peers (`marks` defines the order); a change in one lane offers the group's heads in its
peers again.
"""

from __future__ import annotations

from array import array
from heapq import heappush
from typing import Final, final

from longhall.queues.cursor import Cursor
from longhall.queues.groups import NO_GROUP, Groups
from longhall.queues.leases import READY, Leases

_SLACK: Final = 64
_RECENT: Final = 1024


@final
class Lane:
    """One lane with its rows. `index` is its position in the queue's list of lanes; rows refer to it."""

    def __init__(self, index: int, cursor: Cursor, leases: Leases, fifo: bool) -> None:
        self.index = index
        self.cursor = cursor
        self.groups: Groups | None = None
        self.peers: list[Lane] = []  # FIFO: the other lanes of this priority.
        self.offers = 0  # Counts offers: rises whenever a message may have become available.
        self._recent: array[int] | None = None  # The last offered offsets; allocated on first use.
        self._recent_from = 0
        self._leases = leases
        self._fifo = fifo

    # Rows

    def admit(self, offset: int, size: int, name: str) -> int:
        """Make a message outstanding. The caller leases or offers it."""
        row = self._leases.take(self.index, offset, size)
        self.cursor.hold(offset, row)
        self.enrol(row, name)
        return row

    def enrol(self, row: int, name: str) -> None:
        """Add the row to its group. In a FIFO queue the empty name is a group too; in others it is none."""
        if not name and not self._fifo:
            return
        groups = self.groups
        if groups is None:
            groups = self.groups = Groups()
        groups.join(self._leases, row, name)
        if self._leases.is_hidden(row):
            groups.hide(self._leases.group[row])

    def drop(self, row: int) -> None:
        """Free the row of a settled, dead-lettered or purged message."""
        leases = self._leases
        groups = self.groups
        group = leases.group[row]
        self.cursor.release(leases.offset[row])
        if group >= 0 and groups is not None:
            if leases.is_hidden(row):
                groups.reveal(group)
            name = groups.name_of[group] if self.peers else ""
            group = groups.leave(leases, row)
            if group >= 0 and self._fifo and leases.state[groups.head[group]] == READY:
                self._push(leases.offset[groups.head[group]])
            if self.peers:
                self._offer_to_peers(name)
        leases.give_up(row)

    def clear(self, scan: int) -> None:
        """Drop all messages; the caller clears the lease table."""
        self.cursor.clear()
        self.cursor.scan = scan
        self.groups = None

    def lease(self, row: int, number: int, now_ms: int, deadline_ms: int) -> None:
        """Lease the message."""
        if self.groups is not None:
            self._hide(row)
        self._leases.lease(row, number, now_ms, deadline_ms)

    def extend(self, row: int, deadline_ms: int) -> None:
        """Change the deadline of a lease."""
        self._hide(row)
        self._leases.extend(row, deadline_ms)

    def give_back(self, row: int, now_ms: int, visible_ms: int) -> None:
        """Return the message, available now or later."""
        if visible_ms <= now_ms:
            self.reveal(row)
        else:
            self._hide(row)
            self._leases.give_back(row, visible_ms)

    def reveal(self, row: int) -> None:
        """Make a hidden message available."""
        group = self._leases.group[row]
        groups = self.groups
        if group >= 0 and groups is not None and self._leases.is_hidden(row):
            groups.reveal(group)
        self._leases.reveal(row)
        self.offer(row)
        if self.peers and group >= 0 and groups is not None:
            self._offer_to_peers(groups.name_of[group])

    def _offer_to_peers(self, name: str) -> None:
        """Offer the heads of this group in the peers: a change here may have freed the group."""
        for peer in self.peers:
            groups = peer.groups
            group = groups.find(name) if groups is not None else NO_GROUP
            if groups is not None and group >= 0 and self._leases.state[groups.head[group]] == READY:
                peer._push(self._leases.offset[groups.head[group]])

    def is_behind(self, name: str, ends: dict[int, int]) -> bool:
        """True if a message of this group must wait for a peer: the peer has hidden messages of the group, has some
        below these ends, or has not scanned up to its end.
        """
        for peer in self.peers:
            end = ends.get(peer.cursor.lane, 0)
            if peer.cursor.scan < end:
                return True
            groups = peer.groups
            group = groups.find(name) if groups is not None else NO_GROUP
            if groups is None or group < 0:
                continue
            if groups.hidden[group] or self._leases.offset[groups.head[group]] < end:
                return True
        return False

    def _hide(self, row: int) -> None:
        group = self._leases.group[row]
        groups = self.groups
        if group >= 0 and groups is not None and not self._leases.is_hidden(row):
            groups.hide(group)

    # Availability

    def offer(self, row: int) -> None:
        """Offer a READY row, or in a FIFO queue the head of its group if that is READY."""
        group = self._leases.group[row]
        groups = self.groups
        if self._fifo and groups is not None:
            row = groups.head[group]
            if self._leases.state[row] != READY:
                return
        self._push(self._leases.offset[row])

    def is_available(self, row: int) -> bool:
        """True if the row may be delivered next."""
        leases = self._leases
        if leases.state[row] != READY:
            return False
        groups = self.groups
        if not self._fifo or groups is None:
            return True
        group = leases.group[row]
        return groups.head[group] == row

    def _push(self, offset: int) -> None:
        cursor = self.cursor
        recent = self._recent
        if recent is not None:
            recent[self.offers % _RECENT] = offset
        self.offers += 1
        heappush(cursor.ready, offset)
        if len(cursor.ready) > 2 * cursor.outstanding + _SLACK:
            self._build_heap()

    def offered_since(self, offers: int) -> list[int] | None:
        """The offsets offered since the offer count was `offers`; None if they are no longer known."""
        recent = self._recent
        if recent is None:
            self._recent = array("q", [0] * _RECENT)
            self._recent_from = self.offers
            return None
        if offers < self._recent_from or self.offers - offers > _RECENT:
            return None
        return [recent[number % _RECENT] for number in range(offers, self.offers)]

    def note_available(self) -> None:
        """Offer everything again."""
        self.offers += _RECENT + 1
        self._build_heap()

    def _build_heap(self) -> None:
        """Rebuild the heap from the rows."""
        leases = self._leases
        cursor = self.cursor
        groups = self.groups
        if self._fifo:
            cursor.rebuild_ready([] if groups is None else groups.heads(leases))
            return
        live = cursor.live_between(0, cursor.scan)
        cursor.rebuild_ready([offset for offset in live if leases.state[cursor.find(offset)] == READY])
