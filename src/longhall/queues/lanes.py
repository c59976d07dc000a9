"""One lane of a queue: its cursor, its groups, and the rows of the lease table that are its messages.

Every change of a row passes here, because three things must agree at any moment: the row's state, the count of hidden
rows in its group, and the heap of offsets that may go out next. A standard lane has every available row in that heap; a
FIFO lane only the head of each free group. Stale entries are harmless, and bounded.

A FIFO queue may have several lanes of one priority, its peers to each other, and a group may have messages in more than
one of them. Whether it is free is asked of all by whoever gives out (`marks` says in which order); here a change in one
lane is told to the others, whose heads may go out because of it.
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
    """See the module. `index` is the lane's place in its queue, which rows remember."""

    def __init__(self, index: int, cursor: Cursor, leases: Leases, fifo: bool) -> None:
        self.index = index
        self.cursor = cursor
        self.groups: Groups | None = None
        self.peers: list[Lane] = []  # The other lanes of this priority, where there is FIFO.
        self.offers = 0  # Moves on whenever something may have become available.
        self._recent: array[int] | None = None  # What it was, the last times, if anybody wants to know.
        self._recent_from = 0
        self._leases = leases
        self._fifo = fifo

    # Rows

    def admit(self, offset: int, size: int, name: str) -> int:
        """A message becomes outstanding. Whoever does not lease it at once has to `offer` it."""
        row = self._leases.take(self.index, offset, size)
        self.cursor.hold(offset, row)
        self.enrol(row, name)
        return row

    def enrol(self, row: int, name: str) -> None:
        """Tell the row's group. Without FIFO no name is no group; with it, it is a group like any other."""
        if not name and not self._fifo:
            return
        groups = self.groups
        if groups is None:
            groups = self.groups = Groups()
        groups.join(self._leases, row, name)
        if self._leases.is_hidden(row):
            groups.hide(self._leases.group[row])

    def drop(self, row: int) -> None:
        """The message is settled, dead or purged."""
        leases = self._leases
        groups = self.groups
        group = leases.group[row]
        self.cursor.release(leases.offset[row])
        if group >= 0 and groups is not None:
            if leases.is_hidden(row):
                groups.reveal(group)
            name = groups.name_of[group] if self.peers else ""
            group = groups.leave(leases, row)
            if group >= 0 and self._fifo and groups.hidden[group] == 0:
                self._push(leases.offset[groups.head[group]])
            if self.peers:
                self._tell_peers(name)
        leases.give_up(row)

    def clear(self, scan: int) -> None:
        """All its messages are gone; whoever says so clears the lease table too."""
        self.cursor.clear()
        self.cursor.scan = scan
        self.groups = None

    def lease(self, row: int, number: int, now_ms: int, deadline_ms: int) -> None:
        """The message goes out."""
        if self.groups is not None:
            self._hide(row)
        self._leases.lease(row, number, now_ms, deadline_ms)

    def extend(self, row: int, deadline_ms: int) -> None:
        """Its lease ends at another time."""
        self._hide(row)
        self._leases.extend(row, deadline_ms)

    def give_back(self, row: int, now_ms: int, visible_ms: int) -> None:
        """It is given back, to be available now or later."""
        if visible_ms <= now_ms:
            self.reveal(row)
        else:
            self._hide(row)
            self._leases.give_back(row, visible_ms)

    def reveal(self, row: int) -> None:
        """It is hidden no longer."""
        group = self._leases.group[row]
        groups = self.groups
        if group >= 0 and groups is not None and self._leases.is_hidden(row):
            groups.reveal(group)
        self._leases.reveal(row)
        self.offer(row)
        if self.peers and group >= 0 and groups is not None:
            self._tell_peers(groups.name_of[group])

    def _tell_peers(self, name: str) -> None:
        """Something of this group changed here: its first message elsewhere may go out now."""
        for peer in self.peers:
            groups = peer.groups
            group = groups.find(name) if groups is not None else NO_GROUP
            if groups is not None and group >= 0 and groups.hidden[group] == 0:
                peer._push(self._leases.offset[groups.head[group]])

    def is_behind(self, name: str, ends: dict[int, int]) -> bool:
        """Whether a message of this group here has to wait for other lanes: something of it is hidden there, or stands
        there below these ends, or may do so.
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

    # What may go out

    def offer(self, row: int) -> None:
        """The row is READY: note what may go out because of it."""
        group = self._leases.group[row]
        groups = self.groups
        if self._fifo and groups is not None:
            if groups.hidden[group]:
                return
            row = groups.head[group]
        self._push(self._leases.offset[row])

    def is_available(self, row: int) -> bool:
        """Whether the row may go out next."""
        leases = self._leases
        if leases.state[row] != READY:
            return False
        groups = self.groups
        if not self._fifo or groups is None:
            return True
        group = leases.group[row]
        return groups.hidden[group] == 0 and groups.head[group] == row

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
        """The offsets that were offered since there were so many offers; None if that is not known any more."""
        recent = self._recent
        if recent is None:
            self._recent = array("q", [0] * _RECENT)
            self._recent_from = self.offers
            return None
        if offers < self._recent_from or self.offers - offers > _RECENT:
            return None
        return [recent[number % _RECENT] for number in range(offers, self.offers)]

    def note_available(self) -> None:
        """Everything may have become available."""
        self.offers += _RECENT + 1
        self._build_heap()

    def _build_heap(self) -> None:
        """Build it anew from the rows."""
        leases = self._leases
        cursor = self.cursor
        groups = self.groups
        if self._fifo:
            cursor.rebuild_ready([] if groups is None else groups.heads(leases))
            return
        live = cursor.live_between(0, cursor.scan)
        cursor.rebuild_ready([offset for offset in live if leases.state[cursor.find(offset)] == READY])
